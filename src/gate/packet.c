/* Datagrams to the sandbox from whatever address it sent one to: written with their headers. */
#include <netinet/icmp6.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/ip_icmp.h>
#include <netinet/udp.h>

#include "gate/gate.h"

enum { HOPS = 64, PACKET_MAX = 65535, V6_FIRST = 6 << 4 };

static uint32_t add_up(uint32_t sum, const void *bytes, size_t size)
{
    const uint8_t *at = bytes;

    for (size_t i = 0; i + 1 < size; i += 2)
        sum += (uint32_t)(at[i] << 8 | at[i + 1]);
    if (size % 2)
        sum += (uint32_t)at[size - 1] << 8;
    return sum;
}

static uint16_t fold(uint32_t sum)
{
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    return htons((uint16_t)~sum);
}

/* What both ends add to the sum: their addresses, the protocol and the length. */
static uint32_t pseudo(const struct ends *e, uint8_t protocol, size_t size)
{
    size_t n = e->from.family == AF_INET ? 4 : 16;
    uint32_t sum = add_up(0, e->from.bytes, n);

    return add_up(sum, e->to.bytes, n) + protocol + (uint32_t)size;
}

/* The header of the network layer; its length. */
static size_t put_ip(uint8_t *out, const struct ends *e, uint8_t protocol, size_t size)
{
    if (e->from.family == AF_INET) {
        struct iphdr h = {.version = 4, .ihl = 5, .ttl = HOPS, .protocol = protocol};
        h.tot_len = htons((uint16_t)(sizeof h + size));
        memcpy(&h.saddr, e->from.bytes, 4);
        memcpy(&h.daddr, e->to.bytes, 4);
        h.check = fold(add_up(0, &h, sizeof h));
        memcpy(out, &h, sizeof h);
        return sizeof h;
    }
    struct ip6_hdr h = {0};
    h.ip6_vfc = V6_FIRST;
    h.ip6_plen = htons((uint16_t)size);
    h.ip6_nxt = protocol;
    h.ip6_hlim = HOPS;
    memcpy(&h.ip6_src, e->from.bytes, 16);
    memcpy(&h.ip6_dst, e->to.bytes, 16);
    memcpy(out, &h, sizeof h);
    return sizeof h;
}

static size_t put_udp(uint8_t *out, const struct ends *e, size_t size)
{
    const struct udphdr h = {.source = htons(e->from_port),
                             .dest = htons(e->to_port),
                             .len = htons((uint16_t)(sizeof h + size))};

    memcpy(out, &h, sizeof h);
    return sizeof h;
}

static void send_packet(struct gate *g, const struct tn_address *to, const uint8_t *packet,
                        size_t size)
{
    int fd = g->wall.fd[to->family == AF_INET ? TN_WALL_RAW4 : TN_WALL_RAW6];
    union tn_sockaddr address;
    socklen_t n = tn_address_to(to, 0, &address);

    sendto(fd, packet, size, MSG_DONTWAIT | MSG_NOSIGNAL, &address.any, n);
}

void packet_send(struct gate *g, const struct ends *e, const void *bytes, size_t size)
{
    static uint8_t packet[PACKET_MAX];
    size_t whole = sizeof(struct udphdr) + size;

    if (whole + sizeof(struct ip6_hdr) > sizeof packet)
        return;
    size_t ip = put_ip(packet, e, IPPROTO_UDP, whole);
    size_t udp = put_udp(packet + ip, e, size);
    memcpy(packet + ip + udp, bytes, size);
    uint16_t sum = fold(add_up(pseudo(e, IPPROTO_UDP, whole), packet + ip, whole));
    sum = sum ? sum : 0xffff;
    memcpy(packet + ip + offsetof(struct udphdr, check), &sum, sizeof sum);
    send_packet(g, &e->to, packet, ip + whole);
}

void packet_prohibit(struct gate *g, const struct ends *e, size_t size)
{
    uint8_t packet[128];
    const struct ends back = {.from = e->to, .to = e->from};
    bool v4 = e->from.family == AF_INET;
    const uint8_t head[8] = {v4 ? ICMP_DEST_UNREACH : ICMP6_DST_UNREACH,
                             v4 ? ICMP_PKT_FILTERED : ICMP6_DST_UNREACH_ADMIN};
    uint8_t protocol = v4 ? IPPROTO_ICMP : IPPROTO_ICMPV6;
    size_t ip = v4 ? sizeof(struct iphdr) : sizeof(struct ip6_hdr);
    size_t whole = sizeof head + ip + sizeof(struct udphdr);

    put_ip(packet, &back, protocol, whole);
    memcpy(packet + ip, head, sizeof head);
    put_ip(packet + ip + sizeof head, e, IPPROTO_UDP, sizeof(struct udphdr) + size);
    put_udp(packet + ip + sizeof head + ip, e, size);
    uint16_t sum = fold(add_up(v4 ? 0 : pseudo(&back, protocol, whole), packet + ip, whole));
    memcpy(packet + ip + 2, &sum, sizeof sum);
    send_packet(g, &e->from, packet, ip + whole);
}
