#include "jail/parcel.h"

#include <fcntl.h>
#include <sys/socket.h>

union control {
    struct cmsghdr align;
    char room[CMSG_SPACE(TN_PARCEL_MOST * sizeof(int))];
};

int tn_parcel_pair(int pair[2], struct tn_error *err)
{
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return tn_fail_errno(err, errno, "socket pair");
    return 0;
}

/* One packet: the numbers, and with them the descriptors. */
int tn_parcel_send(int socket, const struct tn_child_fd *fds, size_t count, struct tn_error *err)
{
    int numbers[TN_PARCEL_MOST], from[TN_PARCEL_MOST];
    union control control = {0};
    struct iovec part = {.iov_base = numbers, .iov_len = count * sizeof *numbers};
    struct msghdr packet = {.msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = control.room,
                            .msg_controllen = CMSG_SPACE(count * sizeof(int))};

    for (size_t i = 0; i < count; i++) {
        numbers[i] = fds[i].to;
        from[i] = fds[i].from;
    }
    struct cmsghdr *c = CMSG_FIRSTHDR(&packet);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(count * sizeof(int));
    memcpy(CMSG_DATA(c), from, count * sizeof *from);
    ssize_t n;
    while ((n = sendmsg(socket, &packet, MSG_NOSIGNAL | MSG_DONTWAIT)) < 0 && errno == EINTR)
        ;
    return n < 0 ? tn_fail_errno(err, errno, "send descriptors") : 0;
}

/* Out of the way of all numbers first: one that has just come may have the number of the next. */
static int place(int socket, int *got, const int *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int high = fcntl(got[i], F_DUPFD_CLOEXEC, socket + 1);
        if (high < 0)
            return -1;
        close(got[i]);
        got[i] = high;
    }
    for (size_t i = 0; i < count; i++) {
        if (numbers[i] < 3 || numbers[i] >= socket) {
            errno = EBADF;
            return -1;
        }
        if (dup3(got[i], numbers[i], O_CLOEXEC) < 0)
            return -1;
    }
    return 0;
}

int tn_parcel_receive(int socket, struct tn_error *err)
{
    int numbers[TN_PARCEL_MOST], got[TN_PARCEL_MOST];
    union control control = {0};
    struct iovec part = {.iov_base = numbers, .iov_len = sizeof numbers};
    struct msghdr packet = {.msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = control.room,
                            .msg_controllen = sizeof control.room};
    size_t count = 0;
    ssize_t n;

    while ((n = recvmsg(socket, &packet, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR)
        ;
    if (n == 0 || (n < 0 && errno == ECONNRESET))
        return 0;
    if (n < 0)
        return tn_fail_errno(err, errno, "receive descriptors");
    struct cmsghdr *c = CMSG_FIRSTHDR(&packet);
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
        count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        memcpy(got, CMSG_DATA(c), count * sizeof *got);
    }
    int r = 1;
    if ((size_t)n != count * sizeof *numbers || packet.msg_flags & (MSG_TRUNC | MSG_CTRUNC))
        r = tn_fail(err, TN_E_PEER, "descriptors: %zu came, with %zd bytes of numbers", count, n);
    else if (place(socket, got, numbers, count) < 0)
        r = tn_fail_errno(err, errno, "place descriptors");
    for (size_t i = 0; i < count; i++)
        close(got[i]);
    return r;
}
