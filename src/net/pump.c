#include "net/pump.h"

#include <poll.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "net/splice.h"

#define QUIET_SECONDS 86400.0
#define HALF_SECONDS 3600.0 /* quiet, and one side has said its last word */
enum {
    PIECE = 64 << 10,
    BULK = 4, /* full pieces in a row that are worth a pipe */
};

/* One direction: bytes read but not yet taken by the other side, in memory or in the pipe. */
struct way {
    int from, to;
    char *bytes;
    size_t start, end;
    struct net_pipe pipe;
    unsigned full; /* pieces in a row that filled the memory */
    bool over;     /* nothing more goes this way; the other side was told */
    uint64_t carried;
};

static void way_init(struct way *w, int from, int to, const struct tn_buf *early)
{
    size_t n = early ? early->len : 0;

    *w = (struct way){.from = from, .to = to, .bytes = tn_malloc(PIECE + n), .end = n};
    w->pipe = NET_PIPE_NONE;
    if (n)
        memcpy(w->bytes, early->data, n);
}

static void way_done(struct way *w)
{
    net_pipe_close(&w->pipe);
    free(w->bytes);
}

static bool way_holds(const struct way *w)
{
    return w->start < w->end || w->pipe.held > 0;
}

static void way_end(struct way *w)
{
    if (w->over)
        return;
    w->over = true;
    w->start = w->end;
    net_pipe_close(&w->pipe);
    shutdown(w->to, SHUT_WR);
}

/* Takes a next piece in.  What comes in bulk goes through a pipe from then on, what comes in small
 * pieces never costs one. */
static ssize_t take_in(struct way *w)
{
    if (w->pipe.in < 0 && w->full == BULK && net_pipe_open(&w->pipe) < 0)
        w->full = BULK + 1;
    if (w->pipe.in >= 0) {
        ssize_t n = net_pipe_fill(&w->pipe, w->from, INT64_MAX);
        if (n >= 0 || (errno != EINVAL && errno != ENOSYS && errno != EPERM))
            return n;
        net_pipe_close(&w->pipe);
        w->full = BULK + 1;
    }
    ssize_t n = recv(w->from, w->bytes, PIECE, MSG_DONTWAIT);
    w->start = 0;
    w->end = n > 0 ? (size_t)n : 0;
    if (w->full < BULK)
        w->full = n == PIECE ? w->full + 1 : 0;
    return n;
}

static ssize_t give_out(struct way *w)
{
    if (w->start == w->end)
        return net_pipe_drain(&w->pipe, w->to);
    ssize_t n = send(w->to, w->bytes + w->start, w->end - w->start, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n > 0)
        w->start += (size_t)n;
    return n;
}

static bool would_block(ssize_t n)
{
    return n < 0 && (errno == EAGAIN || errno == EINTR);
}

/* Moves what it can without blocking.  The way ends with its source, or when nobody takes it any
 * more. */
static void way_move(struct way *w)
{
    if (w->over)
        return;
    if (!way_holds(w)) {
        ssize_t n = take_in(w);
        if (would_block(n))
            return;
        if (n <= 0)
            way_end(w);
    }
    while (way_holds(w)) {
        ssize_t n = give_out(w);
        if (would_block(n))
            return;
        if (n <= 0)
            way_end(w);
        else
            w->carried += (uint64_t)n;
    }
}

/* What to wait for on a socket: `in` comes from it, `out` goes to it.  A hangup is always told; it
 * says that the peer is gone in both directions, and it would be told for ever, so one that was
 * seen is not polled for it. */
static struct pollfd interest(int fd, const struct way *in, const struct way *out, bool gone)
{
    short events =
        (short)((!in->over && !way_holds(in) ? POLLIN : 0) | (way_holds(out) ? POLLOUT : 0));
    return (struct pollfd){.fd = gone && !events ? -1 : fd, .events = events};
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

uint64_t tn_pump(int a, int b, const struct tn_buf *from_a, const struct tn_buf *from_b)
{
    struct net_splice s;
    struct way up, down;

    way_init(&up, a, b, from_a);
    way_init(&down, b, a, from_b);
    net_keep_alive(a);
    net_keep_alive(b);
    net_allow_pauses(a); /* a terminal may be held for a while */
    net_allow_pauses(b);
    net_splice_begin(&s, a, b);
    carry(&up, &down);
    net_splice_end(&s);
    way_done(&up);
    way_done(&down);
    return up.carried + down.carried;
}
