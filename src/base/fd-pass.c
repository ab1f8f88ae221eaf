#include "base/fd-pass.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Aligned as the kernel wants it. */
union control {
    struct cmsghdr align;
    char room[CMSG_SPACE(TN_FD_PASS_MAX * sizeof(int))];
};

ssize_t tn_fd_send(int socket, const void *bytes, size_t n, const int *fds, size_t count, int flags)
{
    union control control = {0};
    struct iovec part = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = n};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

    if (count > TN_FD_PASS_MAX) {
        errno = EINVAL;
        return -1;
    }
    if (count) {
        message.msg_control = control.room;
        message.msg_controllen = CMSG_SPACE(count * sizeof *fds);
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(count * sizeof *fds);
        memcpy(CMSG_DATA(head), fds, count * sizeof *fds);
    }
    return sendmsg(socket, &message, flags | MSG_NOSIGNAL);
}

ssize_t tn_fd_receive(int socket, void *bytes, size_t n, int *fds, size_t *count, int flags)
{
    union control control = {0};
    struct iovec part = {.iov_base = bytes, .iov_len = n};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.room,
                             .msg_controllen = sizeof control.room};
    size_t room = *count;

    *count = 0;
    for (size_t i = 0; i < room; i++)
        fds[i] = -1;
    ssize_t came = recvmsg(socket, &message, flags | MSG_CMSG_CLOEXEC);
    if (came < 0)
        return -1;
    bool cut = message.msg_flags & (MSG_TRUNC | MSG_CTRUNC);
    const struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    bool any = head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS;
    size_t all = any ? (head->cmsg_len - CMSG_LEN(0)) / sizeof(int) : 0;
    for (size_t i = 0; i < all; i++) {
        int fd;
        memcpy(&fd, CMSG_DATA(head) + i * sizeof fd, sizeof fd);
        if (!cut && *count < room)
            fds[(*count)++] = fd;
        else
            close(fd);
    }
    if (cut)
        errno = EMSGSIZE;
    return cut ? -1 : came;
}
