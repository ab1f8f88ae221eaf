#include "jail/message.h"

#include <poll.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/fd-pass.h"

int jail_send(int socket, const struct jail_message *message, int fd, struct tn_error *err)
{
    if (tn_fd_send(socket, message, sizeof *message, &fd, fd >= 0, 0) < 0)
        return tn_fail_errno(err, errno, "talk to the other half of the launcher");
    return 0;
}

int jail_receive(int socket, struct jail_message *message, int *fd, int64_t deadline,
                 struct tn_error *err)
{
    tn_autofd int passed = -1;
    size_t count = 1;
    struct pollfd p = {.fd = socket, .events = POLLIN};

    if (fd)
        *fd = -1;
    if (deadline != TN_NEVER && poll(&p, 1, tn_poll_ms(deadline)) == 0)
        return tn_fail(err, TN_E_TIMEOUT, "the other half of the launcher does not answer");
    ssize_t n = tn_fd_receive(socket, message, sizeof *message, &passed, &count, 0);
    /* A side that died with unread packets is reported first, once; its last words come then. */
    if (n < 0 && errno == ECONNRESET) {
        count = 1;
        n = tn_fd_receive(socket, message, sizeof *message, &passed, &count, 0);
    }
    if (n == 0)
        return 0;
    if (n != sizeof *message)
        return tn_fail_errno(err, n < 0 ? errno : EPROTO, "hear the other half of the launcher");
    if (fd)
        *fd = TN_TAKE_FD(passed);
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
