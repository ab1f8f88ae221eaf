/* Bytes from socket to socket through a pipe, without copying them into our memory: splice(2).
 *
 * The kernel counts a socket as blocking by its own flag here, and knows no MSG_NOSIGNAL: both is
 * seen to between net_splice_begin and net_splice_end. */
#ifndef TN_NET_SPLICE_H
#define TN_NET_SPLICE_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "net/socket-io.h"

struct net_pipe {
    int in, out; /* its ends; -1: it is not open */
    size_t held; /* bytes in it */
};
#define NET_PIPE_NONE       \
    (struct net_pipe)       \
    {                       \
        .in = -1, .out = -1 \
    }

int net_pipe_open(struct net_pipe *p); /* 0, or -1 with errno */
void net_pipe_close(struct net_pipe *p);

/* Up to n bytes (any number) from the socket into the empty pipe: count, 0 at the end of the
 * stream, -1 with errno. */
ssize_t net_pipe_fill(struct net_pipe *p, int from, int64_t n);
/* Some of what it holds to the socket: count, or -1 with errno. */
ssize_t net_pipe_drain(struct net_pipe *p, int to);

/* What was changed, to be put back. */
struct net_splice {
    int fds[2], flags[2];
    sigset_t mask;
};
void net_splice_begin(struct net_splice *s, int a, int b);
void net_splice_end(struct net_splice *s);

struct net_carry {
    int from, to;
    struct net_wait in, out; /* for the giver, and for the taker */
    bool ask;                /* a request: the taker may want no more of it, and say so */
    int64_t unread, unsent;  /* bytes that are left; the same at first */
};
/* Carries bytes until none is left.  0, also when the kernel cannot do it for these two (then some
 * are left); 1 when the taker of a request has spoken or closed before its end; -1 with errno,
 * EPIPE when the taker has left. */
int net_carry(struct net_carry *c);

#endif
