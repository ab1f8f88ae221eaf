/* /v1/tunnel/{port}: a byte stream to a port inside the sandbox, by HTTP upgrade. */
#include <poll.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "hand/routes.h"
#include "hand/v1/v1.h"
#include "net/listen.h"

#define CONNECT_SECONDS 5.0
#define QUIET_SECONDS 86400.0
#define HALF_SECONDS 3600.0 /* quiet, and one side has said its last word */
enum { PIECE = 64 << 10 };

/* One direction: bytes read but not yet taken by the other side. */
struct way {
    int from, to;
    char *bytes;
    size_t start, end;
    bool over; /* nothing more goes this way; the other side was told */
};

static void way_end(struct way *w)
{
    if (w->over)
        return;
    w->over = true;
    w->start = w->end;
    shutdown(w->to, SHUT_WR);
}

/* Moves what it can without blocking.  The way ends with its source, or when nobody takes it any
 * more. */
static void way_move(struct way *w)
{
    if (w->over)
        return;
    if (w->start == w->end) {
        ssize_t n = recv(w->from, w->bytes, PIECE, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        w->start = 0;
        w->end = n > 0 ? (size_t)n : 0;
        if (n <= 0)
            way_end(w);
    }
    while (w->start < w->end) {
        ssize_t n =
            send(w->to, w->bytes + w->start, w->end - w->start, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n < 0)
            way_end(w);
        else
            w->start += (size_t)n;
    }
}

/* What to wait for on a socket: `in` comes from it, `out` goes to it.  A hangup is always told; it
 * says that the peer is gone in both directions, and it would be told for ever, so one that was
 * seen is not polled for it. */
static struct pollfd interest(int fd, const struct way *in, const struct way *out, bool gone)
{
    short events = (short)((!in->over && in->start == in->end ? POLLIN : 0) |
                           (out->start < out->end ? POLLOUT : 0));
    return (struct pollfd){.fd = gone && !events ? -1 : fd, .events = events};
}

static void carry(int client, int inside, struct tn_buf *early)
{
    tn_autofree char *up_bytes = tn_malloc(PIECE + early->len), *down_bytes = tn_malloc(PIECE);
    struct way up = {.from = client, .to = inside, .bytes = up_bytes, .end = early->len};
    struct way down = {.from = inside, .to = client, .bytes = down_bytes};
    bool client_gone = false, inside_gone = false;

    memcpy(up_bytes, tn_buf_str(early), early->len);
    for (;;) {
        way_move(&up);
        way_move(&down);
        if (up.over && down.over)
            return;
        struct pollfd fds[] = {interest(client, &up, &down, client_gone),
                               interest(inside, &down, &up, inside_gone)};
        double quiet = up.over || down.over ? HALF_SECONDS : QUIET_SECONDS;
        if (poll(fds, 2, tn_poll_ms(tn_deadline_in(quiet))) == 0)
            return;
        if (fds[0].revents & (POLLHUP | POLLERR)) {
            client_gone = true;
            way_end(&down);
        }
        if (fds[1].revents & (POLLHUP | POLLERR)) {
            inside_gone = true;
            way_end(&up);
        }
    }
}

/* Notices a peer whose machine is gone. */
static void keep_alive(int fd)
{
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &(int){1}, sizeof(int));
}

static int dial(int64_t port, struct tn_error *err)
{
    static const char *const hosts[] = {"127.0.0.1", "[::1]"};
    char address[32];
    int fd = -1;

    for (size_t i = 0; i < TN_COUNT(hosts) && fd < 0; i++) {
        snprintf(address, sizeof address, "%s:%d", hosts[i], (int)port);
        fd = tn_dial(address, tn_deadline_in(CONNECT_SECONDS), i == 0 ? err : NULL);
    }
    return fd;
}

static void get_tunnel(struct tn_http_exchange *x, void *ctx)
{
    tn_autobuf struct tn_buf early = TN_BUF_INIT(1 << 20);
    const char *text = tn_http_param(x, "port");
    struct tn_error err;
    int64_t port = 0;

    if (!text || !tn_v1_number(text, 10, 65535, &port) || port == 0) {
        tn_http_reply_detail(x, 422, "port must be a number from 1 to 65535");
        return;
    }
    if (!tn_http_header(x, "Upgrade") || strcmp(tn_http_method(x), "GET") != 0) {
        tn_http_set_header(x, "Upgrade", "tendon-tunnel");
        tn_http_reply_detail(x, 426, "This needs a connection upgrade to tendon-tunnel");
        return;
    }
    tn_autofd int inside = dial(port, &err);
    if (inside < 0) {
        tn_http_reply_detail(x, 502, err.text);
        return;
    }
    int client = tn_http_upgrade(x, "tendon-tunnel", &early);
    if (client < 0)
        return;
    keep_alive(client);
    keep_alive(inside);
    carry(client, inside, &early);
}

const struct tn_route tn_routes_tunnel[] = {
    {"GET", "/v1/tunnel/{port}", get_tunnel,
     "Upgrade: tendon-tunnel, then bytes to and from the port", 0},
    {0},
};
