/* IP addresses: what kind they are, and nets of them. */
#ifndef TN_NET_ADDRESS_H
#define TN_NET_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/* Ordered by how near it is. */
enum tn_address_kind {
    TN_ADDRESS_PUBLIC,
    TN_ADDRESS_PRIVATE,  /* of a house, a carrier, a protocol: not reached over the internet */
    TN_ADDRESS_LOOPBACK, /* this machine */
    TN_ADDRESS_NOBODYS,  /* link-local, where clouds keep their keys; multicast; unspecified */
};

struct tn_address {
    int family;        /* AF_INET, AF_INET6 */
    uint8_t bytes[16]; /* IPv4: the first four */
};

union tn_sockaddr {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

enum { TN_ADDRESS_TEXT = 64 };

/* An IPv6 address that only stands for one of IPv4 (::ffff:a.b.c.d) becomes that one.  False: no IP
 * address. */
bool tn_address_from(const struct sockaddr *from, struct tn_address *a, uint16_t *port);
/* Text without brackets. */
bool tn_address_parse(const char *text, struct tn_address *a);
socklen_t tn_address_to(const struct tn_address *a, uint16_t port, union tn_sockaddr *to);
const char *tn_address_text(const struct tn_address *a, char out[TN_ADDRESS_TEXT]);

/* By the tables in address.c; what IPv6 wraps around IPv4 (mapped, NAT64, 6to4) is as near as that
 * one. */
enum tn_address_kind tn_address_kind(const struct tn_address *a);
/* That of a net all of which is of one row there; of any other, which may reach farther, public. */
enum tn_address_kind tn_address_net_kind(const struct tn_address *net, int bits);
/* The address of IPv4 that it is wrapped around; false: it is around none. */
bool tn_address_unwrap(const struct tn_address *a, struct tn_address *inner);
bool tn_address_same(const struct tn_address *a, const struct tn_address *b);
/* Whether the first bits are the same. */
bool tn_address_in(const struct tn_address *a, const struct tn_address *net, int bits);
/* Whether a net of IPv4 has nets in it that are of a kind of their own. */
bool tn_address_net_is_mixed(const struct tn_address *net, int bits);

#endif
