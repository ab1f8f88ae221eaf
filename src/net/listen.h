/* Listening and connecting sockets from address strings, without a resolver. */
#ifndef TN_NET_LISTEN_H
#define TN_NET_LISTEN_H

#include <stdint.h>

#include "base/error.h"

enum tn_listen_kind { TN_LISTEN_TCP, TN_LISTEN_UNIX, TN_LISTEN_FD, TN_LISTEN_PAIR };

struct tn_listen_address {
    enum tn_listen_kind kind;
    char host[64]; /* numeric */
    int port;
    char path[4096]; /* unix; longer than the kernel takes is possible, where /proc is mounted */
    int fd;          /* fd and pair */
    uint64_t inode;  /* of a pair's socket; 0: not told */
    bool loopback;   /* TCP on 127.0.0.0/8 or ::1 */
};

/* "PORT" (all interfaces), "HOST:PORT", "[V6]:PORT" ("[::]" is both families, or IPv4 alone where
 * the kernel has no other), "unix:PATH", "fd:N", "pair:N" (net/pair.h;
 * "pair:N:INODE" makes sure that the descriptor is the one that was meant). */
int tn_listen_parse(const char *text, struct tn_listen_address *out, struct tn_error *err);
/* A listening descriptor (CLOEXEC), or -1.  A unix path is made 0600; a stale socket (nobody
 * accepts) is replaced, a live one is TN_E_CONFLICT.  fd:N is checked to be a listening socket,
 * pair:N to be the end of a pair. */
int tn_listen_open(const struct tn_listen_address *a, struct tn_error *err);
/* A connected descriptor (CLOEXEC, TCP_NODELAY) by the deadline.  The name of a unix socket is
 * never followed: when it is a link, or anything but a socket, nothing is connected to
 * (TN_E_DENIED), because whoever shares the directory could send us to another server. */
int tn_dial(const char *address, int64_t deadline, struct tn_error *err);

#endif
