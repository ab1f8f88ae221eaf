/* The door of a jail that no listening socket can be passed into: the keeper accepts, and hands the
 * connection itself to the hand, which takes it as from a backlog (net/pair.h has the other side).
 * What comes the other way through the pair is never read. */
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/fd-pass.h"
#include "jail/jail.h"

int jail_open_door(struct jail *j, struct tn_error *err)
{
    int ends[2];

    if (!j->plan.runsc)
        return 0;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return tn_fail_errno(err, errno, "socket pair");
    j->door.listener = (int)j->plan.socket_fd;
    j->door.pair = ends[0];
    j->door.inside = ends[1];
    fcntl(j->door.listener, F_SETFD, FD_CLOEXEC);
    return 0;
}

int jail_take_door(struct jail *j, struct tn_error *err)
{
    if (j->plan.runsc && dup2(j->door.inside, (int)j->plan.socket_fd) < 0)
        return tn_fail_errno(err, errno, "descriptor %d", (int)j->plan.socket_fd);
    return 0;
}

void jail_poll_door(const struct jail_door *d, struct pollfd *p)
{
    p->fd = d->held >= 0 ? d->pair : d->listener;
    p->events = d->held >= 0 ? POLLOUT : POLLIN;
}

/* 0, or -1 with errno. */
static int hand_over(int pair, int fd)
{
    return tn_fd_send(pair, "c", 1, &fd, 1, MSG_DONTWAIT) < 0 ? -1 : 0;
}

/* A hand that takes none leaves those who come in the backlog of the socket, as any would. */
void jail_serve_door(struct jail_door *d)
{
    if (d->held < 0)
        d->held = accept4(d->listener, NULL, NULL, SOCK_CLOEXEC);
    if (d->held >= 0 && hand_over(d->pair, d->held) < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    tn_close(TN_TAKE_FD(d->held));
}
