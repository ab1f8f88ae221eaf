#include "net/splice.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <time.h>

#include "base/clock.h"
#include "base/guard.h"

enum { PIPE_BYTES = 512 << 10, SOCKET_BYTES = 1 << 20 };

/* --- the pipe ------------------------------------------------------------------------------ */

int net_pipe_open(struct net_pipe *p)
{
    int ends[2];

    *p = NET_PIPE_NONE;
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
        return -1;
    p->out = ends[0];
    p->in = ends[1];
    (void)fcntl(p->in, F_SETPIPE_SZ, PIPE_BYTES); /* a smaller one does as well */
    return 0;
}

void net_pipe_close(struct net_pipe *p)
{
    tn_close(p->in);
    tn_close(p->out);
    *p = NET_PIPE_NONE;
}

ssize_t net_pipe_fill(struct net_pipe *p, int from, int64_t n)
{
    size_t most = n < PIPE_BYTES ? (size_t)n : PIPE_BYTES;
    ssize_t got = splice(from, NULL, p->in, NULL, most, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);

    if (got > 0)
        p->held += (size_t)got;
    return got;
}

ssize_t net_pipe_drain(struct net_pipe *p, int to)
{
    ssize_t sent = splice(p->out, NULL, to, NULL, p->held, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);

    if (sent > 0)
        p->held -= (size_t)sent;
    return sent;
}

/* --- the sockets --------------------------------------------------------------------------- */

static void only_sigpipe(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGPIPE);
}

/* What a unix socket holds is not grown by the kernel as TCP's is; it takes what it may. */
static void widen(int fd)
{
    int domain = 0, wanted = SOCKET_BYTES;
    socklen_t n = sizeof domain;

    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &n) == 0 && domain == AF_UNIX)
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &wanted, sizeof wanted);
}

void net_splice_begin(struct net_splice *s, int a, int b)
{
    sigset_t pipe_only;

    s->fds[0] = a;
    s->fds[1] = b;
    for (int i = 0; i < 2; i++) {
        widen(s->fds[i]);
        s->flags[i] = fcntl(s->fds[i], F_GETFL);
        if (s->flags[i] >= 0)
            (void)fcntl(s->fds[i], F_SETFL, s->flags[i] | O_NONBLOCK);
    }
    only_sigpipe(&pipe_only);
    pthread_sigmask(SIG_BLOCK, &pipe_only, &s->mask);
}

void net_splice_end(struct net_splice *s)
{
    static const struct timespec no_wait;
    int saved = errno;
    sigset_t pipe_only;

    only_sigpipe(&pipe_only);
    if (!sigismember(&s->mask, SIGPIPE))
        while (sigtimedwait(&pipe_only, NULL, &no_wait) < 0 && errno == EINTR)
            ;
    pthread_sigmask(SIG_SETMASK, &s->mask, NULL);
    for (int i = 0; i < 2; i++)
        if (s->flags[i] >= 0)
            (void)fcntl(s->fds[i], F_SETFL, s->flags[i]);
    errno = saved;
}

/* --- carrying ------------------------------------------------------------------------------ */

/* Until there is more to carry: 0, 1 or -1 as net_carry. */
static int wait_for_giver(const struct net_carry *c)
{
    struct pollfd fds[] = {{.fd = c->from, .events = POLLIN},
                           {.fd = c->to, .events = c->ask ? POLLIN : POLLRDHUP}};
    int64_t deadline = c->in.deadline;
    int n;

    if (c->in.each != TN_NEVER && tn_now() + c->in.each < deadline)
        deadline = tn_now() + c->in.each;
    do
        n = poll(fds, 2, tn_poll_ms(deadline));
    while (n < 0 && errno == EINTR);
    if (n > 0 && (fds[0].revents || c->ask))
        return !fds[0].revents;
    errno = n > 0 ? EPIPE : n == 0 ? ETIMEDOUT : errno;
    return -1;
}

static int wait_for_taker(const struct net_carry *c)
{
    if (c->ask)
        return net_wait_to_ask(c->to, &c->out);
    int r = net_poll(c->to, POLLOUT, &c->out);
    if (r == 0)
        errno = ETIMEDOUT;
    return r > 0 ? 0 : -1;
}

/* What an end or a failure means; a stream that ends too early is one. */
static int stopped(const struct net_carry *c, bool filling, ssize_t n)
{
    if (n == 0)
        errno = ENODATA;
    else if (filling && (errno == EINVAL || errno == ENOSYS || errno == EPERM))
        return 0;
    else if (!filling && c->ask && (errno == EPIPE || errno == ECONNRESET))
        return 1;
    return -1;
}

static int carry(struct net_carry *c, struct net_pipe *p)
{
    int r = 0;

    while (c->unsent > 0 && r == 0) {
        bool filling = p->held == 0;
        ssize_t n = filling ? net_pipe_fill(p, c->from, c->unread) : net_pipe_drain(p, c->to);
        if (n > 0)
            *(filling ? &c->unread : &c->unsent) -= n;
        else if (n == 0 || (errno != EAGAIN && errno != EINTR))
            return stopped(c, filling, n);
        else
            r = filling ? wait_for_giver(c) : wait_for_taker(c);
    }
    return r;
}

int net_carry(struct net_carry *c)
{
    struct net_splice s;
    struct net_pipe p;

    if (net_pipe_open(&p) < 0)
        return 0;
    net_splice_begin(&s, c->from, c->to);
    int r = carry(c, &p);
    net_splice_end(&s);
    net_pipe_close(&p);
    return r;
}
