/* Sending and receiving on a stream socket with a deadline, whatever the socket's blocking mode. */
#ifndef TN_NET_SOCKET_IO_H
#define TN_NET_SOCKET_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

/* How long a call may wait: `each` nanoseconds for the next progress, and never past `deadline`. */
struct net_wait {
    int64_t each;
    int64_t deadline;
    int cancel; /* ends the wait: a socket once its peer has closed, any other descriptor once it is
                   readable; 0: none */
};

/* Waits until fd is ready for the poll events (an error or hangup counts as ready).  What it is
 * ready for, or 0 when the wait is over, or -1. */
int net_poll(int fd, short events, const struct net_wait *wait);

/* Some bytes: count, 0 at the end of the stream, -1 with errno (ETIMEDOUT: the wait is over). */
ssize_t net_recv(int fd, void *to, size_t n, const struct net_wait *wait);

/* All bytes of all pieces: 0, or -1 with errno.  Never raises SIGPIPE.  The pieces are changed to
 * what was not sent. */
int net_send(int fd, struct iovec *pieces, int count, const struct net_wait *wait);

/* The same for a request: 1 when the peer stopped taking it, having answered or closed early. */
int net_ask(int fd, struct iovec *pieces, int count, const struct net_wait *wait);

/* After a call of such a send that would block: 0 to try again, 1 as above, -1 with errno. */
int net_wait_to_ask(int fd, const struct net_wait *wait);

/* n bytes of file from offset, through sendfile when the kernel can.  0, or -1 with errno; ENODATA
 * when the file ended early.  Never raises SIGPIPE. */
int net_send_file(int fd, int file, int64_t offset, int64_t n, const struct net_wait *wait);

/* Notices within a minute or so that the machine of the peer is gone.  What a listening socket
 * accepts has it from that one. */
void net_keep_alive(int fd);
/* Afterwards: one who is there may leave what is sent to him unread for as long as he likes. */
void net_allow_pauses(int fd);

/* How long a blocking recv waits; 0 is for ever. */
int net_recv_timeout(int fd, double seconds);

#endif
