/* The request side of an exchange: what was asked, and the body as a stream. */
#include <poll.h>
#include <strings.h>

#include "net/http-internal.h"
#include "net/splice.h"
#include "net/url.h"

enum {
    DIRECT_BYTES = 1024, /* reads of at least this go straight to the caller's memory */
    READ_STEP = 64 * 1024,
    CHUNK_STEP = 4096,
    WHOLE_RATE = 32 * 1024, /* bytes a second that a body read whole must bring on average */
};

char *http_scrap(struct tn_http_exchange *x, size_t n)
{
    struct http_scrap *s = malloc(sizeof *s + n + 1);

    if (!s)
        return NULL;
    s->next = x->scraps;
    x->scraps = s;
    return s->text;
}

void tn_http_attach(struct tn_http_exchange *x, void *data, void (*end)(void *data))
{
    if (x->end_attached)
        x->end_attached(x->attached);
    x->attached = data;
    x->end_attached = end;
}

void *tn_http_attached(const struct tn_http_exchange *x)
{
    return x->attached;
}

const char *tn_http_method(const struct tn_http_exchange *x)
{
    return x->method;
}

const char *tn_http_path(const struct tn_http_exchange *x)
{
    return x->path;
}

const char *tn_http_target(const struct tn_http_exchange *x)
{
    return x->target;
}

const char *tn_http_peer(const struct tn_http_exchange *x)
{
    return x->conn->peer;
}

int tn_http_fd(const struct tn_http_exchange *x)
{
    return x->conn->fd;
}

const char *tn_http_header(const struct tn_http_exchange *x, const char *name)
{
    const struct tn_http_slice *value = tn_http_find(&x->head, x->conn->in, name);

    return value ? x->conn->in + value->at : NULL;
}

const char *tn_http_next_header(const struct tn_http_exchange *x, const char *prefix, unsigned *at,
                                const char **rest)
{
    size_t n = strlen(prefix);

    while (*at < x->head.field_count) {
        const struct tn_http_field *f = &x->head.fields[(*at)++];
        *rest = x->conn->in + f->name.at + n;
        if (strncasecmp(x->conn->in + f->name.at, prefix, n) == 0)
            return x->conn->in + f->value.at;
    }
    return NULL;
}

int64_t tn_http_content_length(const struct tn_http_exchange *x)
{
    if (x->head.chunked)
        return -1;
    return x->head.length > 0 ? x->head.length : 0;
}

const char *tn_http_param(struct tn_http_exchange *x, const char *name)
{
    size_t n = strlen(name);

    for (int i = 0; i < x->match.count; i++) {
        struct http_capture *c = &x->match.captures[i];
        if (c->name_len != n || memcmp(c->name, name, n) != 0)
            continue;
        char *value = http_scrap(x, c->len);
        if (!value || tn_url_decode(c->text, c->len, value, false) < 0)
            return NULL;
        return value;
    }
    return NULL;
}

static bool decode_query(struct tn_http_exchange *x)
{
    size_t n = strlen(x->query);

    x->query_pairs = http_scrap(x, TN_URL_PAIRS_MAX(n));
    if (!x->query_pairs)
        return false;
    x->query_end = x->query_pairs + tn_url_pairs(x->query, n, x->query_pairs);
    return true;
}

const char *tn_http_query(struct tn_http_exchange *x, const char *name)
{
    const char *value = NULL;

    if (!x->query || (!x->query_pairs && !decode_query(x)))
        return NULL;
    for (const char *p = x->query_pairs; p < x->query_end;) {
        const char *v = p + strlen(p) + 1;
        if (strcmp(p, name) == 0)
            value = v;
        p = v + strlen(v) + 1;
    }
    return value;
}

bool tn_http_know(struct tn_http_exchange *x, const char *owner)
{
    struct http_conn *c = x->conn;
    bool before = c->known;

    if (!http_conns_know(c->pool, c, owner)) {
        x->close = true;
        return false;
    }
    if (!before && c->known)
        net_recv_timeout(c->fd, http_settings_of(c->server)->options.idle_seconds);
    return true;
}

bool tn_http_peer_gone(const struct tn_http_exchange *x)
{
    struct pollfd p = {.fd = x->conn->fd, .events = POLLRDHUP};

    return x->broken || (poll(&p, 1, 0) > 0 && p.revents);
}

void tn_http_cut(const struct tn_http_exchange *x)
{
    shutdown(x->conn->fd, SHUT_RDWR);
}

/* --- the body ------------------------------------------------------------------------------ */

static int body_fail(struct tn_http_exchange *x, enum tn_code code, struct tn_error *err)
{
    static const struct {
        enum tn_code code;
        const char *text;
    } reasons[] = {
        {TN_E_TIMEOUT, "The request body did not arrive in time"},
        {TN_E_TOO_LARGE, "The request body is too large"},
        {TN_E_INVALID, "The chunked request body is malformed"},
        {TN_E_PEER, "The client went away in the middle of the request body"},
    };
    const char *text = "The request body cannot be read";

    x->body_error = code;
    x->close = true;
    for (size_t i = 0; i < TN_COUNT(reasons); i++)
        if (reasons[i].code == code)
            text = reasons[i].text;
    /* Then it was us who stopped reading. */
    if (code == TN_E_PEER && http_stopping(x->conn->server))
        return tn_fail(err, TN_E_BUSY, "The server is stopping: try again");
    /* Towards a client that stopped half way we are no gateway: its request is just incomplete. */
    return tn_fail(err, code == TN_E_PEER ? TN_E_INVALID : code, "%s", text);
}

static int send_continue(struct tn_http_exchange *x)
{
    static const char line[] = "HTTP/1.1 100 Continue\r\n\r\n";
    struct iovec piece = {.iov_base = (void *)line, .iov_len = sizeof line - 1};
    struct net_wait wait = {.each = http_settings_of(x->conn->server)->write_wait,
                            .deadline = TN_NEVER};

    x->owes_continue = false;
    return net_send(x->conn->fd, &piece, 1, &wait);
}

/* Receives into memory of the caller.  Count, or -1 with err; the end of the stream is an error
 * here. */
static ssize_t receive(struct tn_http_exchange *x, void *to, size_t n, struct tn_error *err)
{
    struct net_wait wait = {.each = http_settings_of(x->conn->server)->body_wait,
                            .deadline = x->body_by ? x->body_by : TN_NEVER};

    if (x->ready_only)
        return -1;
    if (x->owes_continue && x->answer == HTTP_NONE && send_continue(x) < 0)
        return body_fail(x, TN_E_PEER, err);
    ssize_t got = net_recv(x->conn->fd, to, n, &wait);
    if (got > 0)
        return got;
    return body_fail(x, got < 0 && errno == ETIMEDOUT ? TN_E_TIMEOUT : TN_E_PEER, err);
}

/* Refills the connection's buffer behind the head, which stays where it is. */
static int fill(struct tn_http_exchange *x, struct tn_error *err)
{
    struct http_conn *c = x->conn;
    ssize_t got = receive(x, c->in + c->in_head, c->in_cap - c->in_head, err);

    if (got < 0)
        return -1;
    c->in_at = c->in_head;
    c->in_end = c->in_head + (size_t)got;
    return 0;
}

/* Up to n bytes of entity, buffered ones first. */
static ssize_t take(struct tn_http_exchange *x, void *to, size_t n, struct tn_error *err)
{
    struct http_conn *c = x->conn;

    if (c->in_at == c->in_end) {
        if (n >= DIRECT_BYTES)
            return receive(x, to, n, err);
        if (fill(x, err) < 0)
            return -1;
    }
    size_t ready = c->in_end - c->in_at;
    if (n > ready)
        n = ready;
    memcpy(to, c->in + c->in_at, n);
    c->in_at += n;
    return (ssize_t)n;
}

static size_t smaller(size_t n, int64_t left)
{
    return (uint64_t)left < n ? (size_t)left : n;
}

static ssize_t read_counted(struct tn_http_exchange *x, void *to, size_t n, struct tn_error *err)
{
    ssize_t got = take(x, to, smaller(n, x->body_left), err);

    if (got > 0)
        x->body_left -= got;
    x->body_done = x->body_left == 0;
    return got;
}

/* Consumes framing up to the next data or the end of the body. */
static int next_chunk(struct tn_http_exchange *x, struct tn_error *err)
{
    struct http_conn *c = x->conn;
    int64_t max = http_settings_of(c->server)->options.max_body_bytes;

    while (x->chunks.state != TN_CHUNK_END &&
           (x->chunks.state != TN_CHUNK_DATA || x->chunks.left == 0)) {
        if (c->in_at == c->in_end && fill(x, err) < 0)
            return -1;
        ssize_t used = tn_http_unchunk(&x->chunks, c->in + c->in_at, c->in_end - c->in_at);
        if (used < 0)
            return body_fail(x, TN_E_INVALID, err);
        c->in_at += (size_t)used;
    }
    if (x->chunks.left > max - x->body_read)
        return body_fail(x, TN_E_TOO_LARGE, err);
    x->body_done = x->chunks.state == TN_CHUNK_END;
    return 0;
}

static ssize_t read_chunked(struct tn_http_exchange *x, void *to, size_t n, struct tn_error *err)
{
    if (next_chunk(x, err) < 0)
        return -1;
    if (x->body_done)
        return 0;
    ssize_t got = take(x, to, smaller(n, x->chunks.left), err);
    if (got > 0) {
        x->chunks.left -= got;
        x->body_read += got;
    }
    return got;
}

static void enter_next_phase(struct tn_http_exchange *x)
{
    if (x->body_done && x->answer < HTTP_ANSWERED)
        http_conn_enter(x->conn, x->answer == HTTP_NONE ? HTTP_ANSWERING : HTTP_FLOWING);
}

ssize_t tn_http_read(struct tn_http_exchange *x, void *to, size_t n, struct tn_error *err)
{
    if (x->body_error)
        return body_fail(x, x->body_error, err);
    if (x->body_done || n == 0)
        return 0;
    ssize_t got = x->head.chunked ? read_chunked(x, to, n, err) : read_counted(x, to, n, err);
    enter_next_phase(x);
    return got;
}

int http_read_socket(struct tn_http_exchange *x, int to, double seconds, int64_t *carried)
{
    struct net_carry c = {
        .from = x->conn->fd,
        .to = to,
        .in = {.each = http_settings_of(x->conn->server)->body_wait, .deadline = TN_NEVER},
        .out = {.each = (int64_t)(seconds * 1e9), .deadline = TN_NEVER},
        .ask = true,
        .unread = x->body_left,
        .unsent = x->body_left,
    };

    int r = x->owes_continue ? send_continue(x) : 0;
    if (r == 0)
        r = net_carry(&c);
    *carried = x->body_left - c.unsent;
    x->body_left = c.unread;
    x->body_done = x->body_left == 0;
    enter_next_phase(x);
    if (r != 0 && !x->body_done)
        body_fail(x, r < 0 && errno == ETIMEDOUT ? TN_E_TIMEOUT : TN_E_PEER, NULL);
    return r;
}

/* Where the next bytes go; one more than fit are still read, to tell a full buffer from a too small
 * one. */
static ssize_t read_some(struct tn_http_exchange *x, struct tn_buf *out, struct tn_error *err)
{
    char one;
    size_t room = out->max - out->len;
    size_t want = smaller(READ_STEP, x->head.chunked ? CHUNK_STEP : x->body_left);

    if (want > room)
        want = room;
    char *to = room ? tn_buf_reserve(out, want) : &one;
    if (!to && tn_buf_poor(out))
        return tn_fail(err, TN_E_BUSY,
                       "There is no memory for this request body just now: try again later");
    if (!to)
        return tn_fail(err, TN_E_TOO_LARGE, "The request body is too large");
    ssize_t got = tn_http_read(x, to, room ? want : 1, err);
    if (got > 0 && !room)
        return tn_fail(err, TN_E_TOO_LARGE, "The request body is too large");
    if (got > 0)
        tn_buf_grew(out, (size_t)got);
    return got;
}

/* What arrives buys time, so that nobody makes us hold a body for long by sending it slowly; but
 * not more than a little in advance, or who sends most of it at once could be slow with the rest.
 */
static int64_t earn_time(int64_t by, ssize_t bytes, int64_t patience)
{
    int64_t most = tn_now() + 2 * patience;

    by += bytes * (TN_SECOND / WHOLE_RATE);
    return by < most ? by : most;
}

int tn_http_read_all(struct tn_http_exchange *x, struct tn_buf *out, struct tn_error *err)
{
    const int64_t patience = http_settings_of(x->conn->server)->body_wait;
    ssize_t got = 1;

    if (!x->body_done && !x->head.chunked && (uint64_t)x->body_left > out->max - out->len)
        return tn_fail(err, TN_E_TOO_LARGE, "The request body is too large");
    x->body_by = tn_now() + patience;
    while (!x->body_done && got > 0) {
        got = read_some(x, out, err);
        if (got > 0)
            x->body_by = earn_time(x->body_by, got, patience);
    }
    x->body_by = 0;
    return got < 0 ? -1 : 0;
}

bool http_body_skip(struct tn_http_exchange *x, bool ready)
{
    char scrap[2048];
    size_t total = 0;
    ssize_t got;

    x->ready_only = ready;
    do {
        got = tn_http_read(x, scrap, sizeof scrap, NULL);
        total += got > 0 ? (size_t)got : 0;
    } while (got > 0 && total < HTTP_SKIP_BYTES);
    x->ready_only = false;
    return x->body_done;
}
