#include "net/address.h"

#include <arpa/inet.h>
#include <string.h>

#include "base/guard.h"

static const struct {
    uint32_t net;
    int bits;
    enum tn_address_kind kind;
} nets[] = {
    {0x00000000, 8, TN_ADDRESS_NOBODYS},  /* this host, which is this machine when connected to */
    {0x0a000000, 8, TN_ADDRESS_PRIVATE},  /* 10.0.0.0 */
    {0x64400000, 10, TN_ADDRESS_PRIVATE}, /* 100.64.0.0, of carriers */
    {0x7f000000, 8, TN_ADDRESS_LOOPBACK}, /* 127.0.0.0 */
    {0xa83f8110, 32, TN_ADDRESS_NOBODYS}, /* 168.63.129.16, a cloud's service of its machines */
    {0xa9fe0000, 16, TN_ADDRESS_NOBODYS}, /* 169.254.0.0, link-local */
    {0xac100000, 12, TN_ADDRESS_PRIVATE}, /* 172.16.0.0 */
    {0xc0000000, 24, TN_ADDRESS_PRIVATE}, /* 192.0.0.0 */
    {0xc0a80000, 16, TN_ADDRESS_PRIVATE}, /* 192.168.0.0 */
    {0xc6120000, 15, TN_ADDRESS_PRIVATE}, /* 198.18.0.0, for measuring */
    {0xe0000000, 3, TN_ADDRESS_NOBODYS},  /* multicast, and what is beyond */
};

static enum tn_address_kind kind_of_v4(const uint8_t *bytes)
{
    uint32_t address =
        (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];

    for (size_t i = 0; i < TN_COUNT(nets); i++)
        if ((address ^ nets[i].net) >> (32 - nets[i].bits) == 0)
            return nets[i].kind;
    return TN_ADDRESS_PUBLIC;
}

static enum tn_address_kind kind_of_v6(const uint8_t a[16])
{
    static const uint8_t zeros[15], nat64[12] = {0x00, 0x64, 0xff, 0x9b};
    static const uint8_t own_nat64[6] = {0x00, 0x64, 0xff, 0x9b, 0x00, 0x01};
    static const uint8_t teredo[4] = {0x20, 0x01, 0x00, 0x00};

    if (memcmp(a, zeros, 15) == 0)
        return a[15] == 1 ? TN_ADDRESS_LOOPBACK : TN_ADDRESS_NOBODYS;
    if (memcmp(a, zeros, 10) == 0 && a[10] == 0xff && a[11] == 0xff)
        return kind_of_v4(a + 12);
    if (memcmp(a, zeros, 12) == 0 || memcmp(a, nat64, 12) == 0)
        return kind_of_v4(a + 12);
    if (a[0] == 0x20 && a[1] == 0x02) /* 6to4 */
        return kind_of_v4(a + 2);
    if (a[0] == 0xff || (a[0] == 0xfe && (a[1] & 0xc0) == 0x80))
        return TN_ADDRESS_NOBODYS;
    /* A NAT64 of a network: what follows is its own affair.  Teredo: a house behind a relay. */
    if (memcmp(a, own_nat64, 6) == 0 || memcmp(a, teredo, 4) == 0)
        return TN_ADDRESS_PRIVATE;
    if ((a[0] & 0xfe) == 0xfc || (a[0] == 0xfe && (a[1] & 0xc0) == 0xc0))
        return TN_ADDRESS_PRIVATE;
    return TN_ADDRESS_PUBLIC;
}

enum tn_address_kind tn_address_kind(const struct tn_address *a)
{
    return a->family == AF_INET    ? kind_of_v4(a->bytes)
           : a->family == AF_INET6 ? kind_of_v6(a->bytes)
                                   : TN_ADDRESS_NOBODYS;
}

bool tn_address_net_is_mixed(const struct tn_address *net, int bits)
{
    for (size_t i = 0; i < TN_COUNT(nets); i++) {
        uint32_t first = htonl(nets[i].net);
        struct tn_address inner = {.family = AF_INET};
        memcpy(inner.bytes, &first, sizeof first);
        if (nets[i].bits > bits && tn_address_in(&inner, net, bits))
            return true;
    }
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
    int whole = bits / 8, rest = bits % 8;

    if (a->family != net->family || memcmp(a->bytes, net->bytes, (size_t)whole) != 0)
        return false;
    return rest == 0 || (a->bytes[whole] ^ net->bytes[whole]) >> (8 - rest) == 0;
}
