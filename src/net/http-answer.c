#include "net/http-answer.h"

#include "base/clock.h"
#include "net/socket-io.h"

enum {
    HEAD_MAX = 64 * 1024,
    ROOM = 4096,         /* behind the head, to receive into */
    DIRECT_BYTES = 1024, /* reads of at least this go straight to the caller's memory */
    INTERIM_MAX = 8,     /* 1xx answers before the real one */
};

void http_answer_init(struct http_answer *a)
{
    memset(a, 0, sizeof *a);
    tn_buf_init(&a->in, 2 * HEAD_MAX);
    a->done = true;
}

void http_answer_done(struct http_answer *a)
{
    tn_buf_done(&a->in);
}

static ssize_t receive(const struct http_answer *a, int fd, void *to, size_t n, int64_t deadline,
                       struct tn_error *err)
{
    struct net_wait wait = {.each = TN_NEVER, .deadline = deadline, .cancel = a->cancel};
    ssize_t got = net_recv(fd, to, n, &wait);

    return got < 0 ? tn_fail_errno(err, errno, "read the answer") : got;
}

/* --- the head ------------------------------------------------------------------------------ */

/* Bytes of one head, which starts at in.data. */
static ssize_t read_one_head(struct http_answer *a, int fd, int64_t deadline, struct tn_error *err)
{
    static const struct tn_http_limits limits = {.target = 8 * 1024, .fields = HEAD_MAX};
    struct tn_http_scan scan = {0};

    for (;;) {
        ssize_t head = tn_http_scan(&scan, tn_buf_str(&a->in), a->in.len, &limits, err);
        if (head != 0)
            return head;
        char *to = tn_buf_reserve(&a->in, ROOM);
        if (!to)
            return tn_fail(err, TN_E_PEER, "the answer's head is too large");
        ssize_t got = receive(a, fd, to, ROOM, deadline, err);
        if (got < 0) {
            if (a->in.len && err && err->sys == ECONNRESET)
                err->sys = EPIPE;
            return -1;
        }
        if (got == 0)
            return tn_fail_errno(err, a->in.len ? EPIPE : ECONNRESET, "no answer");
        tn_buf_grew(&a->in, (size_t)got);
    }
}

static void terminate(struct http_answer *a, struct tn_http_slice s)
{
    a->in.data[s.at + s.len] = '\0';
}

static void choose_body(struct http_answer *a, bool to_head_request)
{
    const struct tn_http_head *h = &a->head;

    a->left = h->length;
    a->chunks = (struct tn_http_chunked){0};
    if (h->status == 101)
        a->kind = HTTP_BODY_TO_CLOSE;
    else if (to_head_request || h->status == 204 || h->status == 304 || h->length == 0)
        a->kind = HTTP_BODY_NONE;
    else if (h->chunked)
        a->kind = HTTP_BODY_CHUNKED;
    else
        a->kind = h->length > 0 ? HTTP_BODY_COUNTED : HTTP_BODY_TO_CLOSE;
    a->done = a->kind == HTTP_BODY_NONE;
    a->keep = a->kind != HTTP_BODY_TO_CLOSE && !h->close && (h->minor == 1 || h->keep_alive);
}

int http_answer_head(struct http_answer *a, int fd, bool to_head_request, int64_t deadline,
                     struct tn_error *err)
{
    ssize_t n = 0;

    tn_buf_reset(&a->in);
    a->head_bytes = a->at = 0;
    a->head.status = 0;
    a->done = true;
    a->keep = false;
    for (int i = 0; i <= INTERIM_MAX; i++) {
        tn_buf_eat(&a->in, (size_t)n);
        n = read_one_head(a, fd, deadline, err);
        if (n < 0 || tn_http_parse_response(a->in.data, (size_t)n, &a->head, err) < 0)
            return -1;
        if (a->head.status >= 200 || a->head.status == 101)
            break;
    }
    if (a->head.status < 200 && a->head.status != 101)
        return tn_fail(err, TN_E_PEER, "too many interim answers");
    if (!tn_buf_reserve(&a->in, ROOM))
        return tn_fail(err, TN_E_PEER, "the answer's head is too large");
    a->head_bytes = a->at = (size_t)n;
    for (unsigned i = 0; i < a->head.field_count; i++) {
        terminate(a, a->head.fields[i].name);
        terminate(a, a->head.fields[i].value);
    }
    choose_body(a, to_head_request);
    return a->head.status;
}

const char *http_answer_field(const struct http_answer *a, const char *name)
{
    const struct tn_http_slice *value =
        a->head_bytes ? tn_http_find(&a->head, a->in.data, name) : NULL;

    return value ? a->in.data + value->at : NULL;
}

/* --- the body ------------------------------------------------------------------------------ */

static int fill(struct http_answer *a, int fd, int64_t deadline, struct tn_error *err)
{
    tn_buf_cut(&a->in, a->head_bytes);
    a->at = a->head_bytes;
    ssize_t got = receive(a, fd, a->in.data + a->at, ROOM, deadline, err);
    if (got > 0)
        tn_buf_grew(&a->in, (size_t)got);
    return (int)got;
}

/* Buffered bytes first.  0 is the end of the stream. */
static ssize_t take(struct http_answer *a, int fd, void *to, size_t n, int64_t deadline,
                    struct tn_error *err)
{
    if (a->at == a->in.len) {
        if (n >= DIRECT_BYTES)
            return receive(a, fd, to, n, deadline, err);
        int got = fill(a, fd, deadline, err);
        if (got <= 0)
            return got;
    }
    size_t ready = a->in.len - a->at;
    if (n > ready)
        n = ready;
    memcpy(to, a->in.data + a->at, n);
    a->at += n;
    return (ssize_t)n;
}

static int cut_short(struct tn_error *err)
{
    return tn_fail(err, TN_E_PEER, "the answer ended early");
}

static ssize_t read_some(struct http_answer *a, int64_t *left, int fd, void *to, size_t n,
                         int64_t deadline, struct tn_error *err)
{
    if ((uint64_t)*left < n)
        n = (size_t)*left;
    ssize_t got = take(a, fd, to, n, deadline, err);
    if (got == 0)
        return cut_short(err);
    if (got > 0)
        *left -= got;
    return got;
}

static ssize_t read_chunked(struct http_answer *a, int fd, void *to, size_t n, int64_t deadline,
                            struct tn_error *err)
{
    struct tn_http_chunked *c = &a->chunks;

    while (c->state != TN_CHUNK_END && (c->state != TN_CHUNK_DATA || c->left == 0)) {
        if (a->at == a->in.len) {
            int got = fill(a, fd, deadline, err);
            if (got <= 0)
                return got < 0 ? -1 : cut_short(err);
        }
        ssize_t used = tn_http_unchunk(c, a->in.data + a->at, a->in.len - a->at);
        if (used < 0)
            return tn_fail(err, TN_E_PEER, "the answer's chunks are malformed");
        a->at += (size_t)used;
    }
    if (c->state == TN_CHUNK_END) {
        a->done = true;
        return 0;
    }
    return read_some(a, &c->left, fd, to, n, deadline, err);
}

ssize_t http_answer_read(struct http_answer *a, int fd, void *to, size_t n, int64_t deadline,
                         struct tn_error *err)
{
    ssize_t got = 0;

    if (a->done || n == 0)
        return 0;
    switch (a->kind) {
    case HTTP_BODY_NONE:
        break;
    case HTTP_BODY_COUNTED:
        got = read_some(a, &a->left, fd, to, n, deadline, err);
        a->done = a->left == 0;
        break;
    case HTTP_BODY_CHUNKED:
        got = read_chunked(a, fd, to, n, deadline, err);
        break;
    case HTTP_BODY_TO_CLOSE:
        got = take(a, fd, to, n, deadline, err);
        a->done = got == 0;
        break;
    }
    return got;
}
