/* The network of a gated sandbox, from inside its namespace: every address is at home, and all that
 * is not the sandbox's own loopback ends in sockets that the gate holds.
 *
 * The namespace has `lo` and nothing else.  A route makes every address of IPv4 and IPv6 local;
 * nftables leads TCP and UDP that is not for the sandbox itself to transparent sockets (tproxy) and
 * drops the rest.  There is no other interface: whoever took the rules away would be alone. */
#ifndef TN_GATE_WALL_H
#define TN_GATE_WALL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/* Addresses from 192.0.0.0/29, which RFC 7335 has set aside for such things, and from a ULA. */
#define TN_WALL_OWN4 "192.0.0.2" /* the sandbox */
#define TN_WALL_OWN6 "fd74:656e:646f:6e::2"
#define TN_WALL_NAMES4 "192.0.0.1" /* its nameserver: the gate */
#define TN_WALL_NAMES6 "fd74:656e:646f:6e::1"
enum { TN_WALL_PORT = 65535 }; /* of the gate's sockets, on TN_WALL_NAMES */

/* The sockets; those of IPv6 are -1 where the kernel has none. */
enum tn_wall_socket {
    TN_WALL_TCP4, /* listens; an accepted one has the wanted address as its own */
    TN_WALL_TCP6,
    TN_WALL_UDP4, /* with the wanted address in IP_RECVORIGDSTADDR */
    TN_WALL_UDP6,
    TN_WALL_RAW4, /* for answers from any address; packets with their IP header */
    TN_WALL_RAW6,
    TN_WALL_DIAG, /* netlink: tells of the sandbox's sockets; -1 where the kernel does not */
    TN_WALL_SOCKETS,
};

struct tn_wall {
    int fd[TN_WALL_SOCKETS];
};
#define TN_WALL_NONE                         \
    {                                        \
        .fd = { -1, -1, -1, -1, -1, -1, -1 } \
    }

void tn_wall_done(struct tn_wall *wall);

/* In the network of the calling process, which is new, whose loopback is up, and over which it has
 * CAP_NET_ADMIN and CAP_NET_RAW: addresses, routes and rules; then the sockets.  TN_E_UNSUPPORTED
 * names what the kernel lacks. */
int tn_wall_raise(struct tn_wall *wall, struct tn_error *err);
/* The same where there may be one already, whose sockets are gone with who held them. */
int tn_wall_raise_again(struct tn_wall *wall, struct tn_error *err);

/* The network of a pod has an interface, which the gate uses as well: it is told by its user, who
 * nobody else in the pod may become.  What others send leaves by no interface: it is led to the
 * sockets of tn_wall_open, and where nobody has them nowhere.  Connections from outside (TCP) and
 * answers to them pass.
 *
 * The rules, with CAP_NET_ADMIN; once more is fine. */
int tn_wall_raise_in_pod(uint32_t uid, struct tn_error *err);
/* The sockets, with CAP_NET_RAW. */
int tn_wall_open(struct tn_wall *wall, struct tn_error *err);

#endif
