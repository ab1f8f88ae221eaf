/* /v1/tunnel/{port}: a byte stream to a port inside the sandbox, by HTTP upgrade. */
#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "hand/routes.h"
#include "hand/v1/v1.h"
#include "net/listen.h"

#define CONNECT_SECONDS 5.0
#define QUIET_SECONDS 86400.0
enum { PIECE = 64 << 10 };

/* One direction: bytes read but not yet taken by the other side. */
struct way {
    int from, to;
    char *bytes;
    size_t start, end;
    bool done; /* end of file has been passed on */
};

/* Moves what it can without blocking; -1 when a side is broken. */
static int move(struct way *w)
{
    if (w->start == w->end && !w->done) {
        ssize_t n = recv(w->from, w->bytes, PIECE, MSG_DONTWAIT);
        if (n < 0)
            return errno == EAGAIN || errno == EINTR ? 0 : -1;
        w->start = 0;
        w->end = (size_t)n;
        if (n == 0) {
            w->done = true;
            shutdown(w->to, SHUT_WR);
        }
    }
    while (w->start < w->end) {
        ssize_t n = send(w->to, w->bytes + w->start, w->end - w->start, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0)
            return errno == EAGAIN || errno == EINTR ? 0 : -1;
        w->start += (size_t)n;
    }
    return 0;
}

static void carry(int client, int inside, struct tn_buf *early)
{
    tn_autofree char *up_bytes = tn_malloc(PIECE + early->len), *down_bytes = tn_malloc(PIECE);
    struct way up = {.from = client, .to = inside, .bytes = up_bytes, .end = early->len};
    struct way down = {.from = inside, .to = client, .bytes = down_bytes};

    memcpy(up_bytes, tn_buf_str(early), early->len);
    while (move(&up) == 0 && move(&down) == 0 && !(up.done && down.done)) {
        bool up_full = up.start < up.end, down_full = down.start < down.end;
        struct pollfd fds[] = {
            {.fd = up.done && !down_full ? -1 : client,
             .events = (short)((up_full || up.done ? 0 : POLLIN) | (down_full ? POLLOUT : 0))},
            {.fd = down.done && !up_full ? -1 : inside,
             .events = (short)((down_full || down.done ? 0 : POLLIN) | (up_full ? POLLOUT : 0))},
        };
        if (poll(fds, 2, tn_poll_ms(tn_deadline_in(QUIET_SECONDS))) == 0)
            return;
    }
}

static void get_tunnel(struct tn_http_exchange *x, void *ctx)
{
    tn_autobuf struct tn_buf early = TN_BUF_INIT(1 << 20);
    struct tn_error err;
    char address[32], *end;

    const char *text = tn_http_param(x, "port");
    long port = strtol(text, &end, 10);
    if (*end || port < 1 || port > 65535) {
        tn_http_reply_detail(x, 422, "port must be a number from 1 to 65535");
        return;
    }
    snprintf(address, sizeof address, "127.0.0.1:%ld", port);
    tn_autofd int inside = tn_dial(address, tn_deadline_in(CONNECT_SECONDS), &err);
    if (inside < 0) {
        snprintf(address, sizeof address, "[::1]:%ld", port);
        inside = tn_dial(address, tn_deadline_in(CONNECT_SECONDS), NULL);
    }
    if (inside < 0) {
        tn_http_reply_detail(x, 502, err.text);
        return;
    }
    int client = tn_http_upgrade(x, "tendon-tunnel", &early);
    if (client >= 0)
        carry(client, inside, &early);
}

const struct tn_route tn_routes_tunnel[] = {
    {"GET", "/v1/tunnel/{port}", get_tunnel, "Upgrade: tendon-tunnel, then bytes to and from the port", 0},
    {0},
};
