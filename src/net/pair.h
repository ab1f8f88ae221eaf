/* Connections handed over a socket pair: a server that only the holder of the other end can reach.
 *
 * A connection is a fresh pair of stream sockets, one of which travels through the pair (an AF_UNIX
 * SOCK_SEQPACKET one) as a descriptor.  It waits there until the server takes it, as in a backlog.
 */
#ifndef TN_NET_PAIR_H
#define TN_NET_PAIR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/* Both ends (CLOEXEC): ends[0] to dial with, ends[1] to serve. */
int tn_pair_open(int ends[2], struct tn_error *err);

/* The address of this end for tn_dial, on the heap: "pair:N:INODE", good only in this process and
 * only as long as the descriptor stays what it is. */
char *tn_pair_address(int end, struct tn_error *err);

/* Whether fd is such an end. */
bool net_is_pair(int fd);

/* Sends a connection into the pair and returns the other end of it (CLOEXEC, blocking), or -1:
 * TN_E_TIMEOUT when the server does not take any by the deadline, TN_E_PEER when it is gone. */
int net_pair_dial(int end, int64_t deadline, struct tn_error *err);

/* The next connection, without waiting; -1 with errno, EPIPE when the other end is closed. */
int net_pair_take(int end);

#endif
