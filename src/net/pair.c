#include "net/pair.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/fd-pass.h"
#include "net/socket-io.h"

int tn_pair_open(int ends[2], struct tn_error *err)
{
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return tn_fail_errno(err, errno, "socket pair");
    return 0;
}

char *tn_pair_address(int end, struct tn_error *err)
{
    struct stat st;

    if (fstat(end, &st) < 0) {
        tn_fail_errno(err, errno, "descriptor %d", end);
        return NULL;
    }
    return tn_asprintf("pair:%d:%llu", end, (unsigned long long)st.st_ino);
}

static int option(int fd, int name)
{
    int value = -1;
    socklen_t len = sizeof value;

    return getsockopt(fd, SOL_SOCKET, name, &value, &len) < 0 ? -1 : value;
}

bool net_is_pair(int fd)
{
    return option(fd, SO_DOMAIN) == AF_UNIX && option(fd, SO_TYPE) == SOCK_SEQPACKET &&
           option(fd, SO_ACCEPTCONN) == 0;
}

/* 0, or -1 with errno. */
static int send_descriptor(int end, int fd, int64_t deadline)
{
    struct net_wait wait = {.each = TN_NEVER, .deadline = deadline};

    while (tn_fd_send(end, "c", 1, &fd, 1, MSG_DONTWAIT) < 0) {
        if (errno == EINTR)
            continue;
        if (errno != EAGAIN)
            return -1;
        int ready = net_poll(end, POLLOUT, &wait);
        if (ready == 0)
            errno = ETIMEDOUT;
        if (ready <= 0)
            return -1;
    }
    return 0;
}

int net_pair_dial(int end, int64_t deadline, struct tn_error *err)
{
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return tn_fail_errno(err, errno, "socket pair");
    tn_autofd int ours = ends[0];
    tn_autofd int theirs = ends[1];
    if (send_descriptor(end, theirs, deadline) == 0)
        return TN_TAKE_FD(ours);
    if (errno == EPIPE || errno == ECONNRESET)
        errno = ECONNREFUSED; /* what a socket says that nobody listens on */
    return tn_fail_errno(err, errno, "connect through descriptor %d", end);
}

int net_pair_take(int end)
{
    char byte;
    int fd;
    size_t count = 1;
    ssize_t n = tn_fd_receive(end, &byte, 1, &fd, &count, MSG_DONTWAIT);

    if (n >= 0 && fd < 0)
        errno = n == 0 ? EPIPE : EPROTO;
    return fd;
}
