#include "runtime/hand-tunnel.h"

#include <poll.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/clock.h"
#include "net/http-parse.h"
#include "net/socket-io.h"
#include "runtime/hand-address.h"
#include "runtime/hand-answer.h"

enum { DETAIL_MAX = 4096, HEAD_MAX = 32 << 10 };

static int send_request(int fd, const struct tn_hand_place *place, const char *key, int port,
                        int64_t deadline, struct tn_error *err)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(2 * TN_HAND_HEADERS_MAX);
    struct net_wait wait = {.each = TN_NEVER, .deadline = deadline};

    if (key && !tn_http_is_value(key, strlen(key)))
        return tn_fail(err, TN_E_INVALID, "the key cannot be sent");
    tn_buf_printf(&out,
                  "GET %s/v1/tunnel/%d HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\n"
                  "Upgrade: tendon-tunnel\r\n%s",
                  place->base, port, place->host, place->headers);
    if (key)
        tn_buf_printf(&out, "X-Session-API-Key: %s\r\n", key);
    tn_buf_puts(&out, "\r\n");
    if (!tn_buf_ok(&out))
        return tn_fail(err, TN_E_HEADERS_TOO_LARGE, "the request is too large");
    struct iovec piece = {.iov_base = out.data, .iov_len = out.len};
    if (net_send(fd, &piece, 1, &wait) < 0)
        return tn_fail_errno(err, errno, "the hand");
    return 0;
}

/* The head of the answer and not a byte more: what follows belongs to the tunnel. */
static int read_head(int fd, struct tn_buf *head, int64_t deadline, struct tn_error *err)
{
    struct net_wait wait = {.each = TN_NEVER, .deadline = deadline};
    char piece[1024];

    for (;;) {
        if (net_poll(fd, POLLIN, &wait) <= 0)
            return tn_fail(err, TN_E_TIMEOUT, "the hand did not answer in time");
        ssize_t n = recv(fd, piece, sizeof piece, MSG_PEEK | MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            continue;
        if (n <= 0)
            return tn_fail(err, TN_E_PEER, "the hand closed the connection");
        size_t before = head->len;
        if (tn_buf_add(head, piece, (size_t)n) < 0)
            return tn_fail(err, TN_E_PEER, "the answer of the hand is too large");
        const char *end = memmem(head->data, head->len, "\r\n\r\n", 4);
        size_t all = end ? (size_t)(end + 4 - head->data) : head->len;
        tn_buf_cut(head, all);
        if (recv(fd, piece, all - before, MSG_DONTWAIT) != (ssize_t)(all - before))
            return tn_fail(err, TN_E_PEER, "the hand closed the connection");
        if (end)
            return 0;
    }
}

static int refused(int fd, const struct tn_http_head *head, int port, int64_t deadline,
                   struct tn_error *err)
{
    struct net_wait wait = {.each = TN_NEVER, .deadline = deadline};
    char detail[DETAIL_MAX];
    size_t n = 0;

    while (n < sizeof detail && (int64_t)n < head->length) {
        ssize_t got = net_recv(fd, detail + n, sizeof detail - n, &wait);
        if (got <= 0)
            break;
        n += (size_t)got;
    }
    tn_hand_refused_text(head->status, detail, n, err);
    return tn_error_context(err, "port %d", port);
}

int tn_hand_tunnel(const char *address, const char *key, int port, int64_t deadline,
                   struct tn_error *err)
{
    tn_autobuf struct tn_buf bytes = TN_BUF_INIT(HEAD_MAX);
    tn_autofree struct tn_http_head *head = tn_calloc(1, sizeof *head);
    tn_autohandplace struct tn_hand_place place;

    if (tn_hand_place(address, &place, err) < 0)
        return -1;
    tn_autofd int fd = tn_hand_dial(address, deadline, err);
    if (fd < 0)
        return tn_error_context(err, "the hand");
    if (send_request(fd, &place, key, port, deadline, err) < 0 ||
        read_head(fd, &bytes, deadline, err) < 0 ||
        tn_http_parse_response(bytes.data, bytes.len, head, err) < 0)
        return -1;
    if (head->status != 101)
        return refused(fd, head, port, deadline, err);
    return TN_TAKE_FD(fd);
}
