#include "net/http-forward.h"

#include <poll.h>

#include "net/http-answer.h"
#include "net/http-internal.h"
#include "net/http-rewrite.h"
#include "net/pump.h"

enum {
    HEAD_MAX = 64 << 10,
    PIECE = 64 << 10,
    BULK = 256 << 10, /* a rest of at least so much is worth a pipe */
};
#define TAKE_SECONDS 30.0     /* for the server to take the next bytes of a request */
#define QUIET_SECONDS 86400.0 /* between two pieces of an answer: some are streams of events */
#define LINE_SECONDS 30.0     /* for the rest of a head, or of a chunk's, that has begun */
#define DOUBT_SECONDS 5.0     /* of waiting, until we want to know whether the client is alive */

/* One try to pass it on. */
struct errand {
    struct tn_http_exchange *x;
    struct tn_http_forward *to;
    const char *upgrade; /* a protocol that the client asks for and may have, or NULL */
    struct tn_buf head;
    char *piece;     /* PIECE bytes, of the request's body and then of the answer's */
    size_t first;    /* bytes of the body that go with the head */
    bool first_only; /* they are all of it */
    int fd;
    bool kept;   /* fd was used before */
    bool whole;  /* the server took all of the request */
    bool repeat; /* nothing came back, and it may be sent again */
};

/* --- the request --------------------------------------------------------------------------- */

/* May be done twice without doing it twice. */
static bool is_idempotent(const struct tn_http_exchange *x)
{
    static const char *const methods[] = {"GET", "HEAD", "OPTIONS", "PUT", "DELETE"};

    for (size_t i = 0; i < TN_COUNT(methods); i++)
        if (strcmp(x->method, methods[i]) == 0)
            return true;
    return tn_http_header(x, "Idempotency-Key") != NULL;
}

/* What of the body has arrived already goes along with the head: small requests are one packet. */
static int prepare(struct errand *e, struct tn_error *err)
{
    struct tn_http_exchange *x = e->x;
    const struct http_request_head r = {
        .method = x->method,
        .head = &x->head,
        .bytes = x->conn->in,
        .upgrade = e->upgrade,
        .keep = e->to->keep != NULL,
    };

    http_request_lines(&r, e->to, &e->head);
    if (!tn_buf_ok(&e->head))
        return tn_fail(err, TN_E_HEADERS_TOO_LARGE, "the request's head is too large");
    if (!x->body_done && x->conn->in_at < x->conn->in_end && !x->head.chunked) {
        ssize_t n = tn_http_read(x, e->piece, PIECE, err);
        if (n < 0)
            return -1;
        e->first = (size_t)n;
    }
    e->first_only = x->body_done;
    return 0;
}

/* 0, 1 when the server takes no more, or -1 with errno. */
static int ask(const struct errand *e, struct iovec *pieces, int count)
{
    struct net_wait wait = {.each = (int64_t)(TAKE_SECONDS * 1e9), .deadline = TN_NEVER};

    return net_ask(e->fd, pieces, count, &wait);
}

/* Until there is more of the body; 1 when the server speaks (or ends) before. */
static int wait_for_body(const struct errand *e)
{
    const struct http_conn *c = e->x->conn;
    struct pollfd fds[] = {{.fd = c->fd, .events = POLLIN}, {.fd = e->fd, .events = POLLIN}};
    int n;

    if (c->in_at < c->in_end || e->x->body_done)
        return 0;
    do
        n = poll(fds, 2, (int)(http_settings_of(c->server)->body_wait / TN_MILLI));
    while (n < 0 && errno == EINTR);
    return n > 0 && !fds[0].revents && fds[1].revents;
}

/* One piece of the body, n 0 is its end. */
static int send_piece(struct errand *e, size_t n)
{
    bool chunked = e->x->head.chunked;
    char size[24];
    struct iovec pieces[] = {
        {.iov_base = size},
        {.iov_base = e->piece, .iov_len = n},
        {.iov_base = (char *)"\r\n", .iov_len = chunked ? 2 : 0},
    };

    if (chunked)
        pieces[0].iov_len = (size_t)snprintf(size, sizeof size, "%zx\r\n", n);
    e->to->carried += n;
    return ask(e, pieces, TN_COUNT(pieces));
}

/* The rest of a large body goes through a pipe in the kernel.  0, though some may be left; 1 when
 * the server stopped it, or -1. */
static int send_bulk(struct errand *e, struct tn_error *err)
{
    struct tn_http_exchange *x = e->x;
    int64_t carried = 0;

    if (x->head.chunked || x->body_left < BULK || x->conn->in_at < x->conn->in_end)
        return 0;
    int r = http_read_socket(x, e->fd, TAKE_SECONDS, &carried);
    e->to->carried += (uint64_t)carried;
    return r < 0 ? tn_fail_errno(err, errno, "pass the request on") : r;
}

/* A next piece of the body, or its end: 0, 1 when the server stopped it, or -1. */
static int send_next(struct errand *e, struct tn_error *err)
{
    struct tn_http_exchange *x = e->x;
    int stopped = x->owes_continue ? 0 : wait_for_body(e);

    if (stopped)
        return stopped;
    ssize_t n = tn_http_read(x, e->piece, PIECE, err);
    if (n < 0)
        return -1;
    stopped = n || x->head.chunked ? send_piece(e, (size_t)n) : 0;
    if (stopped < 0)
        return tn_fail_errno(err, errno, "send");
    if (n == 0 && x->head.chunked)
        e->whole = !stopped;
    return stopped;
}

/* The body, as far as the server wants it. */
static int send_body(struct errand *e, struct tn_error *err)
{
    bool chunked = e->x->head.chunked;
    int stopped = send_bulk(e, err);

    while (!stopped && !e->whole && (chunked || !e->x->body_done))
        stopped = send_next(e, err);
    e->whole = !stopped;
    return stopped < 0 ? -1 : 0;
}

static int send_request(struct errand *e, struct tn_error *err)
{
    struct iovec pieces[] = {{.iov_base = e->head.data, .iov_len = e->head.len},
                             {.iov_base = e->piece, .iov_len = e->first}};
    int stopped = ask(e, pieces, 2);

    /* A server that took less than the head cannot have understood any of it. */
    e->repeat = e->kept && stopped == 1 && pieces[0].iov_len > 0;
    if (stopped < 0)
        return tn_fail_errno(err, errno, "send");
    e->to->carried += e->first;
    e->whole = !stopped && e->x->body_done && !e->x->head.chunked;
    return stopped || e->whole ? 0 : send_body(e, err);
}

/* --- the answer ---------------------------------------------------------------------------- */

/* Until the server says something; -1 when nobody waits for it any more. */
static int wait_for_bytes(const struct errand *e, int64_t deadline, struct tn_error *err)
{
    int client = tn_http_fd(e->x);
    struct pollfd fds[] = {{.fd = e->fd, .events = POLLIN}, {.fd = client, .events = POLLRDHUP}};
    int64_t doubt = tn_deadline_in(DOUBT_SECONDS);

    for (;;) {
        int n = poll(fds, 2, tn_poll_ms(doubt < deadline ? doubt : deadline));
        if (n > 0 && fds[0].revents)
            return 0;
        if (n > 0)
            return tn_fail(err, TN_E_GONE, "the client has left");
        if (n == 0 && tn_now() >= deadline)
            return tn_fail(err, TN_E_TIMEOUT, "no answer in time");
        if (n == 0 && doubt != TN_NEVER) {
            net_keep_alive(client);
            doubt = TN_NEVER;
        }
    }
}

static void pass_line(const char *name, const char *value, void *to)
{
    tn_http_set_header(to, name, value);
}

static void pass_lines(struct errand *e, const struct http_answer *a)
{
    http_pass_lines(&a->head, a->in.data, e->to->on_answer, e->to->ctx, pass_line, e->x);
}

/* Of what we send on; -1: it is not known before its end. */
static int64_t body_length(const struct tn_http_exchange *x, const struct http_answer *a)
{
    if (a->head.length >= 0)
        return a->head.length;
    return a->kind == HTTP_BODY_NONE && !x->head_only ? 0 : -1;
}

/* The rest of a large body goes through a pipe in the kernel. */
static int pass_bulk(struct errand *e, struct http_answer *a)
{
    int64_t before = a->left;
    int r = http_write_socket(e->x, e->fd, &a->left);

    e->to->carried += (uint64_t)(before - a->left);
    a->done = a->left == 0;
    return r;
}

/* The next piece of the body: its size, 0 at the end, -1. */
static ssize_t pass_piece(struct errand *e, struct http_answer *a)
{
    bool empty = a->at == a->in.len;

    if (!a->done && empty && a->kind == HTTP_BODY_COUNTED && a->left >= BULK && pass_bulk(e, a) < 0)
        return -1;
    if (!a->done && empty && wait_for_bytes(e, tn_deadline_in(QUIET_SECONDS), NULL) < 0)
        return -1;
    ssize_t n = http_answer_read(a, e->fd, e->piece, PIECE, tn_deadline_in(LINE_SECONDS), NULL);
    if (n <= 0)
        return n;
    e->to->carried += (uint64_t)n;
    return tn_http_write(e->x, e->piece, (size_t)n) < 0 ? -1 : n;
}

/* A body that came with its head leaves with it. */
static bool pass_whole(struct errand *e, struct http_answer *a)
{
    size_t n = a->kind == HTTP_BODY_COUNTED ? (size_t)a->left : 0;

    if (e->x->head_only || a->kind > HTTP_BODY_COUNTED || a->in.len - a->at < n)
        return false;
    tn_http_reply(e->x, a->head.status, NULL, a->in.data + a->at, n);
    a->at += n;
    a->done = true;
    e->to->carried += n;
    return true;
}

static void pass_answer(struct errand *e, struct http_answer *a)
{
    ssize_t n = 0;

    pass_lines(e, a);
    if (pass_whole(e, a))
        return;
    if (tn_http_start(e->x, a->head.status, NULL, body_length(e->x, a)) < 0)
        return;
    do
        n = pass_piece(e, a);
    while (n > 0);
    if (n == 0)
        tn_http_end(e->x);
    else
        tn_http_abort(e->x);
}

/* To the one protocol that the server chose of those the client can speak. */
static void pass_upgrade(struct errand *e, struct http_answer *a)
{
    tn_autobuf struct tn_buf early = TN_BUF_INIT(1 << 20);
    const char *protocol = http_answer_field(a, "upgrade");

    pass_lines(e, a);
    int client = tn_http_upgrade(e->x, protocol ? protocol : "", &early);
    if (client < 0)
        return;
    tn_buf_eat(&a->in, a->at);
    e->to->carried += tn_pump(client, e->fd, &early, &a->in);
}

static int pass_back(struct errand *e, struct http_answer *a, struct tn_error *err)
{
    struct tn_http_exchange *x = e->x;

    if (wait_for_bytes(e, tn_deadline_in(e->to->seconds), err) < 0)
        return -1;
    int status = http_answer_head(a, e->fd, x->head_only, tn_deadline_in(LINE_SECONDS), err);
    if (status < 0) {
        bool nothing = err->sys == ECONNRESET && a->in.len == 0;
        e->repeat = e->kept && nothing && (e->repeat || (e->first_only && is_idempotent(x)));
        if (err->code != TN_E_TIMEOUT)
            err->code = TN_E_PEER;
        return -1;
    }
    e->repeat = false;
    if (a->head_bytes > x->fields.max - x->fields.len) /* none of them is to be lost silently */
        return tn_fail(err, TN_E_PEER, "the answer's head is too large");
    if (status != 101)
        pass_answer(e, a);
    else if (e->upgrade)
        pass_upgrade(e, a);
    else
        return tn_fail(err, TN_E_PEER, "it switches protocols although nobody asked");
    return 0;
}

/* --- all together -------------------------------------------------------------------------- */

static int attempt(struct errand *e, bool fresh, struct tn_error *err)
{
    struct http_answer answer;

    e->kept = e->whole = e->repeat = false;
    e->to->carried = 0;
    tn_autofd int fd = e->to->connect(e->to->ctx, fresh, &e->kept, err);
    if (fd < 0)
        return -1;
    e->fd = fd;
    http_answer_init(&answer);
    int r = send_request(e, err) < 0 ? -1 : pass_back(e, &answer, err);
    bool reusable = r == 0 && e->whole && answer.done && answer.keep && answer.at == answer.in.len;
    http_answer_done(&answer);
    if (reusable && e->to->keep)
        e->to->keep(e->to->ctx, TN_TAKE_FD(fd));
    return r;
}

/* What the client may switch to; else the request is an ordinary one. */
static const char *wanted_upgrade(const struct tn_http_exchange *x, const char *only)
{
    const char *wanted = x->head.upgrade ? tn_http_header(x, "upgrade") : NULL;

    if (!wanted || !only)
        return wanted;
    return tn_http_list_has(wanted, strlen(wanted), only) ? only : NULL;
}

int tn_http_forward(struct tn_http_exchange *x, struct tn_http_forward *to, struct tn_error *err)
{
    struct errand e = {.x = x, .to = to, .upgrade = wanted_upgrade(x, to->upgrade)};
    struct tn_error why = {0};

    tn_buf_init(&e.head, HEAD_MAX);
    e.piece = tn_malloc(PIECE);
    int r = prepare(&e, &why);
    if (r == 0)
        r = attempt(&e, false, &why);
    if (r < 0 && e.repeat)
        r = attempt(&e, true, &why);
    tn_buf_done(&e.head);
    free(e.piece);
    if (r < 0 && err)
        *err = why;
    return r;
}
