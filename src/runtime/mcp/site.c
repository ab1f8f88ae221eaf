#include "runtime/mcp/site.h"

#include <poll.h>
#include <strings.h>
#include <sys/eventfd.h>

#include "base/base64.h"
#include "net/url.h"
#include "runtime/mcp/oauth-key.h"

#define CONNECT_SECONDS 30.0
enum { REDIRECTIONS_MAX = 5, LOGINS_MAX = 2 };

/* --- addresses ------------------------------------------------------------------------------ */

/* What follows the scheme; NULL for another scheme. */
static const char *after_scheme(const char *url)
{
    if (strncasecmp(url, "http://", 7) == 0)
        return url + 7;
    return strncasecmp(url, "https://", 8) == 0 ? url + 8 : NULL;
}

static int set_header(struct mcp_site *site, const char *name, const char *value,
                      struct tn_error *err)
{
    if (site->web)
        return tn_web_header(site->web, name, value, err);
    mcp_dial_header(site->dial, name, value);
    return 0;
}

/* "user:password" of a URL, decoded, as the header says it. */
static int set_credentials(struct mcp_site *site, const char *text, size_t n, struct tn_error *err)
{
    tn_autofree char *plain = tn_calloc(1, n + 1);
    tn_autobuf struct tn_buf value = TN_BUF_INIT(16 << 10);
    ssize_t length = tn_url_decode(text, n, plain, false);

    if (length < 0)
        return tn_fail(err, TN_E_INVALID, "the user in the URL is not well encoded");
    tn_buf_puts(&value, "Basic ");
    tn_base64_encode(&value, plain, (size_t)length);
    return set_header(site, "Authorization", tn_buf_str(&value), err);
}

static int set_headers(struct mcp_site *site, const struct mcp_server *server, struct tn_error *err)
{
    tn_autofree char *bearer = server->key ? tn_asprintf("Bearer %s", server->key) : NULL;
    const struct {
        const char *name, *value;
    } headers[] = {
        {"Authorization", bearer},
        {"s", server->key},
        {"X-Session-API-Key", server->key},
        {"X-OpenHands-ServerConversation-ID", server->session},
    };

    for (size_t i = 0; i < TN_COUNT(headers); i++)
        if (headers[i].value && set_header(site, headers[i].name, headers[i].value, err) < 0)
            return -1;
    return 0;
}

int mcp_site_open(struct mcp_site *site, const struct mcp_server *server, const char *url,
                  struct tn_error *err)
{
    const char *host = after_scheme(url);

    *site = (struct mcp_site){.stop = -1, .oauth = server->oauth};
    pthread_mutex_init(&site->lock, NULL);
    if (!host)
        return tn_fail(err, TN_E_UNSUPPORTED, "MCP is spoken over http:// and https:// only");
    size_t n = strcspn(host, "/?#");
    const char *at = memrchr(host, '@', n);
    const char *start = at ? at + 1 : host;
    const char *path = host + n;
    size_t path_len = strcspn(path, "#");

    site->base = tn_asprintf("%.*s%.*s", (int)(host - url), url, (int)(path - start), start);
    site->target = tn_asprintf("%s%.*s", *path == '/' ? "" : "/", (int)path_len, path);
    site->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (site->stop < 0)
        return tn_fail_errno(err, errno, "eventfd");
    const struct tn_web_options options = {.base = site->base, .connect_timeout = CONNECT_SECONDS};
    if (server->address)
        site->dial = mcp_dial_new(server->address);
    else
        site->web = tn_web_new(&options, err);
    if ((!site->dial && !site->web) ||
        (at && set_credentials(site, host, (size_t)(at - host), err) < 0))
        return -1;
    return set_headers(site, server, err);
}

void mcp_site_done(struct mcp_site *site)
{
    tn_web_free(site->web);
    mcp_dial_free(site->dial);
    tn_close(site->stop);
    free(site->base);
    free(site->target);
    free(site->nonce);
    pthread_mutex_destroy(&site->lock);
}

void mcp_site_stop(struct mcp_site *site)
{
    uint64_t one = 1;

    (void)!write(site->stop, &one, sizeof one);
    if (site->dial)
        mcp_dial_stop(site->dial);
}

/* The path of a URL of our origin; NULL for another origin. */
static const char *own_path(const struct mcp_site *site, const char *url)
{
    size_t n = strlen(site->base);

    if (strncasecmp(url, site->base, n) != 0 || !strchr("/?#", url[n]))
        return NULL;
    return url + n;
}

int mcp_site_move(struct mcp_site *site, const char *to, struct tn_error *err)
{
    const char *path = to;

    if (strstr(to, "://") && strcspn(to, ":") < strcspn(to, "/?#"))
        path = own_path(site, to);
    else if (strncmp(to, "//", 2) == 0)
        path = NULL;
    if (!path || strpbrk(path, " \t\r\n\\"))
        return tn_fail(err, TN_E_DENIED,
                       "the server wants to be asked at another place, which is not allowed");
    size_t n = strcspn(path, "#");
    pthread_mutex_lock(&site->lock);
    char *before = site->target;
    if (*path == '/' || !n) {
        site->target = tn_asprintf("%s%.*s", n ? "" : "/", (int)n, path);
    } else {
        tn_autofree char *folder = tn_strndup(before, strcspn(before, "?"));
        strrchr(folder, '/')[1] = '\0';
        site->target = tn_asprintf("%s%.*s", *path == '?' ? "/" : folder, (int)n, path);
    }
    pthread_mutex_unlock(&site->lock);
    free(before);
    return 0;
}

/* --- requests ------------------------------------------------------------------------------- */

static bool is_redirection(int status)
{
    return status == 307 || status == 308;
}

/* "DPoP: ..." for a request with a token that is bound to a key; NULL with err. */
static char *make_proof(struct mcp_site *site, const char *method, const char *target,
                        const struct mcp_access *access, struct tn_error *err)
{
    tn_autofree char *url = tn_asprintf("%s%s", site->base, target);

    pthread_mutex_lock(&site->lock);
    tn_autofree char *nonce = tn_strdup_or_null(site->nonce);
    pthread_mutex_unlock(&site->lock);
    tn_autofree char *proof =
        mcp_key_request_proof(access->key, method, url, access->token, nonce, err);
    return proof ? tn_asprintf("DPoP: %s", proof) : NULL;
}

/* At the present target, with that token if there is one. */
static int call_here(struct mcp_site *site, const struct tn_web_call *wanted,
                     const struct mcp_access *access, struct tn_web_answer *answer,
                     struct tn_error *err)
{
    struct tn_web_call call = *wanted;
    const char *method = call.method ? call.method : call.body || call.source ? "POST" : "GET";
    tn_autofree char *bearer =
        access->token
            ? tn_asprintf("Authorization: %s %s", access->key ? "DPoP" : "Bearer", access->token)
            : NULL;
    size_t n = 0;

    pthread_mutex_lock(&site->lock);
    tn_autofree char *target = tn_strdup(site->target);
    pthread_mutex_unlock(&site->lock);
    tn_autofree char *proof =
        access->token && access->key ? make_proof(site, method, target, access, err) : NULL;
    if (access->token && access->key && !proof)
        return -1;
    while (wanted->headers && wanted->headers[n])
        n++;
    tn_autofree const char **headers = tn_calloc(n + 3, sizeof *headers);
    for (size_t i = 0; i < n; i++)
        headers[i] = wanted->headers[i];
    headers[n] = bearer;
    if (bearer)
        headers[n + 1] = proof;
    call.headers = headers;
    call.target = target;
    call.cancel = site->stop;
    int result = site->web ? tn_web_call(site->web, &call, answer, err)
                           : mcp_dial_call(site->dial, &call, answer, err);
    if (bearer)
        explicit_bzero(bearer, strlen(bearer));
    return result;
}

static int follow(struct mcp_site *site, const struct tn_web_call *call,
                  const struct mcp_access *access, struct tn_web_answer *answer,
                  struct tn_error *err)
{
    for (int left = REDIRECTIONS_MAX;; left--) {
        int r = call_here(site, call, access, answer, err);
        if (r < 0 || !is_redirection(answer->status))
            return r;
        tn_autofree char *to = tn_web_answer_header(answer, "location");
        answer->status = 0; /* there is none */
        if (!to || left == 0)
            return tn_fail(err, TN_E_PEER, "the server redirects %s",
                           to ? "in circles" : "to nowhere");
        if (mcp_site_move(site, to, err) < 0)
            return -1;
    }
}

/* 403 is about the login only when the server says so. */
static bool wants_login(const struct tn_web_answer *answer)
{
    tn_autofree char *challenge = tn_web_answer_header(answer, "www-authenticate");

    return answer->status == 401 || (answer->status == 403 && challenge);
}

/* Whether it was refused for want of a nonce, which the site has now. */
static bool take_nonce(struct mcp_site *site, const struct mcp_access *access,
                       const struct tn_web_answer *answer)
{
    char *nonce = access->key ? mcp_oauth_nonce(answer) : NULL;

    if (!nonce)
        return false;
    pthread_mutex_lock(&site->lock);
    free(site->nonce);
    site->nonce = nonce;
    pthread_mutex_unlock(&site->lock);
    return true;
}

int mcp_site_call(struct mcp_site *site, struct tn_web_call *call, bool alone,
                  struct tn_web_answer *answer, struct tn_error *err)
{
    bool repeated = false; /* because of a nonce */

    for (int logins = 0;; logins++) {
        mcp_autoaccess struct mcp_access access = {0};
        struct tn_error why = {0};

        if (site->oauth &&
            mcp_oauth_token(site->oauth, &access, site->stop, call->deadline, err) < 0)
            return -1;
        if (follow(site, call, &access, answer, err) < 0)
            return -1;
        if (!site->oauth || !wants_login(answer))
            return 0;
        if (!repeated && take_nonce(site, &access, answer)) {
            repeated = true;
            logins--;
            continue;
        }
        int result = logins == LOGINS_MAX
                         ? tn_fail(&why, TN_E_DENIED, "it refuses every login")
                         : mcp_oauth_refused(site->oauth, access.token, answer, alone, site->stop,
                                             call->deadline, &why);
        if (result < 0) {
            if (err)
                *err = why;
            answer->status = 0;
            return -1;
        }
        if (!alone && mcp_oauth_is_patient(site->oauth) &&
            call->deadline < tn_deadline_in(CONNECT_SECONDS))
            call->deadline = tn_deadline_in(CONNECT_SECONDS);
    }
}

int mcp_site_refused(const struct tn_web_answer *answer, struct tn_error *err)
{
    tn_autojson struct tn_json *json = NULL;

    if (answer->body.len)
        tn_json_parse(answer->body.data, answer->body.len, &json, NULL);
    const char *text = tn_json_get_str(tn_json_get(json, "error"), "message", NULL);
    if (!text)
        text = tn_json_get_str(json, "detail", NULL);
    return tn_web_refused(answer, text, err);
}

char *mcp_site_type(const struct tn_web_answer *answer)
{
    char *type = tn_web_answer_header(answer, "content-type");

    if (!type)
        return tn_strdup("");
    type[strcspn(type, "; \t")] = '\0';
    for (char *c = type; *c; c++)
        if (*c >= 'A' && *c <= 'Z')
            *c = (char)(*c | 0x20);
    return type;
}

bool mcp_site_pause(const struct mcp_site *site, int64_t milliseconds, int64_t deadline)
{
    struct pollfd stop = {.fd = site->stop, .events = POLLIN};
    int64_t until = tn_now() + milliseconds * TN_MILLI;

    return poll(&stop, 1, tn_poll_ms(until < deadline ? until : deadline)) == 0;
}
