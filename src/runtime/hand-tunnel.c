#include "runtime/hand-tunnel.h"

#include "base/clock.h"
#include "net/http-answer.h"
#include "net/http-parse.h"
#include "net/listen.h"
#include "net/socket-io.h"
#include "runtime/hand-answer.h"

enum { DETAIL_MAX = 4096 };

static int send_request(int fd, const char *key, int port, int64_t deadline, struct tn_error *err)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(16 << 10);
    struct net_wait wait = {.each = TN_NEVER, .deadline = deadline};

    if (key && !tn_http_is_value(key, strlen(key)))
        return tn_fail(err, TN_E_INVALID, "the key cannot be sent");
    tn_buf_printf(&out,
                  "GET /v1/tunnel/%d HTTP/1.1\r\nHost: hand\r\nConnection: Upgrade\r\n"
                  "Upgrade: tendon-tunnel\r\n",
                  port);
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

static int refused(struct http_answer *a, int fd, int status, int port, int64_t deadline,
                   struct tn_error *err)
{
    char detail[DETAIL_MAX];
    size_t n = 0;

    while (n < sizeof detail) {
        ssize_t got = http_answer_read(a, fd, detail + n, sizeof detail - n, deadline, NULL);
        if (got <= 0)
            break;
        n += (size_t)got;
    }
    tn_hand_refused_text(status, detail, n, err);
    return tn_error_context(err, "port %d", port);
}

/* The head of the answer, byte by byte as far as the peer is concerned: what follows it belongs to
 * the tunnel, so nothing beyond may be taken from the socket.  A server that speaks first sends no
 * earlier than the head, but perhaps in the same packet. */
static int upgrade(int fd, int port, int64_t deadline, struct tn_error *err)
{
    struct http_answer answer;

    http_answer_init(&answer);
    int status = http_answer_head(&answer, fd, false, deadline, err);
    if (status < 0)
        tn_error_context(err, "the hand");
    else if (status != 101)
        status = refused(&answer, fd, status, port, deadline, err);
    http_answer_done(&answer);
    return status < 0 ? -1 : 0;
}
