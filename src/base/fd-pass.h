/* Descriptors that go from one process to another, beside the bytes of a message on a unix socket.
 */
#ifndef TN_BASE_FD_PASS_H
#define TN_BASE_FD_PASS_H

#include <stddef.h>
#include <sys/types.h>

enum { TN_FD_PASS_MAX = 64 }; /* in one message */

/* As sendmsg, with MSG_NOSIGNAL among the flags.  A message without bytes would look like the end:
 * n is at least 1.  The descriptors stay open here. */
ssize_t tn_fd_send(int socket, const void *bytes, size_t n, const int *fds, size_t count,
                   int flags);

/* As recvmsg.  fds has room for *count descriptors: those that came are there, close-on-exec and
 * the caller's, *count is how many, and -1 is in the rest.  Those beyond the room are closed.  -1
 * with EMSGSIZE when not all of a packet came; none is left open then. */
ssize_t tn_fd_receive(int socket, void *bytes, size_t n, int *fds, size_t *count, int flags);

#endif
