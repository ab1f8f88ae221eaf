#include "net/http-client.h"

#include <poll.h>

#include "base/clock.h"
#include "net/http-answer.h"
#include "net/listen.h"
#include "net/socket-io.h"
#include "net/url.h"

enum { HEAD_MAX = 64 * 1024, READ_BYTES = 8 * 1024, SEND_BYTES = 64 * 1024 };

struct tn_http_client {
    char *address; /* NULL: cannot reconnect */
    tn_dial_fn dial;
    char *host, *base;
    int fd;
    bool used; /* the connection has carried an answer */
    struct tn_buf fields;
    tn_http_lines_fn lines; /* further ones, or NULL */
    struct http_answer answer;
};

/* Header lines say who we are. */
static void forget(struct tn_buf *lines)
{
    if (lines->data)
        explicit_bzero(lines->data, lines->cap);
    tn_buf_done(lines);
}

static struct tn_http_client *new_client(int fd, const char *host)
{
    struct tn_http_client *c = tn_calloc(1, sizeof *c);

    c->fd = fd;
    c->host = tn_strdup(host);
    tn_buf_init(&c->fields, HEAD_MAX);
    http_answer_init(&c->answer);
    return c;
}

struct tn_http_client *tn_http_client_new(const char *address, struct tn_error *err)
{
    struct tn_listen_address a;

    if (tn_listen_parse(address, &a, err) < 0)
        return NULL;
    if (a.kind == TN_LISTEN_FD) {
        tn_fail(err, TN_E_INVALID, "cannot connect to %s", address);
        return NULL;
    }
    return tn_http_client_at(address, tn_dial, a.kind == TN_LISTEN_TCP ? address : "localhost", "");
}

struct tn_http_client *tn_http_client_at(const char *address, tn_dial_fn dial, const char *host,
                                         const char *base)
{
    struct tn_http_client *c = new_client(-1, host);

    c->address = tn_strdup(address);
    c->dial = dial;
    c->base = tn_strdup(base);
    return c;
}

struct tn_http_client *tn_http_client_from_fd(int fd)
{
    return new_client(fd, "localhost");
}

static void disconnect(struct tn_http_client *c)
{
    tn_close(c->fd);
    c->fd = -1;
    c->used = false;
}

void tn_http_client_free(struct tn_http_client *c)
{
    if (!c)
        return;
    disconnect(c);
    http_answer_done(&c->answer);
    forget(&c->fields);
    free(c->address);
    free(c->host);
    free(c->base);
    free(c);
}

void tn_http_client_header(struct tn_http_client *c, const char *name, const char *value)
{
    if (tn_http_is_token(name, strlen(name)) && tn_http_is_value(value, strlen(value)))
        tn_buf_printf(&c->fields, "%s: %s\r\n", name, value);
}

const char *tn_http_client_answer(const struct tn_http_client *c, const char *name)
{
    return http_answer_field(&c->answer, name);
}

/* --- the request --------------------------------------------------------------------------- */

static bool has_field(const struct tn_http_client *c, const struct tn_http_call *call,
                      const char *name)
{
    return tn_http_lines_have(tn_buf_str(&c->fields), name) ||
           (call->extra_headers && tn_http_lines_have(call->extra_headers, name));
}

static bool is_one_of(const char *method, const char *const *list)
{
    for (; *list; list++)
        if (strcmp(*list, method) == 0)
            return true;
    return false;
}

/* May be sent twice without doing it twice. */
static bool repeatable(const struct tn_http_client *c, const struct tn_http_call *call)
{
    static const char *const idempotent[] = {"GET", "HEAD", "PUT", "DELETE", NULL};

    if (call->source)
        return false;
    return !call->method || is_one_of(call->method, idempotent) ||
           has_field(c, call, "Idempotency-Key");
}

static int build_request(const struct tn_http_client *c, const struct tn_http_call *call,
                         const char *lines, struct tn_buf *out, struct tn_error *err)
{
    static const char *const with_body[] = {"POST", "PUT", "PATCH", NULL};
    const char *method = call->method ? call->method : "GET";
    size_t target_len = strlen(call->target);

    if (!tn_http_is_token(method, strlen(method)) || target_len == 0 ||
        strcspn(call->target, " \t") != target_len || !tn_http_is_value(call->target, target_len) ||
        (call->type && !tn_http_is_value(call->type, strlen(call->type))) ||
        (call->extra_headers && !tn_http_is_lines(call->extra_headers)) || !tn_http_is_lines(lines))
        return tn_fail(err, TN_E_INVALID, "%s %s: cannot be sent as a request", method,
                       call->target);
    /* Whoever resolves the segments would end outside of the base, with what the lines say. */
    if (c->base && *c->base && (*call->target != '/' || tn_url_climbs(call->target)))
        return tn_fail(err, TN_E_DENIED, "%s %s: leaves the path that the server has", method,
                       call->target);

    tn_buf_printf(out, "%s %s%s HTTP/1.1\r\n", method, c->base ? c->base : "", call->target);
    if (!has_field(c, call, "Host"))
        tn_buf_printf(out, "Host: %s\r\n", c->host);
    if (call->type)
        tn_buf_printf(out, "Content-Type: %s\r\n", call->type);
    if (call->source && call->source_len < 0)
        tn_buf_puts(out, "Transfer-Encoding: chunked\r\n");
    else if (call->source)
        tn_buf_printf(out, "Content-Length: %lld\r\n", (long long)call->source_len);
    else if (call->body_len || is_one_of(method, with_body))
        tn_buf_printf(out, "Content-Length: %zu\r\n", call->body_len);
    tn_buf_puts(out, tn_buf_str(&c->fields));
    tn_buf_puts(out, lines);
    tn_buf_puts(out, call->extra_headers ? call->extra_headers : "");
    tn_buf_puts(out, "\r\n");
    return tn_buf_ok(out) ? 0
                          : tn_fail(err, TN_E_HEADERS_TOO_LARGE, "the request's head is too large");
}

/* --- the connection ------------------------------------------------------------------------ */

/* A kept connection that is readable before we asked anything has been closed (or went mad). */
static bool still_good(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN | POLLRDHUP};

    return poll(&p, 1, 0) == 0;
}

void tn_http_client_lines_by(struct tn_http_client *c, tn_http_lines_fn lines)
{
    c->lines = lines;
}

void tn_http_client_cancel_by(struct tn_http_client *c, int fd)
{
    c->answer.cancel = fd;
}

static int ensure_connected(struct tn_http_client *c, int64_t deadline, struct tn_error *err)
{
    bool reusable = c->answer.done && (!c->used || c->answer.keep);

    if (c->fd >= 0 && reusable && (!c->used || still_good(c->fd)))
        return 0;
    if (!c->address)
        return tn_fail(err, TN_E_PEER, "the connection cannot be used again");
    disconnect(c);
    c->answer.done = true;
    c->fd = c->dial(c->address, deadline, err);
    return c->fd < 0 ? -1 : 0;
}

/* One piece of a streamed body, in chunked framing or as it is; n 0 is the end. */
static int send_piece(struct tn_http_client *c, char *bytes, size_t n, bool chunked,
                      const struct net_wait *wait)
{
    char size[24];
    struct iovec pieces[] = {
        {.iov_base = size, .iov_len = 0},
        {.iov_base = bytes, .iov_len = n},
        {.iov_base = (char *)"\r\n", .iov_len = chunked ? 2 : 0},
    };

    if (chunked)
        pieces[0].iov_len = (size_t)snprintf(size, sizeof size, "%zx\r\n", n);
    return net_ask(c->fd, pieces, TN_COUNT(pieces), wait);
}

/* The body from its source.  0 when all was sent, 1 when the peer wants no more of it, -1 with err.
 */
static int send_source(struct tn_http_client *c, const struct tn_http_call *call,
                       const struct net_wait *wait, struct tn_error *err)
{
    tn_autofree char *bytes = tn_malloc(SEND_BYTES);
    bool chunked = call->source_len < 0;
    int64_t left = call->source_len;

    while (chunked || left > 0) {
        size_t want = chunked || left > SEND_BYTES ? SEND_BYTES : (size_t)left;
        ssize_t n = call->source(call->source_ctx, bytes, want, err);
        if (n < 0)
            return -1;
        if (n == 0 && !chunked)
            return tn_fail(err, TN_E_IO, "the data ended %lld bytes early", (long long)left);
        int r = send_piece(c, bytes, (size_t)n, chunked, wait);
        if (r < 0)
            return tn_fail_errno(err, errno, "send to %s", c->host);
        if (r || n == 0)
            return r;
        left -= chunked ? 0 : n;
    }
    return 0;
}

/* When something must have moved. */
static int64_t stalls_at(const struct tn_http_call *call)
{
    return call->stall && tn_now() < call->deadline - call->stall ? tn_now() + call->stall
                                                                  : call->deadline;
}

/* Sends the request and reads the answer's head.  *dead tells that a kept connection proved to be
 * closed before anything of an answer came. */
static int attempt(struct tn_http_client *c, const struct tn_http_call *call,
                   const struct tn_buf *head, bool *dead, struct tn_error *err)
{
    struct net_wait wait = {.each = call->stall ? call->stall : TN_NEVER,
                            .deadline = call->deadline,
                            .cancel = c->answer.cancel};
    struct iovec pieces[] = {
        {.iov_base = head->data, .iov_len = head->len},
        {.iov_base = (void *)call->body, .iov_len = call->body_len},
    };
    struct tn_error why = {0};
    bool kept = c->used;

    int unsent = net_ask(c->fd, pieces, 2, &wait);
    if (unsent < 0)
        tn_fail_errno(err, errno, "send to %s", c->host);
    else if (unsent == 0 && call->source)
        unsent = send_source(c, call, &wait, err);
    if (unsent < 0) {
        disconnect(c);
        return -1;
    }
    bool head_request = call->method && strcmp(call->method, "HEAD") == 0;
    int status = http_answer_head(&c->answer, c->fd, head_request, stalls_at(call), &why);
    if (status == 101 && !has_field(c, call, "Upgrade"))
        status = tn_fail(&why, TN_E_PEER, "it switches to a protocol that nobody asked for");
    if (status >= 0) {
        c->used = true;
        c->answer.keep &= !unsent;
        return status;
    }
    *dead = kept && (why.sys == ECONNRESET || why.sys == EPIPE) && c->answer.in.len == 0;
    disconnect(c);
    enum tn_code code = why.code == TN_E_TIMEOUT ? TN_E_TIMEOUT : TN_E_PEER;
    if (err) {
        *err = why;
        err->code = code;
    }
    return tn_error_context(err, "%s", c->host);
}

static int open_with(struct tn_http_client *c, const struct tn_http_call *call, const char *lines,
                     struct tn_error *err)
{
    TN_CLEANUP(forget) struct tn_buf head = TN_BUF_INIT(2 * HEAD_MAX);

    if (build_request(c, call, lines, &head, err) < 0)
        return -1;
    for (bool again = c->address && repeatable(c, call);; again = false) {
        bool dead = false;
        if (ensure_connected(c, stalls_at(call), err) < 0)
            return -1;
        int status = attempt(c, call, &head, &dead, err);
        if (status >= 0 || !dead || !again)
            return status;
    }
}

int tn_http_client_open(struct tn_http_client *c, const struct tn_http_call *call,
                        struct tn_error *err)
{
    TN_CLEANUP(forget) struct tn_buf lines = TN_BUF_INIT(HEAD_MAX), others = TN_BUF_INIT(HEAD_MAX);

    if (c->lines && c->lines(c->address, false, &lines, call->deadline, err) < 0)
        return -1;
    int status = open_with(c, call, tn_buf_str(&lines), err);
    if (status != 401 || !c->lines || call->source ||
        c->lines(c->address, true, &others, call->deadline, NULL) < 0 ||
        strcmp(tn_buf_str(&lines), tn_buf_str(&others)) == 0)
        return status;
    disconnect(c); /* with the rest of that answer */
    return open_with(c, call, tn_buf_str(&others), err);
}

ssize_t tn_http_client_read(struct tn_http_client *c, void *to, size_t n, int64_t deadline,
                            struct tn_error *err)
{
    ssize_t got = http_answer_read(&c->answer, c->fd, to, n, deadline, err);

    if (got < 0) {
        disconnect(c);
        c->answer.done = true;
        c->answer.keep = false;
    }
    return got;
}

static int no_room(const struct tn_http_client *c, const struct tn_buf *out, struct tn_error *err)
{
    if (tn_buf_poor(out))
        return tn_fail(err, TN_E_BUSY,
                       "there is no memory for the answer of %s just now: try again later",
                       c->host);
    return tn_fail(err, TN_E_TOO_LARGE, "the answer of %s is too large", c->host);
}

/* Reads the rest of the answer into out. */
static int read_whole(struct tn_http_client *c, struct tn_buf *out, int64_t deadline,
                      struct tn_error *err)
{
    const struct http_answer *a = &c->answer;

    if (a->kind == HTTP_BODY_COUNTED && (uint64_t)a->left > out->max - out->len)
        return no_room(c, out, err);
    while (!a->done) {
        size_t room = out->max - out->len;
        size_t want =
            a->kind == HTTP_BODY_COUNTED && a->left < READ_BYTES ? (size_t)a->left : READ_BYTES;
        char one;
        char *to = room ? tn_buf_reserve(out, want < room ? want : room) : &one;
        if (!to)
            return no_room(c, out, err);
        ssize_t got = tn_http_client_read(c, to,
                                          !room         ? 1
                                          : want < room ? want
                                                        : room,
                                          deadline, err);
        if (got > 0 && !room)
            return no_room(c, out, err);
        if (got < 0)
            return -1;
        if (got > 0)
            tn_buf_grew(out, (size_t)got);
    }
    return 0;
}

int tn_http_client_call(struct tn_http_client *c, const struct tn_http_call *call,
                        struct tn_buf *out, struct tn_error *err)
{
    int status = tn_http_client_open(c, call, err);

    if (status >= 0 && read_whole(c, out, stalls_at(call), err) < 0) {
        disconnect(c);
        return -1;
    }
    return status;
}
