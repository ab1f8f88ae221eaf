/* One connection: read a head, run its exchange, see to what it left behind, again. */
#include <sys/socket.h>

#include "net/http-internal.h"
#include "net/url.h"

enum {
    BODY_ROOM = 2048,        /* behind the head when a body comes */
    FIELDS_MAX = 32 * 1024,  /* header lines a handler may set */
    OUT_MAX = 128 * 1024,    /* the head of an answer */
    OUT_KEEP = 2048,         /* of both between requests */
    LINGER_BYTES = 32 << 20, /* read away after an early answer, so that the client sees it */
    LINGER_SECONDS = 3,
};

void http_conn_init(struct http_conn *c, struct tn_http_server *s)
{
    memset(&c->x, 0, offsetof(struct tn_http_exchange, head.fields));
    c->server = s;
    c->in = c->small;
    c->in_cap = sizeof c->small;
    tn_buf_init(&c->out, OUT_MAX);
    tn_buf_init(&c->x.fields, FIELDS_MAX);
}

void http_conn_enter(struct http_conn *c, enum http_phase phase)
{
    atomic_store(&c->phase, phase);
    if (phase >= HTTP_FLOWING && atomic_load(&c->pool->closed))
        shutdown(c->fd, SHUT_RD); /* whoever stops us may have looked before */
}

void http_conn_done(struct http_conn *c)
{
    tn_buf_done(&c->out);
    tn_buf_done(&c->x.fields);
    if (c->in != c->small)
        free(c->in);
}

/* --- the head ------------------------------------------------------------------------------ */

static bool grow_in(struct http_conn *c, size_t cap)
{
    if (cap <= c->in_cap)
        return true;
    char *in = realloc(c->in == c->small ? NULL : c->in, cap);
    if (!in)
        return false;
    if (c->in == c->small)
        memcpy(in, c->small, c->in_end);
    c->in = in;
    c->in_cap = cap;
    return true;
}

/* Empty lines before a request are harmless leftovers of sloppy clients. */
static void drop_empty_lines(struct http_conn *c)
{
    size_t skip = 0;

    while (c->in_end - skip >= 2 && c->in[skip] == '\r' && c->in[skip + 1] == '\n')
        skip += 2;
    if (skip) {
        memmove(c->in, c->in + skip, c->in_end - skip);
        c->in_end -= skip;
    }
}

/* The wait between requests: one call that blocks for at most the idle time (the socket's own
 * timeout). */
static ssize_t receive_first(struct http_conn *c)
{
    ssize_t got;

    do
        got = recv(c->fd, c->in, c->in_cap, 0);
    while (got < 0 && errno == EINTR);
    return got;
}

/* The length of the next head in conn->in, 0 when the connection is over, -1 with err to answer. */
static ssize_t read_head(struct http_conn *c, struct tn_error *err)
{
    const struct http_settings *s = http_settings_of(c->server);
    struct tn_http_scan scan = {0};
    struct net_wait wait = {.each = TN_NEVER};

    for (bool first = c->in_end == 0;; first = false) {
        if (scan.at == 0)
            drop_empty_lines(c);
        if (c->in_end > 0 && !(c->in_end == 1 && c->in[0] == '\r')) {
            ssize_t head = tn_http_scan(&scan, c->in, c->in_end, &s->limits, err);
            if (head != 0)
                return head;
        }
        if (c->in_end == c->in_cap && !grow_in(c, c->in_cap * 2))
            return tn_fail(err, TN_E_BUSY, "Out of memory");
        if (!first && wait.deadline == 0)
            wait.deadline = tn_now() + s->header_wait;
        ssize_t got = first ? receive_first(c)
                            : net_recv(c->fd, c->in + c->in_end, c->in_cap - c->in_end, &wait);
        if (got < 0 && errno == ETIMEDOUT && c->in_end > 0)
            return tn_fail(err, TN_E_TIMEOUT, "The request did not arrive in time");
        if (got <= 0)
            return 0;
        if (first)
            http_conn_enter(c, HTTP_READING);
        c->in_end += (size_t)got;
    }
}

static void terminate(struct http_conn *c, struct tn_http_slice s)
{
    c->in[s.at + s.len] = '\0';
}

/* --- the exchange -------------------------------------------------------------------------- */

static void begin(struct http_conn *c)
{
    struct tn_http_exchange *x = &c->x;
    struct tn_buf fields = x->fields;

    tn_buf_reset(&fields);
    memset(x, 0, offsetof(struct tn_http_exchange, head.fields));
    x->conn = c;
    x->fields = fields;
    x->method = x->target = x->path = "";
    if (http_settings_of(c->server)->options.log)
        x->started = tn_now();
}

/* Splits the target and decodes the path; the target itself stays as sent. */
static int split_target(struct tn_http_exchange *x, struct tn_error *err)
{
    struct tn_http_slice raw = tn_http_target_path(x->target, x->head.target.len);
    const char *path = x->target + raw.at, *rest = path + raw.len;

    x->raw_path = raw;
    if (*rest == '?')
        x->query = rest + 1;
    if (raw.at == 0 && *rest == '\0' && !memchr(path, '%', raw.len)) {
        x->path = x->target;
        return 0;
    }
    char *plain = http_scrap(x, raw.len);
    if (!plain)
        return tn_fail(err, TN_E_BUSY, "Out of memory");
    if (tn_url_decode(path, raw.len, plain, false) < 0)
        return tn_fail(err, TN_E_INVALID, "The request target holds a bad percent escape");
    x->path = plain;
    return 0;
}

/* Makes an exchange of the head in conn->in. */
static int take_head(struct http_conn *c, size_t n, struct tn_error *err)
{
    const struct http_settings *s = http_settings_of(c->server);
    struct tn_http_exchange *x = &c->x;
    struct tn_http_head *h = &x->head;

    c->in_head = c->in_at = n;
    if (tn_http_parse_request(c->in, n, &s->limits, h, err) < 0) {
        h->field_count = 0; /* what was found so far is not terminated */
        return -1;
    }
    x->body_done = !h->chunked && h->length <= 0;
    x->body_left = h->length;
    if (!x->body_done && !grow_in(c, n + BODY_ROOM))
        return tn_fail(err, TN_E_BUSY, "Out of memory");

    terminate(c, h->method);
    terminate(c, h->target);
    for (unsigned i = 0; i < h->field_count; i++) {
        terminate(c, h->fields[i].name);
        terminate(c, h->fields[i].value);
    }
    x->method = c->in + h->method.at;
    x->target = c->in + h->target.at;
    x->head_only = strcmp(x->method, "HEAD") == 0;
    x->close = h->close || (h->minor == 0 && !h->keep_alive);
    if (x->body_done)
        http_conn_enter(c, HTTP_ANSWERING);
    x->owes_continue =
        h->expect_continue && h->minor == 1 && !x->body_done && c->in_at == c->in_end;
    return split_target(x, err);
}

static void set_allow(struct tn_http_exchange *x, unsigned allowed)
{
    tn_autobuf struct tn_buf allow = TN_BUF_INIT(1024);

    http_routes_allow(http_routes_of(x->conn->server), allowed, &allow);
    tn_http_set_header(x, "Allow", tn_buf_str(&allow));
}

static void refuse(struct tn_http_exchange *x, int status, const char *detail)
{
    const struct tn_http_options *o = &http_settings_of(x->conn->server)->options;

    if (o->refuse)
        o->refuse(x, status, detail, o->ctx);
    else
        tn_http_reply_detail(x, status, detail);
}

static void dispatch(struct tn_http_exchange *x)
{
    const struct http_settings *s = http_settings_of(x->conn->server);
    const struct http_routes *routes = http_routes_of(x->conn->server);
    const struct tn_http_options *o = &s->options;

    if (o->front && !o->front(x, o->ctx))
        return;
    http_routes_match(routes, x->method, x->target + x->raw_path.at, x->raw_path.len, &x->match);
    const struct tn_route *route = x->match.route;
    if (o->allow && !(route && route->flags & TN_ROUTE_OPEN) && !o->allow(x, o->ctx))
        return;
    if (route) {
        route->handle(x, o->ctx);
    } else if (*x->path == '*') {
        set_allow(x, ~0u);
        tn_http_reply(x, 204, NULL, NULL, 0);
    } else if (x->match.allowed) {
        set_allow(x, x->match.allowed);
        refuse(x, 405, "Method Not Allowed");
    } else {
        refuse(x, 404, "Not Found");
    }
}

static void answer(struct tn_http_exchange *x)
{
    const struct http_settings *s = http_settings_of(x->conn->server);

    if (!http_routes_known_method(http_routes_of(x->conn->server), x->method))
        refuse(x, 501, "Not Implemented");
    else if (x->head.expect_other && x->head.minor == 1)
        refuse(x, 417, "Expectation Failed");
    else if (x->head.length > s->options.max_body_bytes)
        refuse(x, 413, "The request body is too large");
    else
        dispatch(x);
}

/* Brings whatever the handler left to an end; true when another request may follow. */
static bool finish(struct tn_http_exchange *x)
{
    const struct tn_http_options *o = &http_settings_of(x->conn->server)->options;

    if (x->answer == HTTP_NONE && !x->broken)
        refuse(x, 500, "An unexpected error occurred. Please try again later.");
    if (x->answer == HTTP_STREAMING) {
        if (x->head_only || (x->counted && x->write_left == 0))
            x->answer = HTTP_ANSWERED;
        else
            tn_http_abort(x);
    }
    if (o->log)
        o->log(x, x->status, tn_now() - x->started, o->ctx);
    if (x->close || x->broken)
        return false;
    return x->body_done || http_body_skip(x, false);
}

static void release(struct tn_http_exchange *x)
{
    while (x->scraps) {
        struct http_scrap *next = x->scraps->next;
        free(x->scraps);
        x->scraps = next;
    }
    tn_http_attach(x, NULL, NULL);
    if (x->fields.cap > OUT_KEEP)
        tn_buf_done(&x->fields);
    if (x->conn->out.cap > OUT_KEEP)
        tn_buf_done(&x->conn->out);
}

/* Moves bytes of the next request to the front and gives back what a large one needed. */
static void compact(struct http_conn *c)
{
    size_t left = c->in_end - c->in_at;

    if (c->in != c->small && left <= sizeof c->small) {
        memcpy(c->small, c->in + c->in_at, left);
        free(c->in);
        c->in = c->small;
        c->in_cap = sizeof c->small;
    } else {
        memmove(c->in, c->in + c->in_at, left);
    }
    c->in_head = c->in_at = 0;
    c->in_end = left;
}

/* One request and its answer; true when another may follow. */
static bool run_exchange(struct http_conn *c)
{
    struct tn_error err;

    ssize_t n = read_head(c, &err);
    if (n == 0)
        return false;
    begin(c);
    if (n < 0 || take_head(c, (size_t)n, &err) < 0) {
        /* Where the next request would begin is anybody's guess. */
        c->x.close = true;
        c->x.body_done = false;
        refuse(&c->x, tn_code_row(err.code)->http_status, err.text);
    } else {
        answer(&c->x);
    }
    bool again = finish(&c->x);
    release(&c->x);
    return again;
}

/* After an answer the client may not have waited for: closing with its bytes unread would reset the
 * connection and could take the answer away, so read on for a while. */
static void linger(struct http_conn *c)
{
    struct net_wait wait = {.each = TN_NEVER, .deadline = tn_now() + LINGER_SECONDS * TN_SECOND};
    size_t total = 0;

    if (shutdown(c->fd, SHUT_WR) < 0)
        return;
    while (total < LINGER_BYTES) {
        ssize_t got = net_recv(c->fd, c->in, c->in_cap, &wait);
        if (got <= 0)
            return;
        total += (size_t)got;
    }
}

/* Whether its first bytes are those of HTTP/2, which no request of HTTP/1.1 begins with, as 1 or 0;
 * -1 when none came.  What was received stays in conn->in. */
static int is_http2(struct http_conn *c)
{
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    struct net_wait wait = {.each = TN_NEVER};

    for (;;) {
        size_t n = c->in_end < sizeof preface - 1 ? c->in_end : sizeof preface - 1;
        if (memcmp(c->in, preface, n) != 0)
            return 0;
        if (n == sizeof preface - 1)
            return 1;
        if (n > 0 && wait.deadline == 0)
            wait.deadline = tn_now() + http_settings_of(c->server)->header_wait;
        ssize_t got = n == 0 ? receive_first(c) : net_recv(c->fd, c->in + n, c->in_cap - n, &wait);
        if (got <= 0)
            return n > 0 ? 0 : -1;
        http_conn_enter(c, HTTP_READING);
        c->in_end += (size_t)got;
    }
}

void http_conn_run(struct http_conn *c)
{
    bool (*http2)(struct http_conn *) = http_settings_of(c->server)->options.http2;

    int preface = http2 ? is_http2(c) : 0;
    if (preface < 0 || (preface > 0 && http2(c)))
        return;
    while (run_exchange(c)) {
        compact(c);
        http_conn_enter(c, c->in_end ? HTTP_READING : HTTP_WAITING);
    }
    const struct tn_http_exchange *x = &c->x;
    bool unread = !x->body_done || c->in_at != c->in_end || x->answer == HTTP_UPGRADED;
    if (unread && x->answer != HTTP_NONE && !x->broken)
        linger(c);
}
