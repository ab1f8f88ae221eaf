#include "jail/parcel.h"

#include <fcntl.h>
#include <sys/socket.h>

#include "base/fd-pass.h"

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
    ssize_t n;

    for (size_t i = 0; i < count; i++) {
        numbers[i] = fds[i].to;
        from[i] = fds[i].from;
    }
    do
        n = tn_fd_send(socket, numbers, count * sizeof *numbers, from, count, MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
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
    size_t count;
    ssize_t n;

    do {
        count = TN_PARCEL_MOST;
        n = tn_fd_receive(socket, numbers, sizeof numbers, got, &count, 0);
    } while (n < 0 && errno == EINTR);
    if (n == 0 || (n < 0 && errno == ECONNRESET))
        return 0;
    if (n < 0)
        return tn_fail_errno(err, errno, "receive descriptors");
    int r = 1;
    if ((size_t)n != count * sizeof *numbers)
        r = tn_fail(err, TN_E_PEER, "descriptors: %zu came, with %zd bytes of numbers", count, n);
    else if (place(socket, got, numbers, count) < 0)
        r = tn_fail_errno(err, errno, "place descriptors");
    for (size_t i = 0; i < count; i++)
        close(got[i]);
    return r;
}
