#include "net/pump.h"

#include <poll.h>
#include <sys/socket.h>

#include "base/clock.h"

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

static void way_init(struct way *w, int from, int to, const struct tn_buf *early)
{
    size_t n = early ? early->len : 0;

    *w = (struct way){.from = from, .to = to, .bytes = tn_malloc(PIECE + n), .end = n};
    if (n)
        memcpy(w->bytes, early->data, n);
}

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

/* Notices a peer whose machine is gone. */
static void keep_alive(int fd)
{
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &(int){1}, sizeof(int));
}

static void carry(struct way *up, struct way *down)
{
    int a = up->from, b = down->from;
    bool a_gone = false, b_gone = false;

    for (;;) {
        way_move(up);
        way_move(down);
        if (up->over && down->over)
            return;
        struct pollfd fds[] = {interest(a, up, down, a_gone), interest(b, down, up, b_gone)};
        double quiet = up->over || down->over ? HALF_SECONDS : QUIET_SECONDS;
        if (poll(fds, 2, tn_poll_ms(tn_deadline_in(quiet))) == 0)
            return;
        if (fds[0].revents & (POLLHUP | POLLERR)) {
            a_gone = true;
            way_end(down);
        }
        if (fds[1].revents & (POLLHUP | POLLERR)) {
            b_gone = true;
            way_end(up);
        }
    }
}

void tn_pump(int a, int b, const struct tn_buf *from_a, const struct tn_buf *from_b)
{
    struct way up, down;

    way_init(&up, a, b, from_a);
    way_init(&down, b, a, from_b);
    keep_alive(a);
    keep_alive(b);
    carry(&up, &down);
    free(up.bytes);
    free(down.bytes);
}
