/* One request and its answer. */
#include <sys/socket.h>
#include <sys/un.h>

#include "web/web-impl.h"

void tn_web_answer_done(struct tn_web_answer *answer)
{
    tn_buf_done(&answer->body);
    tn_buf_done(&answer->headers);
}

char *tn_web_answer_header(const struct tn_web_answer *answer, const char *name)
{
    size_t n = strlen(name);

    for (const char *line = tn_buf_str(&answer->headers); *line;) {
        size_t length = strcspn(line, "\n");
        if (strncmp(line, name, n) == 0 && line[n] == ':' && length >= n + 2)
            return tn_strndup(line + n + 2, length - n - 2);
        line += length + (line[length] == '\n');
    }
    return NULL;
}

/* --- errors ----------------------------------------------------------------------------------- */

/* Faults of theirs are not our own. */
static enum tn_code code_of_status(int status)
{
    static const struct {
        int status;
        enum tn_code code;
    } others[] = {
        {401, TN_E_DENIED},  {407, TN_E_DENIED},      {503, TN_E_BUSY},
        {504, TN_E_TIMEOUT}, {501, TN_E_UNSUPPORTED},
    };

    for (size_t i = 0; i < TN_COUNT(others); i++)
        if (others[i].status == status)
            return others[i].code;
    for (int code = TN_OK + 1; code < TN_CODE_COUNT && status < 500; code++)
        if (tn_code_row((enum tn_code)code)->http_status == status)
            return (enum tn_code)code;
    return status >= 400 && status < 500 ? TN_E_INVALID : TN_E_PEER;
}

int tn_web_refused(const struct tn_web_answer *answer, const char *text, struct tn_error *err)
{
    tn_autofree char *start = NULL;

    if (!text) {
        start = tn_strndup(tn_buf_str(&answer->body), 300);
        start[strcspn(start, "\r\n")] = '\0';
        text = start;
    }
    return tn_fail(err, code_of_status(answer->status), "%s (HTTP %d)", *text ? text : "refused",
                   answer->status);
}

static const struct {
    CURLcode code;
    enum tn_code mapped;
    int sys;
} failures[] = {
    {CURLE_COULDNT_RESOLVE_HOST, TN_E_PEER, EHOSTUNREACH},
    {CURLE_COULDNT_RESOLVE_PROXY, TN_E_PEER, EHOSTUNREACH},
    {CURLE_COULDNT_CONNECT, TN_E_PEER, ECONNREFUSED},
    {CURLE_OPERATION_TIMEDOUT, TN_E_TIMEOUT, ETIMEDOUT},
    {CURLE_SSL_CONNECT_ERROR, TN_E_DENIED, EPROTO},
    {CURLE_PEER_FAILED_VERIFICATION, TN_E_DENIED, EPROTO},
    {CURLE_SSL_CERTPROBLEM, TN_E_DENIED, EPROTO},
    {CURLE_SSL_CACERT_BADFILE, TN_E_DENIED, EPROTO},
    {CURLE_SSL_CIPHER, TN_E_DENIED, EPROTO},
    {CURLE_SSL_ISSUER_ERROR, TN_E_DENIED, EPROTO},
    {CURLE_OUT_OF_MEMORY, TN_E_INTERNAL, ENOMEM},
    {CURLE_URL_MALFORMAT, TN_E_INVALID, EINVAL},
    {CURLE_UNSUPPORTED_PROTOCOL, TN_E_INVALID, EINVAL},
};

/* libcurl says only that it could not connect: find out why. */
static int socket_errno(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    tn_autofd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (strlen(path) >= sizeof a.sun_path)
        return ENAMETOOLONG;
    memcpy(a.sun_path, path, strlen(path));
    return fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof a) < 0 ? errno : ECONNREFUSED;
}

static int connect_failed(const struct tn_web *web, struct web_transfer *t, struct tn_error *err)
{
    long sys = 0;

    if (web->socket) {
        int why = socket_errno(web->socket);
        tn_fail_errno(err, why, "%s", web->socket);
        if (err && (why == ECONNREFUSED || why == EAGAIN))
            err->code = TN_E_PEER;
        return -1;
    }
    t->curl->easy_getinfo(t->easy, CURLINFO_OS_ERRNO, &sys);
    tn_fail(err, TN_E_PEER, "%s", t->detail);
    if (err)
        err->sys = sys ? (int)sys : ECONNREFUSED;
    return -1;
}

/* A handshake that the other side broke off: that it restarts, not that it is not trusted. */
static bool is_cut(CURLcode code, const char *detail)
{
    return code == CURLE_SSL_CONNECT_ERROR &&
           (strstr(detail, "SSL_ERROR_SYSCALL") || strstr(detail, "unexpected eof") ||
            strstr(detail, "reset by peer"));
}

int web_failed(const struct tn_web *web, struct web_transfer *t, CURLcode code,
               struct tn_error *err)
{
    enum tn_code mapped = TN_E_PEER;
    int sys = EPIPE;

    if (t->barred) {
        tn_fail(err, TN_E_DENIED,
                "it is at an address of this machine or of a private network, "
                "where its sender has no business");
        if (err)
            err->sys = EHOSTUNREACH;
        return -1;
    }
    if (code == CURLE_COULDNT_CONNECT)
        return connect_failed(web, t, err);
    for (size_t i = 0; i < TN_COUNT(failures) && !is_cut(code, t->detail); i++) {
        if (failures[i].code == code) {
            mapped = failures[i].mapped;
            sys = failures[i].sys;
        }
    }
    tn_fail(err, mapped, "%s%s", sys == EPROTO ? "TLS: " : "",
            *t->detail ? t->detail : t->curl->easy_strerror(code));
    if (err)
        err->sys = sys;
    return -1;
}

/* --- callbacks -------------------------------------------------------------------------------- */

static long status_of(struct web_transfer *t)
{
    long status = 0;

    t->curl->easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
    return status;
}

static size_t on_body(char *bytes, size_t size, size_t n, void *ctx)
{
    struct web_transfer *t = ctx;
    long status = status_of(t);

    n *= size;
    t->moved = tn_now();
    if (t->call->sink && status >= 200 && status < 300) {
        t->answer->stopped = t->call->sink(bytes, n, t->call->sink_ctx) != 0;
        return t->answer->stopped ? 0 : n;
    }
    t->overflow = tn_buf_add(&t->answer->body, bytes, n) < 0;
    return t->overflow ? 0 : n;
}

/* Lines of several answers may come by (100 Continue, a proxy's); those of the last one count. */
static size_t on_header(char *bytes, size_t size, size_t n, void *ctx)
{
    struct web_transfer *t = ctx;
    struct tn_buf *out = &t->answer->headers;
    size_t name = 0, end = n *= size;

    t->moved = tn_now();
    if (n >= 5 && memcmp(bytes, "HTTP/", 5) == 0) {
        tn_buf_reset(out);
        return n;
    }
    while (end > 0 && strchr("\r\n \t", bytes[end - 1]))
        end--;
    if (end == 0 && t->call->begun && status_of(t) >= 200 && status_of(t) < 300)
        t->call->begun(t->call->sink_ctx);
    while (name < end && bytes[name] != ':')
        name++;
    if (name == 0 || name == end)
        return n;
    for (size_t i = 0; i < name; i++)
        tn_buf_putc(out, bytes[i] >= 'A' && bytes[i] <= 'Z' ? (char)(bytes[i] | 0x20) : bytes[i]);
    tn_buf_puts(out, ": ");
    for (name++; name < end && (bytes[name] == ' ' || bytes[name] == '\t');)
        name++;
    tn_buf_add(out, bytes + name, end - name);
    tn_buf_putc(out, '\n');
    t->overflow = !tn_buf_ok(out);
    return t->overflow ? 0 : n;
}

static size_t on_source(char *to, size_t size, size_t n, void *ctx)
{
    struct web_transfer *t = ctx;
    ssize_t got = t->call->source(to, size * n, t->call->source_ctx, &t->source_error);

    t->moved = tn_now();
    if (got >= 0)
        return (size_t)got;
    t->source_failed = true;
    return CURL_READFUNC_ABORT;
}

/* --- options ---------------------------------------------------------------------------------- */

static void set_blob(struct web_transfer *t, CURLoption option, char *text)
{
    struct curl_blob blob = {.data = text, .len = strlen(text), .flags = CURL_BLOB_NOCOPY};

    t->curl->easy_setopt(t->easy, option, &blob);
}

static void set_tls(const struct tn_web *web, struct web_transfer *t)
{
    const struct {
        CURLoption file, blob;
        const char *path;
        char *text;
    } parts[] = {
        {CURLOPT_CAINFO, CURLOPT_CAINFO_BLOB, web->ca_file, web->ca},
        {CURLOPT_SSLCERT, CURLOPT_SSLCERT_BLOB, web->cert_file, web->cert},
        {CURLOPT_SSLKEY, CURLOPT_SSLKEY_BLOB, NULL, web->key},
    };

    for (size_t i = 0; i < TN_COUNT(parts); i++) {
        if (parts[i].path)
            t->curl->easy_setopt(t->easy, parts[i].file, parts[i].path);
        if (parts[i].text)
            set_blob(t, parts[i].blob, parts[i].text);
    }
    if (web->ca)
        t->curl->easy_setopt(t->easy, CURLOPT_CAPATH, NULL); /* the system's are not trusted too */
    t->curl->easy_setopt(t->easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    t->curl->easy_setopt(t->easy, CURLOPT_SSL_VERIFYPEER, web->insecure ? 0L : 1L);
    t->curl->easy_setopt(t->easy, CURLOPT_SSL_VERIFYHOST, web->insecure ? 0L : 2L);
}

static void set_body(struct web_transfer *t)
{
    const struct tn_web_call *call = t->call;
    const char *method = call->method;
    const struct web_curl *curl = t->curl;

    if (call->source) {
        curl->easy_setopt(t->easy, CURLOPT_UPLOAD, 1L);
        curl->easy_setopt(t->easy, CURLOPT_READFUNCTION, on_source);
        curl->easy_setopt(t->easy, CURLOPT_READDATA, t);
        curl->easy_setopt(t->easy, CURLOPT_INFILESIZE_LARGE, (curl_off_t)call->source_len);
        /* What was taken from the source cannot be sent again over another connection. */
        curl->easy_setopt(t->easy, CURLOPT_FRESH_CONNECT, 1L);
        method = method ? method : "POST";
    } else if (call->body || (method && strcmp(method, "POST") == 0)) {
        curl->easy_setopt(t->easy, CURLOPT_POST, 1L);
        curl->easy_setopt(t->easy, CURLOPT_POSTFIELDS, call->body ? call->body : "");
        curl->easy_setopt(t->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)call->body_len);
    } else if (method && strcmp(method, "HEAD") == 0) {
        curl->easy_setopt(t->easy, CURLOPT_NOBODY, 1L);
    }
    if (method)
        curl->easy_setopt(t->easy, CURLOPT_CUSTOMREQUEST, method);
}

void web_set_place(const struct tn_web *web, struct web_transfer *t, const char *url)
{
    const struct web_curl *curl = t->curl;
    CURL *easy = t->easy;

    curl->easy_setopt(easy, CURLOPT_URL, url);
    curl->easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl->easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl->easy_setopt(easy, CURLOPT_USERAGENT, "tendon/" TN_VERSION);
    curl->easy_setopt(easy, CURLOPT_ERRORBUFFER, t->detail);
    curl->easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    curl->easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)(web->connect_timeout * 1000));
    if (web->socket) {
        curl->easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, web->socket);
        curl->easy_setopt(easy, CURLOPT_PROXY, ""); /* whatever the environment says */
    } else if (web->proxy) {
        curl->easy_setopt(easy, CURLOPT_PROXY, web->proxy);
        curl->easy_setopt(easy, CURLOPT_NOPROXY, "");
    }
    if (web->connect_to)
        curl->easy_setopt(easy, CURLOPT_CONNECT_TO, web->connect_to);
    set_tls(web, t);
}

static void set_http2(const struct tn_web *web, struct web_transfer *t)
{
    bool tls = strncmp(web->base, "https:", 6) == 0;

    t->curl->easy_setopt(t->easy, CURLOPT_HTTP_VERSION,
                         tls ? (long)CURL_HTTP_VERSION_2TLS
                             : (long)CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE);
    /* libcurl 7.88 fails with the second request over a connection without TLS. */
    t->curl->easy_setopt(t->easy, CURLOPT_FORBID_REUSE, tls ? 0L : 1L);
}

static void set_options(const struct tn_web *web, struct web_transfer *t, const char *url,
                        struct curl_slist *headers)
{
    const struct web_curl *curl = t->curl;
    CURL *easy = t->easy;

    web_set_place(web, t, url);
    web_set_guard(web, t);
    if (t->call->once)
        curl->easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L);
    if (web->http2)
        set_http2(web, t);
    curl->easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
    curl->easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    curl->easy_setopt(easy, CURLOPT_WRITEDATA, t);
    curl->easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    curl->easy_setopt(easy, CURLOPT_HEADERDATA, t);
    set_body(t);
}

/* --- the call --------------------------------------------------------------------------------- */

static int64_t give_up_at(const struct web_transfer *t)
{
    const struct tn_web_call *call = t->call;

    if (call->idle <= 0)
        return call->deadline;
    int64_t idle = t->moved + (int64_t)(call->idle * 1e9);
    return idle < call->deadline ? idle : call->deadline;
}

static int too_late(const struct web_transfer *t, struct tn_error *err)
{
    if (tn_now() >= t->call->deadline)
        return tn_fail(err, TN_E_TIMEOUT, "no answer in time");
    return tn_fail(err, TN_E_TIMEOUT, "nothing moved for %g seconds", t->call->idle);
}

int web_carry_out(struct web_line *line, struct web_transfer *t, CURLcode *result,
                  struct tn_error *err)
{
    int cancel = t->call->cancel;
    int running = 1, left;

    for (;;) {
        struct curl_waitfd extra = {.fd = cancel, .events = CURL_WAIT_POLLIN};
        CURLMcode code = t->curl->multi_perform(line->multi, &running);

        if (code == CURLM_OK && !running)
            break;
        int64_t until = give_up_at(t);
        if (tn_now() >= until)
            return too_late(t, err);
        int ms = tn_poll_ms(until);
        if (code == CURLM_OK)
            code = t->curl->multi_poll(line->multi, &extra, cancel > 0 ? 1 : 0,
                                       ms < 0 ? 60 * 1000 : ms, NULL);
        if (code != CURLM_OK)
            return tn_fail(err, TN_E_INTERNAL, "libcurl: %s", t->curl->multi_strerror(code));
        if (cancel > 0 && extra.revents) {
            tn_fail(err, TN_E_GONE, "cancelled");
            if (err)
                err->sys = ECANCELED;
            return -1;
        }
    }
    for (CURLMsg *message; (message = t->curl->multi_info_read(line->multi, &left));) {
        if (message->msg == CURLMSG_DONE) {
            *result = message->data.result;
            return 1;
        }
    }
    return tn_fail(err, TN_E_INTERNAL, "libcurl has lost a transfer");
}

static int judge(const struct tn_web *web, struct web_transfer *t, CURLcode result,
                 struct tn_error *err)
{
    char *peer = NULL;

    t->answer->status = (int)status_of(t);
    if (!web_proxy_named(web) && !web->socket &&
        t->curl->easy_getinfo(t->easy, CURLINFO_PRIMARY_IP, &peer) == CURLE_OK && peer)
        snprintf(t->answer->peer, sizeof t->answer->peer, "%s", peer);
    if (t->answer->stopped)
        return 0;
    if (t->overflow)
        return tn_fail(err, TN_E_TOO_LARGE, "the answer has more than %zu bytes",
                       t->answer->body.max);
    if (t->source_failed) {
        if (err)
            *err = t->source_error;
        return -1;
    }
    /* It answered before it had read everything, and closed: the answer is what counts. */
    if (result == CURLE_SEND_ERROR && t->answer->status >= 400)
        return 0;
    return result == CURLE_OK ? 0 : web_failed(web, t, result, err);
}

static int transfer(struct tn_web *web, struct web_line *line, struct web_transfer *t,
                    struct tn_error *err)
{
    tn_autofree char *url = tn_asprintf("%s%s", web->place, t->call->target);
    struct curl_slist *headers = NULL, *pinned = NULL;
    CURLcode result = CURLE_OK;
    int r = web_headers(web, t->call, &headers, err);

    if (r == 0)
        r = web_guard(web, t, &pinned, err);
    if (r == 0) {
        set_options(web, t, url, headers);
        CURLMcode added = t->curl->multi_add_handle(line->multi, line->easy);
        r = added == CURLM_OK
                ? web_carry_out(line, t, &result, err)
                : tn_fail(err, TN_E_INTERNAL, "libcurl: %s", t->curl->multi_strerror(added));
        if (r > 0)
            r = judge(web, t, result, err);
        t->curl->multi_remove_handle(line->multi, line->easy);
        t->curl->easy_reset(line->easy); /* it must not remember what ends with this call */
    }
    t->curl->slist_free_all(headers);
    t->curl->slist_free_all(pinned);
    return r;
}

/* "POST http://host/path", without the query. */
static int context(const struct tn_web *web, const struct tn_web_call *call, struct tn_error *err)
{
    const char *method = call->method ? call->method : call->body || call->source ? "POST" : "GET";

    return tn_error_context(err, "%s %s%.*s", method, web->socket ? "" : web->base,
                            (int)strcspn(call->target, "?"), call->target);
}

int tn_web_call(struct tn_web *web, const struct tn_web_call *call, struct tn_web_answer *answer,
                struct tn_error *err)
{
    struct web_transfer t = {.call = call, .answer = answer, .curl = web->curl, .moved = tn_now()};

    tn_buf_reset(&answer->body);
    tn_buf_reset(&answer->headers);
    answer->status = 0;
    answer->stopped = false;
    *answer->peer = '\0';
    if (*call->target != '/' || strpbrk(call->target, " \t\r\n#"))
        return tn_fail(err, TN_E_INVALID, "%s: not a path", call->target);
    struct web_line *line = web_line_take(web);
    if (!line)
        return tn_fail(err, TN_E_INTERNAL, "no memory for a connection");
    t.easy = line->easy;
    int r = transfer(web, line, &t, err);
    web_line_give(web, line, r == 0);
    return r < 0 ? context(web, call, err) : 0;
}
