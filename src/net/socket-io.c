#include "net/socket-io.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "base/clock.h"
#include "base/guard.h"

enum { COPY_BYTES = 32 * 1024, SENDFILE_BYTES = 1 << 20 };

#define INTEREST TN_SECOND /* a peer that spoke and takes nothing for so long wants no more */

/* What ends a wait: of a socket its closing, since its peer may send more before. */
static short ending(int fd)
{
    int type;
    socklen_t n = sizeof type;

    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &n) == 0 ? POLLRDHUP : POLLIN;
}

int net_poll(int fd, short events, const struct net_wait *wait)
{
    struct pollfd p[] = {{.fd = fd, .events = events}, {.fd = wait->cancel}};
    int64_t deadline = wait->deadline;

    if (wait->each != TN_NEVER) {
        int64_t soon = tn_now() + wait->each;
        deadline = soon < deadline ? soon : deadline;
    }
    if (wait->cancel > 0)
        p[1].events = ending(wait->cancel);
    int r;
    do
        r = poll(p, wait->cancel > 0 ? 2 : 1, tn_poll_ms(deadline));
    while (r < 0 && errno == EINTR);
    return r > 0 ? p[0].revents : r;
}

/* After a call that would block: 0 to try again, or -1 with errno. */
static int wait_or_fail(int fd, short events, const struct net_wait *wait)
{
    int r = net_poll(fd, events, wait);

    if (r == 0)
        errno = ETIMEDOUT;
    return r > 0 ? 0 : -1;
}

ssize_t net_recv(int fd, void *to, size_t n, const struct net_wait *wait)
{
    for (;;) {
        ssize_t got = recv(fd, to, n, MSG_DONTWAIT);
        if (got >= 0)
            return got;
        if (errno == EAGAIN) {
            if (wait_or_fail(fd, POLLIN, wait) < 0)
                return -1;
        } else if (errno != EINTR) {
            return -1;
        }
    }
}

/* Count, 0 when the peer takes none now, -1. */
static ssize_t send_some(int fd, struct iovec *pieces, int count)
{
    struct msghdr m = {.msg_iov = pieces, .msg_iovlen = (size_t)count};
    ssize_t sent;

    do
        sent = sendmsg(fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent < 0 && errno == EAGAIN ? 0 : sent;
}

/* Drops `sent` bytes from the front of the pieces. */
static void advance(struct iovec **pieces, int *count, size_t sent)
{
    while (*count > 0 && sent >= (*pieces)->iov_len) {
        sent -= (*pieces)->iov_len;
        (*pieces)->iov_len = 0;
        (*pieces)++;
        (*count)--;
    }
    if (*count > 0) {
        (*pieces)->iov_base = (char *)(*pieces)->iov_base + sent;
        (*pieces)->iov_len -= sent;
    }
}

int net_send(int fd, struct iovec *pieces, int count, const struct net_wait *wait)
{
    advance(&pieces, &count, 0);
    while (count > 0) {
        ssize_t sent = send_some(fd, pieces, count);
        if (sent > 0)
            advance(&pieces, &count, (size_t)sent);
        else if (sent < 0 || wait_or_fail(fd, POLLOUT, wait) < 0)
            return -1;
    }
    return 0;
}

int net_wait_to_ask(int fd, const struct net_wait *wait)
{
    const struct net_wait interest = {.each = INTEREST, .deadline = wait->deadline};

    int r = net_poll(fd, POLLOUT | POLLIN, wait);
    if (r > 0 && !(r & POLLOUT))
        return net_poll(fd, POLLOUT, &interest) > 0 ? 0 : 1;
    if (r == 0)
        errno = ETIMEDOUT;
    return r > 0 ? 0 : -1;
}

int net_ask(int fd, struct iovec *pieces, int count, const struct net_wait *wait)
{
    int r = 0;

    advance(&pieces, &count, 0);
    while (count > 0 && r == 0) {
        ssize_t sent = send_some(fd, pieces, count);
        if (sent > 0)
            advance(&pieces, &count, (size_t)sent);
        else if (sent == 0)
            r = net_wait_to_ask(fd, wait);
        else
            r = errno == EPIPE || errno == ECONNRESET ? 1 : -1;
    }
    return r;
}

/* The slow way, for files sendfile refuses (pipes, some virtual files). */
static int copy_file(int fd, int file, int64_t offset, int64_t n, const struct net_wait *wait)
{
    tn_autofree char *block = malloc(COPY_BYTES);

    if (!block) {
        errno = ENOMEM;
        return -1;
    }
    while (n > 0) {
        ssize_t got = pread(file, block, n < COPY_BYTES ? (size_t)n : COPY_BYTES, offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got == 0)
            errno = ENODATA;
        if (got <= 0)
            return -1;
        struct iovec piece = {.iov_base = block, .iov_len = (size_t)got};
        if (net_send(fd, &piece, 1, wait) < 0)
            return -1;
        offset += got;
        n -= got;
    }
    return 0;
}

/* sendfile knows no MSG_NOSIGNAL: a SIGPIPE it raised must be taken away before the mask is
 * restored. */
static void swallow_sigpipe(const sigset_t *pipe_only)
{
    static const struct timespec no_wait;
    int saved = errno;

    while (sigtimedwait(pipe_only, NULL, &no_wait) < 0 && errno == EINTR)
        ;
    errno = saved;
}

/* On a socket that does not block.  0, or an errno; *at is how far it came. */
static int splice_file(int fd, int file, off_t *at, off_t end, const struct net_wait *wait)
{
    while (*at < end) {
        size_t left = end - *at < SENDFILE_BYTES ? (size_t)(end - *at) : SENDFILE_BYTES;
        ssize_t sent = sendfile(fd, file, at, left);
        if (sent == 0)
            return ENODATA;
        if (sent < 0 && errno == EAGAIN) {
            if (wait_or_fail(fd, POLLOUT, wait) < 0)
                return errno;
        } else if (sent < 0 && errno != EINTR) {
            return errno;
        }
    }
    return 0;
}

int net_send_file(int fd, int file, int64_t offset, int64_t n, const struct net_wait *wait)
{
    sigset_t pipe_only, old;
    off_t at = offset, end = offset + n;
    int flags = fcntl(fd, F_GETFL);

    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
        return -1;
    sigemptyset(&pipe_only);
    sigaddset(&pipe_only, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_only, &old);
    int why = splice_file(fd, file, &at, end, wait);
    if (why == EPIPE && !sigismember(&old, SIGPIPE))
        swallow_sigpipe(&pipe_only);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    fcntl(fd, F_SETFL, flags);
    if (why == EINVAL || why == ENOSYS)
        return copy_file(fd, file, at, end - at, wait);
    errno = why;
    return why ? -1 : 0;
}

int net_recv_timeout(int fd, double seconds)
{
    struct timeval t = {.tv_sec = (time_t)seconds};

    t.tv_usec = (suseconds_t)((seconds - (double)t.tv_sec) * 1e6);
    return setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
}

void net_keep_alive(int fd)
{
    static const struct {
        int level, name, value;
    } options[] = {
        {SOL_SOCKET, SO_KEEPALIVE, 1},
        {IPPROTO_TCP, TCP_KEEPIDLE, 30},
        {IPPROTO_TCP, TCP_KEEPINTVL, 10},
        {IPPROTO_TCP, TCP_KEEPCNT, 3},
        {IPPROTO_TCP, TCP_USER_TIMEOUT, 60 * 1000}, /* also when something is on its way */
    };

    for (size_t i = 0; i < TN_COUNT(options); i++)
        setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof(int));
}

void net_allow_pauses(int fd)
{
    int never = 0;

    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &never, sizeof never);
}
