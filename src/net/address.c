#include "net/address.h"

#include <arpa/inet.h>
#include <string.h>

#include "base/guard.h"

/* clang-format off */
static const struct {
    uint8_t net[4];
    int bits;
    enum tn_address_kind kind;
} nets[] = {
    {{0}, 8, TN_ADDRESS_NOBODYS}, /* this host, which is this machine when connected to */
    {{10}, 8, TN_ADDRESS_PRIVATE},
    {{100, 64}, 10, TN_ADDRESS_PRIVATE}, /* of carriers */
    {{127}, 8, TN_ADDRESS_LOOPBACK},
    {{168, 63, 129, 16}, 32, TN_ADDRESS_NOBODYS}, /* a cloud's service of its machines */
    {{169, 254}, 16, TN_ADDRESS_NOBODYS}, /* link-local */
    {{172, 16}, 12, TN_ADDRESS_PRIVATE},
    {{192, 0, 0}, 24, TN_ADDRESS_PRIVATE},
    {{192, 168}, 16, TN_ADDRESS_PRIVATE},
    {{198, 18}, 15, TN_ADDRESS_PRIVATE}, /* for measuring */
    {{224}, 3, TN_ADDRESS_NOBODYS}, /* multicast, and what is beyond */
};

/* The first row counts. */
static const struct {
    uint8_t net[16];
    int bits;
    enum tn_address_kind kind;
    bool wraps; /* that of the address of IPv4 that follows these bits */
} nets6[] = {
    {{[15] = 1}, 128, .kind = TN_ADDRESS_LOOPBACK},
    {{0}, 120, .kind = TN_ADDRESS_NOBODYS},
    {{[10] = 0xff, [11] = 0xff}, 96, .wraps = true}, /* mapped */
    {{0}, 96, .wraps = true},
    {{0x00, 0x64, 0xff, 0x9b}, 96, .wraps = true}, /* NAT64 */
    {{0x20, 0x02}, 16, .wraps = true}, /* 6to4 */
    {{0xff}, 8, .kind = TN_ADDRESS_NOBODYS},
    {{0xfe, 0x80}, 10, .kind = TN_ADDRESS_NOBODYS},
    /* A NAT64 of a network: what follows is its own affair.  Teredo: a house behind a relay. */
    {{0x00, 0x64, 0xff, 0x9b, 0x00, 0x01}, 48, .kind = TN_ADDRESS_PRIVATE},
    {{0x20, 0x01, 0x00, 0x00}, 32, .kind = TN_ADDRESS_PRIVATE},
    {{0xfc}, 7, .kind = TN_ADDRESS_PRIVATE},
    {{0xfe, 0xc0}, 10, .kind = TN_ADDRESS_PRIVATE},
};
/* clang-format on */

/* Whether the first bits are the same. */
static bool begins_with(const uint8_t *a, const uint8_t *net, int bits)
{
    int whole = bits / 8, rest = bits % 8;

    return memcmp(a, net, (size_t)whole) == 0 &&
           (rest == 0 || (a[whole] ^ net[whole]) >> (8 - rest) == 0);
}

static enum tn_address_kind kind_of_v4(const uint8_t *a, int bits)
{
    for (size_t i = 0; i < TN_COUNT(nets); i++)
        if (bits >= nets[i].bits && begins_with(a, nets[i].net, nets[i].bits))
            return nets[i].kind;
    return TN_ADDRESS_PUBLIC;
}

static enum tn_address_kind kind_of_v6(const uint8_t *a, int bits)
{
    for (size_t i = 0; i < TN_COUNT(nets6); i++) {
        int known = nets6[i].bits;
        if (bits >= known && begins_with(a, nets6[i].net, known))
            return nets6[i].wraps ? kind_of_v4(a + known / 8, bits - known) : nets6[i].kind;
    }
    return TN_ADDRESS_PUBLIC;
}

bool tn_address_unwrap(const struct tn_address *a, struct tn_address *inner)
{
    for (size_t i = 0; a->family == AF_INET6 && i < TN_COUNT(nets6); i++) {
        if (!begins_with(a->bytes, nets6[i].net, nets6[i].bits))
            continue;
        *inner = (struct tn_address){.family = AF_INET};
        memcpy(inner->bytes, a->bytes + nets6[i].bits / 8, nets6[i].wraps ? 4 : 0);
        return nets6[i].wraps;
    }
    return false;
}

enum tn_address_kind tn_address_net_kind(const struct tn_address *net, int bits)
{
    return net->family == AF_INET    ? kind_of_v4(net->bytes, bits)
           : net->family == AF_INET6 ? kind_of_v6(net->bytes, bits)
                                     : TN_ADDRESS_NOBODYS;
}

enum tn_address_kind tn_address_kind(const struct tn_address *a)
{
    return tn_address_net_kind(a, a->family == AF_INET ? 32 : 128);
}

bool tn_address_net_is_mixed(const struct tn_address *net, int bits)
{
    for (size_t i = 0; i < TN_COUNT(nets) && net->family == AF_INET; i++)
        if (nets[i].bits > bits && begins_with(nets[i].net, net->bytes, bits))
            return true;
    return false;
}

static void unmap(struct tn_address *a)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

    if (a->family != AF_INET6 || memcmp(a->bytes, mapped, sizeof mapped) != 0)
        return;
    a->family = AF_INET;
    memmove(a->bytes, a->bytes + 12, 4);
    memset(a->bytes + 4, 0, 12);
}

bool tn_address_from(const struct sockaddr *from, struct tn_address *a, uint16_t *port)
{
    const union tn_sockaddr *s = (const void *)from;

    *a = (struct tn_address){.family = from->sa_family};
    if (from->sa_family == AF_INET) {
        memcpy(a->bytes, &s->v4.sin_addr, 4);
        *port = ntohs(s->v4.sin_port);
        return true;
    }
    if (from->sa_family != AF_INET6)
        return false;
    memcpy(a->bytes, &s->v6.sin6_addr, 16);
    *port = ntohs(s->v6.sin6_port);
    unmap(a);
    return true;
}

bool tn_address_parse(const char *text, struct tn_address *a)
{
    *a = (struct tn_address){.family = strchr(text, ':') ? AF_INET6 : AF_INET};
    if (inet_pton(a->family, text, a->bytes) != 1)
        return false;
    unmap(a);
    return true;
}

socklen_t tn_address_to(const struct tn_address *a, uint16_t port, union tn_sockaddr *to)
{
    memset(to, 0, sizeof *to);
    to->any.sa_family = (sa_family_t)a->family;
    if (a->family == AF_INET) {
        memcpy(&to->v4.sin_addr, a->bytes, 4);
        to->v4.sin_port = htons(port);
        return sizeof to->v4;
    }
    memcpy(&to->v6.sin6_addr, a->bytes, 16);
    to->v6.sin6_port = htons(port);
    return sizeof to->v6;
}

const char *tn_address_text(const struct tn_address *a, char out[TN_ADDRESS_TEXT])
{
    if (!inet_ntop(a->family, a->bytes, out, TN_ADDRESS_TEXT))
        out[0] = '\0';
    return out;
}

bool tn_address_same(const struct tn_address *a, const struct tn_address *b)
{
    return a->family == b->family && memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

bool tn_address_in(const struct tn_address *a, const struct tn_address *net, int bits)
{
    return a->family == net->family && begins_with(a->bytes, net->bytes, bits);
}
