#include "gate/wall.h"

#include <arpa/inet.h>
#include <linux/fib_rules.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "gate/netlink.h"

#define TABLE "tendon"
enum {
    LOOPBACK = 1,     /* the index of lo in every namespace */
    POD_MARK = 0x74,  /* of packets of a pod that are led to the gate; the number of their routes */
    GATE_MARK = 0x75, /* of connections of the gate */
    IN_MARK = 0x76,   /* of connections that came by the pod's interface */
    POD_PRIORITY = 100,
    BACKLOG = 4096,
    PRIORITY = -150, /* where others mangle packets too */
    UDP_BYTES = 1 << 20,
};

/* How connections between the sandbox and the gate share a line: it is memory, and the host's own
 * way may be to pace (bbr), which costs a timer for each burst.  Every kernel has this one. */
static const char congestion[] = "reno";

/* What differs between the two kinds of addresses. */
static const struct kind {
    uint8_t family, table;
    uint8_t size;      /* of an address */
    uint8_t daddr;     /* its place in a header */
    uint8_t loop_size; /* how much of it tells the loopback */
    uint8_t loop[16];
    const char *own, *names;
    int level, transparent, original;
    int tcp, udp, raw; /* enum tn_wall_socket */
} kinds[] = {
    {.family = AF_INET,
     .table = NFPROTO_IPV4,
     .size = 4,
     .daddr = 16,
     .loop_size = 1,
     .loop = {127},
     .own = TN_WALL_OWN4,
     .names = TN_WALL_NAMES4,
     .level = SOL_IP,
     .transparent = IP_TRANSPARENT,
     .original = IP_RECVORIGDSTADDR,
     .tcp = TN_WALL_TCP4,
     .udp = TN_WALL_UDP4,
     .raw = TN_WALL_RAW4},
    {.family = AF_INET6,
     .table = NFPROTO_IPV6,
     .size = 16,
     .daddr = 24,
     .loop_size = 16,
     .loop = {[15] = 1},
     .own = TN_WALL_OWN6,
     .names = TN_WALL_NAMES6,
     .level = SOL_IPV6,
     .transparent = IPV6_TRANSPARENT,
     .original = IPV6_RECVORIGDSTADDR,
     .tcp = TN_WALL_TCP6,
     .udp = TN_WALL_UDP6,
     .raw = TN_WALL_RAW6},
};

void tn_wall_done(struct tn_wall *wall)
{
    for (int i = 0; i < TN_WALL_SOCKETS; i++)
        tn_close(TN_TAKE_FD(wall->fd[i]));
}

/* --- routes -------------------------------------------------------------------------------- */

static void add_route(struct tn_netlink *n, const struct kind *k, uint8_t table, const uint8_t *own,
                      uint16_t flags)
{
    const struct rtmsg route = {
        .rtm_family = k->family,
        .rtm_table = table,
        .rtm_protocol = RTPROT_STATIC,
        .rtm_scope = RT_SCOPE_HOST,
        .rtm_type = RTN_LOCAL,
    };
    const uint32_t loopback = LOOPBACK;

    tn_netlink_begin(n, RTM_NEWROUTE, flags, &route, sizeof route);
    tn_netlink_add(n, RTA_OIF, &loopback, sizeof loopback);
    if (own)
        tn_netlink_add(n, RTA_PREFSRC, own, k->size);
    size_t metrics = tn_netlink_open(n, RTA_METRICS);
    tn_netlink_add_text(n, RTAX_CC_ALGO, congestion); /* of the sandbox's side */
    tn_netlink_close(n, metrics);
    tn_netlink_end(n);
}

static void add_own(struct tn_netlink *n, const struct kind *k, const uint8_t *own, bool again)
{
    const uint16_t flags =
        (uint16_t)(NLM_F_ACK | NLM_F_CREATE | (again ? NLM_F_REPLACE : NLM_F_EXCL));
    const struct ifaddrmsg address = {
        .ifa_family = k->family,
        .ifa_prefixlen = (uint8_t)(8 * k->size),
        .ifa_flags = IFA_F_NODAD,
        .ifa_index = LOOPBACK,
    };

    tn_netlink_begin(n, RTM_NEWADDR, flags, &address, sizeof address);
    tn_netlink_add(n, IFA_LOCAL, own, k->size);
    tn_netlink_add(n, IFA_ADDRESS, own, k->size);
    tn_netlink_end(n);
    add_route(n, k, RT_TABLE_LOCAL, own, flags);
}

/* --- rules --------------------------------------------------------------------------------- */

static void begin_nft(struct tn_netlink *n, uint16_t type, uint16_t flags, uint8_t family)
{
    const struct nfgenmsg head = {.nfgen_family = family, .version = NFNETLINK_V0};

    tn_netlink_begin(n, (uint16_t)(NFNL_SUBSYS_NFTABLES << 8 | type), flags, &head, sizeof head);
}

/* The frame of a transaction. */
static void mark_batch(struct tn_netlink *n, uint16_t type)
{
    const struct nfgenmsg head = {.version = NFNETLINK_V0, .res_id = htons(NFNL_SUBSYS_NFTABLES)};

    tn_netlink_begin(n, type, 0, &head, sizeof head);
    tn_netlink_end(n);
}

static void add_chain(struct tn_netlink *n, uint8_t family, const char *name, const char *type,
                      uint32_t hook)
{
    begin_nft(n, NFT_MSG_NEWCHAIN, NLM_F_ACK | NLM_F_CREATE, family);
    tn_netlink_add_text(n, NFTA_CHAIN_TABLE, TABLE);
    tn_netlink_add_text(n, NFTA_CHAIN_NAME, name);
    tn_netlink_add_text(n, NFTA_CHAIN_TYPE, type);
    size_t at = tn_netlink_open(n, NFTA_CHAIN_HOOK);
    tn_netlink_add_be32(n, NFTA_HOOK_HOOKNUM, hook);
    tn_netlink_add_be32(n, NFTA_HOOK_PRIORITY, (uint32_t)PRIORITY);
    tn_netlink_close(n, at);
    tn_netlink_add_be32(n, NFTA_CHAIN_POLICY, NF_DROP);
    tn_netlink_end(n);
}

struct expression {
    size_t element, data;
};

static struct expression begin_expression(struct tn_netlink *n, const char *name)
{
    struct expression e = {.element = tn_netlink_open(n, NFTA_LIST_ELEM)};

    tn_netlink_add_text(n, NFTA_EXPR_NAME, name);
    e.data = tn_netlink_open(n, NFTA_EXPR_DATA);
    return e;
}

static void end_expression(struct tn_netlink *n, struct expression e)
{
    tn_netlink_close(n, e.data);
    tn_netlink_close(n, e.element);
}

static void add_value(struct tn_netlink *n, uint16_t type, const void *value, size_t size)
{
    size_t at = tn_netlink_open(n, type);

    tn_netlink_add(n, NFTA_DATA_VALUE, value, size);
    tn_netlink_close(n, at);
}

static void compare_by(struct tn_netlink *n, uint32_t how, const void *value, size_t size)
{
    struct expression e = begin_expression(n, "cmp");

    tn_netlink_add_be32(n, NFTA_CMP_SREG, NFT_REG_1);
    tn_netlink_add_be32(n, NFTA_CMP_OP, how);
    add_value(n, NFTA_CMP_DATA, value, size);
    end_expression(n, e);
}

static void compare(struct tn_netlink *n, const void *value, size_t size)
{
    compare_by(n, NFT_CMP_EQ, value, size);
}

/* So many bytes of a header are in the first register. */
static void take_bytes(struct tn_netlink *n, uint32_t header, uint32_t offset, size_t size)
{
    struct expression e = begin_expression(n, "payload");

    tn_netlink_add_be32(n, NFTA_PAYLOAD_DREG, NFT_REG_1);
    tn_netlink_add_be32(n, NFTA_PAYLOAD_BASE, header);
    tn_netlink_add_be32(n, NFTA_PAYLOAD_OFFSET, offset);
    tn_netlink_add_be32(n, NFTA_PAYLOAD_LEN, (uint32_t)size);
    end_expression(n, e);
}

static void is_for(struct tn_netlink *n, const struct kind *k, const void *address, size_t size)
{
    take_bytes(n, NFT_PAYLOAD_NETWORK_HEADER, k->daddr, size);
    compare(n, address, size);
}

/* What the kernel knows of a packet ("meta") or its connection ("ct"); their attributes for the
 * register, what is asked, and where it is set from have the same numbers. */
static void is_known(struct tn_netlink *n, const char *of, uint32_t key, const void *value,
                     size_t size)
{
    struct expression e = begin_expression(n, of);

    tn_netlink_add_be32(n, NFTA_META_DREG, NFT_REG_1);
    tn_netlink_add_be32(n, NFTA_META_KEY, key);
    end_expression(n, e);
    compare(n, value, size);
}

static void is_protocol(struct tn_netlink *n, uint8_t protocol)
{
    is_known(n, "meta", NFT_META_L4PROTO, &protocol, sizeof protocol);
}

static void load(struct tn_netlink *n, uint32_t reg, const void *value, size_t size)
{
    struct expression e = begin_expression(n, "immediate");

    tn_netlink_add_be32(n, NFTA_IMMEDIATE_DREG, reg);
    add_value(n, NFTA_IMMEDIATE_DATA, value, size);
    end_expression(n, e);
}

static void accept_packet(struct tn_netlink *n)
{
    struct expression e = begin_expression(n, "immediate");

    tn_netlink_add_be32(n, NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT);
    size_t data = tn_netlink_open(n, NFTA_IMMEDIATE_DATA);
    size_t verdict = tn_netlink_open(n, NFTA_DATA_VERDICT);
    tn_netlink_add_be32(n, NFTA_VERDICT_CODE, NF_ACCEPT);
    tn_netlink_close(n, verdict);
    tn_netlink_close(n, data);
    end_expression(n, e);
}

static void lead_to_gate(struct tn_netlink *n, const struct kind *k, const uint8_t *names)
{
    const uint16_t port = htons(TN_WALL_PORT);

    load(n, NFT_REG_1, names, k->size);
    load(n, NFT_REG_2, &port, sizeof port);
    struct expression e = begin_expression(n, "tproxy");
    tn_netlink_add_be32(n, NFTA_TPROXY_FAMILY, k->table);
    tn_netlink_add_be32(n, NFTA_TPROXY_REG_ADDR, NFT_REG_1);
    tn_netlink_add_be32(n, NFTA_TPROXY_REG_PORT, NFT_REG_2);
    end_expression(n, e);
}

static size_t begin_rule(struct tn_netlink *n, const struct kind *k, const char *chain)
{
    begin_nft(n, NFT_MSG_NEWRULE, NLM_F_ACK | NLM_F_CREATE | NLM_F_APPEND, k->table);
    tn_netlink_add_text(n, NFTA_RULE_TABLE, TABLE);
    tn_netlink_add_text(n, NFTA_RULE_CHAIN, chain);
    return tn_netlink_open(n, NFTA_RULE_EXPRESSIONS);
}

static void end_rule(struct tn_netlink *n, size_t at)
{
    accept_packet(n);
    tn_netlink_close(n, at);
    tn_netlink_end(n);
}

static void change_table(struct tn_netlink *n, uint16_t type, uint16_t flags, const struct kind *k)
{
    begin_nft(n, type, (uint16_t)(NLM_F_ACK | flags), k->table);
    tn_netlink_add_text(n, NFTA_TABLE_NAME, TABLE);
    tn_netlink_end(n);
}

/* One table: what is for the sandbox itself passes both chains.  What leaves it otherwise must be
 * TCP or UDP (the sender of anything else is told: EPERM), and arrives at the gate's sockets. */
static void add_rules(struct tn_netlink *n, const struct kind *k, const uint8_t *own,
                      const uint8_t *names, bool again)
{
    static const struct {
        const char *name;
        uint32_t hook;
        bool gate;
    } chains[] = {{"in", NF_INET_PRE_ROUTING, true}, {"out", NF_INET_LOCAL_OUT, false}};
    static const uint8_t protocols[] = {IPPROTO_TCP, IPPROTO_UDP};
    size_t at;

    change_table(n, NFT_MSG_NEWTABLE, NLM_F_CREATE, k);
    if (again) { /* the one before, or the one that was just made: all in one transaction */
        change_table(n, NFT_MSG_DELTABLE, 0, k);
        change_table(n, NFT_MSG_NEWTABLE, NLM_F_CREATE, k);
    }
    for (size_t i = 0; i < TN_COUNT(chains); i++) {
        add_chain(n, k->table, chains[i].name, "filter", chains[i].hook);
        at = begin_rule(n, k, chains[i].name);
        is_for(n, k, k->loop, k->loop_size);
        end_rule(n, at);
        at = begin_rule(n, k, chains[i].name);
        is_for(n, k, own, k->size);
        end_rule(n, at);
        for (size_t p = 0; p < TN_COUNT(protocols); p++) {
            at = begin_rule(n, k, chains[i].name);
            is_protocol(n, protocols[p]);
            if (chains[i].gate)
                lead_to_gate(n, k, names);
            end_rule(n, at);
        }
    }
}

/* --- rules of a pod -------------------------------------------------------------------------- */

/* Sets what is_known compares; the attribute of its source differs. */
static void set_mark(struct tn_netlink *n, const char *of, uint16_t source, uint32_t key,
                     uint32_t mark)
{
    load(n, NFT_REG_1, &mark, sizeof mark);
    struct expression e = begin_expression(n, of);
    tn_netlink_add_be32(n, NFTA_META_KEY, key);
    tn_netlink_add_be32(n, source, NFT_REG_1);
    end_expression(n, e);
}

static void is_mark(struct tn_netlink *n, const char *of, uint32_t key, uint32_t mark)
{
    is_known(n, of, key, &mark, sizeof mark);
}

/* Of TCP: not the first packet of a connection. */
static void is_later(struct tn_netlink *n)
{
    enum { FLAGS_AT = 13 };
    const uint8_t syn = 2, none = 0;

    is_protocol(n, IPPROTO_TCP);
    take_bytes(n, NFT_PAYLOAD_TRANSPORT_HEADER, FLAGS_AT, sizeof syn);
    struct expression e = begin_expression(n, "bitwise");
    tn_netlink_add_be32(n, NFTA_BITWISE_SREG, NFT_REG_1);
    tn_netlink_add_be32(n, NFTA_BITWISE_DREG, NFT_REG_1);
    tn_netlink_add_be32(n, NFTA_BITWISE_LEN, sizeof syn);
    add_value(n, NFTA_BITWISE_MASK, &syn, sizeof syn);
    add_value(n, NFTA_BITWISE_XOR, &none, sizeof none);
    end_expression(n, e);
    compare(n, &none, sizeof none);
}

static void is_reply(struct tn_netlink *n)
{
    is_known(n, "ct", NFT_CT_DIRECTION, &(uint8_t){1}, 1);
}

/* How neighbours find each other with IPv6; only the kernel can send these. */
static void pass_neighbours(struct tn_netlink *n, const struct kind *k, const char *chain)
{
    const uint8_t first = 133, last = 136;

    if (k->family != AF_INET6)
        return;
    size_t at = begin_rule(n, k, chain);
    is_protocol(n, IPPROTO_ICMPV6);
    take_bytes(n, NFT_PAYLOAD_TRANSPORT_HEADER, 0, 1);
    compare_by(n, NFT_CMP_GTE, &first, 1);
    compare_by(n, NFT_CMP_LTE, &last, 1);
    end_rule(n, at);
}

/* What may leave: to the pod itself, of the gate, and answers to who has come in by the interface:
 * what was first seen on lo has a sender that anybody inside can choose.  The last packets of a
 * connection have no owner any more (its process has closed it): those of the gate's are known
 * by the mark, with which nobody can begin another. */
static void pass_out(struct tn_netlink *n, const struct kind *k, const char *chain, uint32_t uid)
{
    size_t at = begin_rule(n, k, chain);
    is_mark(n, "meta", NFT_META_OIF, LOOPBACK);
    end_rule(n, at);
    at = begin_rule(n, k, chain);
    is_mark(n, "meta", NFT_META_SKUID, uid);
    set_mark(n, "ct", NFTA_CT_SREG, NFT_CT_MARK, GATE_MARK);
    end_rule(n, at);
    at = begin_rule(n, k, chain);
    is_mark(n, "ct", NFT_CT_MARK, GATE_MARK);
    is_later(n);
    end_rule(n, at);
    at = begin_rule(n, k, chain);
    is_protocol(n, IPPROTO_TCP);
    is_mark(n, "ct", NFT_CT_MARK, IN_MARK);
    is_reply(n);
    end_rule(n, at);
    pass_neighbours(n, k, chain);
}

/* "out" leads what may not leave to lo, "in" from there to the gate.  "wall" is what holds,
 * whatever way a packet has taken: a socket that is bound to a device is not led. */
static void add_pod_rules(struct tn_netlink *n, const struct kind *k, const uint8_t *names,
                          uint32_t uid)
{
    static const uint8_t protocols[] = {IPPROTO_TCP, IPPROTO_UDP};
    size_t at;

    change_table(n, NFT_MSG_NEWTABLE, NLM_F_CREATE, k);
    change_table(n, NFT_MSG_DELTABLE, 0, k);
    change_table(n, NFT_MSG_NEWTABLE, NLM_F_CREATE, k);
    add_chain(n, k->table, "wall", "filter", NF_INET_POST_ROUTING);
    pass_out(n, k, "wall", uid);
    add_chain(n, k->table, "out", "route", NF_INET_LOCAL_OUT);
    pass_out(n, k, "out", uid);
    add_chain(n, k->table, "in", "filter", NF_INET_PRE_ROUTING);
    for (size_t p = 0; p < TN_COUNT(protocols); p++) {
        at = begin_rule(n, k, "out");
        is_protocol(n, protocols[p]);
        set_mark(n, "meta", NFTA_META_SREG, NFT_META_MARK, POD_MARK);
        end_rule(n, at);
        at = begin_rule(n, k, "in");
        is_mark(n, "meta", NFT_META_MARK, POD_MARK);
        is_protocol(n, protocols[p]);
        lead_to_gate(n, k, names);
        end_rule(n, at);
    }
    at = begin_rule(n, k, "in");
    is_mark(n, "meta", NFT_META_IIF, LOOPBACK);
    end_rule(n, at);
    at = begin_rule(n, k, "in");
    is_reply(n);
    end_rule(n, at);
    at = begin_rule(n, k, "in"); /* to the hand, and to ports that people open */
    is_protocol(n, IPPROTO_TCP);
    set_mark(n, "ct", NFTA_CT_SREG, NFT_CT_MARK, IN_MARK);
    end_rule(n, at);
    pass_neighbours(n, k, "in");
}

/* Everything with the mark is at home.  So is what leaves by lo, such as the gate's answers: the
 * pod's own address of IPv6 is its interface's, and not reached by that way otherwise. */
static void add_pod_routes(struct tn_netlink *n, const struct kind *k)
{
    const struct fib_rule_hdr rule = {
        .family = k->family, .table = POD_MARK, .action = FR_ACT_TO_TBL};
    const uint32_t mark = POD_MARK, priority = POD_PRIORITY;

    add_route(n, k, POD_MARK, NULL, NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE);
    for (int by_lo = 0; by_lo <= (k->family == AF_INET6); by_lo++) {
        tn_netlink_begin(n, RTM_NEWRULE, NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL, &rule, sizeof rule);
        if (by_lo)
            tn_netlink_add_text(n, FRA_OIFNAME, "lo");
        else
            tn_netlink_add(n, FRA_FWMARK, &mark, sizeof mark);
        tn_netlink_add(n, FRA_PRIORITY, &priority, sizeof priority);
        tn_netlink_end(n);
    }
}

/* --- sockets ------------------------------------------------------------------------------- */

static int bind_names(int fd, const struct kind *k, const uint8_t *names)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } to = {.any.sa_family = k->family};

    if (k->family == AF_INET) {
        memcpy(&to.v4.sin_addr, names, k->size);
        to.v4.sin_port = htons(TN_WALL_PORT);
        return bind(fd, &to.any, sizeof to.v4);
    }
    memcpy(&to.v6.sin6_addr, names, k->size);
    to.v6.sin6_port = htons(TN_WALL_PORT);
    return bind(fd, &to.any, sizeof to.v6);
}

static int open_socket(const struct kind *k, int type, const uint8_t *names, struct tn_error *err)
{
    static const int yes = 1, room = UDP_BYTES;
    tn_autofd int fd = socket(k->family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0 || setsockopt(fd, k->level, k->transparent, &yes, sizeof yes) < 0 ||
        bind_names(fd, k, names) < 0)
        return tn_fail_errno(err, errno, "transparent socket");
    if (type == SOCK_STREAM ? listen(fd, BACKLOG) < 0
                            : setsockopt(fd, k->level, k->original, &yes, sizeof yes) < 0)
        return tn_fail_errno(err, errno, "transparent socket");
    if (type == SOCK_DGRAM)
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    else
        setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, congestion, sizeof congestion);
    return TN_TAKE_FD(fd);
}

static int open_sockets(struct tn_wall *wall, const struct kind *k, const uint8_t *names,
                        struct tn_error *err)
{
    wall->fd[k->tcp] = open_socket(k, SOCK_STREAM, names, err);
    if (wall->fd[k->tcp] < 0)
        return -1;
    wall->fd[k->udp] = open_socket(k, SOCK_DGRAM, names, err);
    if (wall->fd[k->udp] < 0)
        return -1;
    wall->fd[k->raw] = socket(k->family, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_RAW);
    /* It answers the sandbox: what claims to come from elsewhere gets nothing sent there. */
    return wall->fd[k->raw] < 0 ||
                   setsockopt(wall->fd[k->raw], SOL_SOCKET, SO_BINDTODEVICE, "lo", sizeof "lo") < 0
               ? tn_fail_errno(err, errno, "raw socket")
               : 0;
}

/* --- the whole ----------------------------------------------------------------------------- */

static bool has_ipv6(void)
{
    tn_autofd int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    return fd >= 0;
}

static int send_routes(struct tn_netlink *n, struct tn_error *err)
{
    tn_autofd int fd = tn_netlink_socket(NETLINK_ROUTE, err);

    return fd < 0 || tn_netlink_send(fd, n, err) < 0 ? tn_error_context(err, "routes") : 0;
}

static int send_rules(struct tn_netlink *n, struct tn_error *err)
{
    tn_autofd int fd = tn_netlink_socket(NETLINK_NETFILTER, err);

    if (fd >= 0 && tn_netlink_send(fd, n, err) == 0)
        return 0;
    return tn_fail(err, TN_E_UNSUPPORTED,
                   "the kernel refuses the rules of a gated network: it takes nf_tables, "
                   "nft_tproxy and for a pod nft_ct (CONFIG_NF_TABLES, CONFIG_NFT_TPROXY)");
}

/* All of its sockets, or none. */
static int end_wall(struct tn_wall *wall, int r)
{
    wall->fd[TN_WALL_DIAG] = tn_netlink_socket(NETLINK_SOCK_DIAG, NULL);
    if (r < 0)
        tn_wall_done(wall);
    return r;
}

static int raise_wall(struct tn_wall *wall, bool again, struct tn_error *err)
{
    tn_autonetlink struct tn_netlink routes, rules;
    size_t count = has_ipv6() ? TN_COUNT(kinds) : 1;
    uint8_t own[TN_COUNT(kinds)][16], names[TN_COUNT(kinds)][16];

    *wall = (struct tn_wall)TN_WALL_NONE;
    tn_netlink_init(&routes);
    tn_netlink_init(&rules);
    mark_batch(&rules, NFNL_MSG_BATCH_BEGIN);
    for (size_t i = 0; i < count; i++) {
        inet_pton(kinds[i].family, kinds[i].own, own[i]);
        inet_pton(kinds[i].family, kinds[i].names, names[i]);
        add_own(&routes, &kinds[i], own[i], again);
        add_rules(&rules, &kinds[i], own[i], names[i], again);
    }
    mark_batch(&rules, NFNL_MSG_BATCH_END);
    int r = send_routes(&routes, err) < 0 || send_rules(&rules, err) < 0 ? -1 : 0;
    for (size_t i = 0; r == 0 && i < count; i++)
        r = open_sockets(wall, &kinds[i], names[i], err);
    return end_wall(wall, r);
}

int tn_wall_raise(struct tn_wall *wall, struct tn_error *err)
{
    return raise_wall(wall, false, err);
}

int tn_wall_raise_again(struct tn_wall *wall, struct tn_error *err)
{
    return raise_wall(wall, true, err);
}

int tn_wall_raise_in_pod(uint32_t uid, struct tn_error *err)
{
    tn_autonetlink struct tn_netlink rules;
    size_t count = has_ipv6() ? TN_COUNT(kinds) : 1;
    uint8_t names[16];

    tn_netlink_init(&rules);
    mark_batch(&rules, NFNL_MSG_BATCH_BEGIN);
    for (size_t i = 0; i < count; i++) {
        inet_pton(kinds[i].family, kinds[i].names, names);
        add_pod_rules(&rules, &kinds[i], names, uid);
    }
    mark_batch(&rules, NFNL_MSG_BATCH_END);
    if (send_rules(&rules, err) < 0)
        return -1;
    for (size_t i = 0; i < count; i++) {
        tn_autonetlink struct tn_netlink routes;
        struct tn_error why = {0};
        tn_netlink_init(&routes);
        add_pod_routes(&routes, &kinds[i]);
        /* It may be there already.  A pod without IPv6 has nothing to lead: the wall holds. */
        if (send_routes(&routes, &why) < 0 && why.sys != EEXIST && i == 0)
            return tn_fail(err, why.code, "%s", why.text);
    }
    return 0;
}

int tn_wall_open(struct tn_wall *wall, struct tn_error *err)
{
    size_t count = has_ipv6() ? TN_COUNT(kinds) : 1;
    int r = 0;

    *wall = (struct tn_wall)TN_WALL_NONE;
    for (size_t i = 0; r == 0 && i < count; i++) {
        uint8_t names[16];
        inet_pton(kinds[i].family, kinds[i].names, names);
        r = open_sockets(wall, &kinds[i], names, err);
        if (i > 0) /* a pod without IPv6 */
            r = 0;
    }
    return end_wall(wall, r);
}
