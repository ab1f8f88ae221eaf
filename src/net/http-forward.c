#include "net/http-forward.h"

#include <poll.h>

#include "net/http-answer.h"
#include "net/http-internal.h"
#include "net/pump.h"

enum { HEAD_MAX = 64 << 10, PIECE = 32 << 10 };
#define TAKE_SECONDS 30.0     /* for the server to take the next bytes of a request */
#define QUIET_SECONDS 86400.0 /* between two pieces of an answer: some are streams of events */

/* --- header lines ------------------------------------------------------------------------------
 */

/* Between two neighbours, not from end to end; each side has its own.  Connection may be given
 * several times, and each names further ones. */
static bool is_of_connection(const struct tn_http_head *head, const char *bytes,
                             const struct tn_http_field *field)
{
    static const char *const names[] = {"connection",        "keep-alive", "proxy-connection",
                                        "transfer-encoding", "te",         "trailer",
                                        "content-length",    "upgrade",    "expect"};
    const char *name = bytes + field->name.at;
    tn_autofree char *word = tn_strndup(name, field->name.len);

    for (size_t i = 0; i < TN_COUNT(names); i++) {
        if (tn_http_same(name, field->name.len, names[i]))
            return true;
    }
    for (unsigned i = 0; i < head->field_count; i++) {
        const struct tn_http_field *f = &head->fields[i];
        if (tn_http_same(bytes + f->name.at, f->name.len, "connection") &&
            tn_http_list_has(bytes + f->value.at, f->value.len, word))
            return true;
    }
    return false;
}

/* The cookies but one. */
static void put_cookies(struct tn_buf *out, const char *cookies, const char *hidden)
{
    size_t name_len = strlen(hidden);
    const char *between = "Cookie: ";
    size_t before = out->len;

    for (const char *at = cookies; *at;) {
        at += strspn(at, "; \t");
        size_t n = strcspn(at, ";");
        if (n && !(n > name_len && at[name_len] == '=' && strncmp(at, hidden, name_len) == 0)) {
            tn_buf_puts(out, between);
            tn_buf_add(out, at, n);
            between = "; ";
        }
        at += n;
    }
    if (out->len > before)
        tn_buf_puts(out, "\r\n");
}

static void put_fields(struct tn_http_exchange *x, const char *hidden, struct tn_buf *out)
{
    const char *in = x->conn->in;

    for (unsigned i = 0; i < x->head.field_count; i++) {
        const struct tn_http_field *f = &x->head.fields[i];
        const char *name = in + f->name.at, *value = in + f->value.at;
        if (hidden && tn_http_same(name, f->name.len, "cookie"))
            put_cookies(out, value, hidden);
        else if (!is_of_connection(&x->head, in, f))
            tn_buf_printf(out, "%s: %s\r\n", name, value);
    }
}

static void pass_fields(struct tn_http_exchange *x, const struct http_answer *a)
{
    for (unsigned i = 0; i < a->head.field_count; i++) {
        const struct tn_http_field *f = &a->head.fields[i];
        tn_autofree char *name = tn_strndup(a->in.data + f->name.at, f->name.len);
        if (!is_of_connection(&a->head, a->in.data, f))
            tn_http_set_header(x, name, a->in.data + f->value.at);
    }
}

/* --- the request -------------------------------------------------------------------------------
 */

static int send_head(struct tn_http_exchange *x, const struct tn_http_forward *to,
                     const char *upgrade, struct tn_error *err)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(HEAD_MAX);
    struct net_wait wait = {.each = TN_NEVER, .deadline = tn_deadline_in(TAKE_SECONDS)};

    tn_buf_printf(&out, "%s %s HTTP/1.1\r\n", x->method, to->target);
    put_fields(x, to->cookie, &out);
    if (upgrade)
        tn_buf_printf(&out, "Connection: Upgrade\r\nUpgrade: %s\r\n", upgrade);
    else
        tn_buf_puts(&out, "Connection: close\r\n");
    if (x->head.chunked)
        tn_buf_puts(&out, "Transfer-Encoding: chunked\r\n");
    else if (x->head.length >= 0)
        tn_buf_printf(&out, "Content-Length: %lld\r\n", (long long)x->head.length);
    tn_buf_puts(&out, "\r\n");
    if (!tn_buf_ok(&out))
        return tn_fail(err, TN_E_HEADERS_TOO_LARGE, "the request's head is too large");
    struct iovec piece = {.iov_base = out.data, .iov_len = out.len};
    return net_ask(to->fd, &piece, 1, &wait) < 0 ? tn_fail_errno(err, errno, "send") : 0;
}

/* Its body, as far as the server wants it. */
static int send_body(struct tn_http_exchange *x, int fd, struct tn_error *err)
{
    tn_autofree char *bytes = x->body_done ? NULL : tn_malloc(PIECE);
    bool chunked = x->head.chunked;
    int stopped = 0;

    while (bytes && !stopped) {
        struct net_wait wait = {.each = (int64_t)(TAKE_SECONDS * 1e9), .deadline = TN_NEVER};
        char size[24];
        ssize_t n = tn_http_read(x, bytes, PIECE, err);
        if (n < 0)
            return -1;
        if (n == 0 && !chunked)
            return 0;
        struct iovec pieces[] = {
            {.iov_base = size},
            {.iov_base = bytes, .iov_len = (size_t)n},
            {.iov_base = (char *)"\r\n", .iov_len = chunked ? 2 : 0},
        };
        if (chunked)
            pieces[0].iov_len = (size_t)snprintf(size, sizeof size, "%zx\r\n", (size_t)n);
        stopped = net_ask(fd, pieces, TN_COUNT(pieces), &wait);
        if (stopped < 0)
            return tn_fail_errno(err, errno, "send");
        if (n == 0)
            return 0;
    }
    return 0;
}

/* --- the answer --------------------------------------------------------------------------------
 */

/* Until the server says something; -1 when nobody waits for it any more. */
static int wait_for_bytes(const struct tn_http_exchange *x, int fd, int64_t deadline,
                          struct tn_error *err)
{
    struct pollfd fds[] = {{.fd = fd, .events = POLLIN},
                           {.fd = tn_http_fd(x), .events = POLLRDHUP}};

    for (;;) {
        int n = poll(fds, 2, tn_poll_ms(deadline));
        if (n == 0)
            return tn_fail(err, TN_E_TIMEOUT, "no answer in time");
        if (n > 0 && fds[0].revents)
            return 0;
        if (n > 0)
            return tn_fail(err, TN_E_PEER, "the client has left");
    }
}

static int64_t body_length(const struct http_answer *a)
{
    if (a->head.length >= 0)
        return a->head.length;
    return a->kind == HTTP_BODY_NONE ? 0 : -1;
}

static void pass_answer(struct tn_http_exchange *x, struct http_answer *a, int fd)
{
    tn_autofree char *bytes = tn_malloc(PIECE);
    ssize_t n = 0;

    pass_fields(x, a);
    if (tn_http_start(x, a->head.status, NULL, body_length(a)) < 0)
        return;
    do {
        int64_t deadline = tn_deadline_in(QUIET_SECONDS);
        if (!a->done && a->at == a->in.len && wait_for_bytes(x, fd, deadline, NULL) < 0)
            n = -1;
        else
            n = http_answer_read(a, fd, bytes, PIECE, deadline, NULL);
    } while (n > 0 && tn_http_write(x, bytes, (size_t)n) == 0);
    if (n == 0)
        tn_http_end(x);
    else
        tn_http_abort(x);
}

/* To the one protocol that the server chose of those the client can speak. */
static void pass_upgrade(struct tn_http_exchange *x, struct http_answer *a, int fd)
{
    tn_autobuf struct tn_buf early = TN_BUF_INIT(1 << 20);
    const char *protocol = http_answer_field(a, "upgrade");

    pass_fields(x, a);
    int client = tn_http_upgrade(x, protocol ? protocol : "", &early);
    if (client < 0)
        return;
    tn_buf_eat(&a->in, a->at);
    tn_pump(client, fd, &early, &a->in);
}

static int pass_back(struct tn_http_exchange *x, const struct tn_http_forward *to,
                     const char *upgrade, struct http_answer *a, struct tn_error *err)
{
    int64_t deadline = tn_deadline_in(to->seconds);
    int status = wait_for_bytes(x, to->fd, deadline, err) < 0
                     ? -1
                     : http_answer_head(a, to->fd, x->head_only, deadline, err);

    if (status < 0)
        return -1;
    if (a->head_bytes > x->fields.max - x->fields.len) /* none of them is to be lost silently */
        return tn_fail(err, TN_E_PEER, "the answer's head is too large");
    if (status != 101)
        pass_answer(x, a, to->fd);
    else if (upgrade)
        pass_upgrade(x, a, to->fd);
    else
        return tn_fail(err, TN_E_PEER, "it switches protocols although nobody asked");
    return 0;
}

int tn_http_forward(struct tn_http_exchange *x, const struct tn_http_forward *to,
                    struct tn_error *err)
{
    const char *upgrade = x->head.upgrade ? tn_http_header(x, "upgrade") : NULL;
    struct http_answer answer;

    if (send_head(x, to, upgrade, err) < 0 || send_body(x, to->fd, err) < 0)
        return -1;
    http_answer_init(&answer);
    int r = pass_back(x, to, upgrade, &answer, err);
    http_answer_done(&answer);
    return r;
}
