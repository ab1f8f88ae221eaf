#include "jail/message.h"

#include <poll.h>
#include <sys/socket.h>

#include "base/clock.h"

union control {
    struct cmsghdr align;
    char room[CMSG_SPACE(sizeof(int))];
};

int jail_send(int socket, const struct jail_message *message, int fd, struct tn_error *err)
{
    union control control = {0};
    struct iovec part = {.iov_base = (void *)(uintptr_t)message, .iov_len = sizeof *message};
    struct msghdr packet = {.msg_iov = &part, .msg_iovlen = 1};

    if (fd >= 0) {
        packet.msg_control = control.room;
        packet.msg_controllen = sizeof control.room;
        struct cmsghdr *c = CMSG_FIRSTHDR(&packet);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(c), &fd, sizeof fd);
    }
    if (sendmsg(socket, &packet, MSG_NOSIGNAL) < 0)
        return tn_fail_errno(err, errno, "talk to the other half of the launcher");
    return 0;
}

int jail_receive(int socket, struct jail_message *message, int *fd, int64_t deadline,
                 struct tn_error *err)
{
    union control control = {0};
    struct iovec part = {.iov_base = message, .iov_len = sizeof *message};
    struct msghdr packet = {.msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = control.room,
                            .msg_controllen = sizeof control.room};
    struct pollfd p = {.fd = socket, .events = POLLIN};

    if (fd)
        *fd = -1;
    if (deadline != TN_NEVER && poll(&p, 1, tn_poll_ms(deadline)) == 0)
        return tn_fail(err, TN_E_TIMEOUT, "the other half of the launcher does not answer");
    ssize_t n = recvmsg(socket, &packet, MSG_CMSG_CLOEXEC);
    /* A side that died with unread packets is reported first, once; its last words come then. */
    if (n < 0 && errno == ECONNRESET)
        n = recvmsg(socket, &packet, MSG_CMSG_CLOEXEC);
    if (n == 0)
        return 0;
    if (n != sizeof *message)
        return tn_fail_errno(err, n < 0 ? errno : EPROTO, "hear the other half of the launcher");
    struct cmsghdr *c = CMSG_FIRSTHDR(&packet);
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
        int passed;
        memcpy(&passed, CMSG_DATA(c), sizeof passed);
        if (fd)
            *fd = passed;
        else
            close(passed);
    }
    return 1;
}

int jail_expect(int socket, enum jail_message_kind kind, struct jail_message *message,
                struct tn_error *err)
{
    struct jail_message own;
    struct jail_message *m = message ? message : &own;
    int fd, r = jail_receive(socket, m, &fd, TN_NEVER, err);

    if (r > 0 && m->kind == kind)
        return fd;
    tn_close(fd);
    tn_fail(err, TN_E_PEER, "the launcher is gone");
    return -2;
}
