#include "gate/netlink.h"

#include <arpa/inet.h>
#include <linux/netlink.h>
#include <sys/socket.h>
#include <sys/time.h>

enum { BYTES_MAX = 64 << 10, ANSWER_SECONDS = 5 };

void tn_netlink_init(struct tn_netlink *n)
{
    *n = (struct tn_netlink){.bytes = TN_BUF_INIT(BYTES_MAX)};
}

void tn_netlink_done(struct tn_netlink *n)
{
    tn_buf_done(&n->bytes);
}

static void pad(struct tn_netlink *n)
{
    static const char zeros[NLMSG_ALIGNTO];

    tn_buf_add(&n->bytes, zeros, NLMSG_ALIGN(n->bytes.len) - n->bytes.len);
}

/* --- building ------------------------------------------------------------------------------ */

void tn_netlink_begin(struct tn_netlink *n, uint16_t type, uint16_t flags, const void *head,
                      size_t size)
{
    const struct nlmsghdr h = {
        .nlmsg_type = type,
        .nlmsg_flags = NLM_F_REQUEST | flags,
        .nlmsg_seq = n->sent,
    };

    n->sent += (flags & NLM_F_ACK) != 0;
    n->message = n->bytes.len;
    tn_buf_add(&n->bytes, &h, sizeof h);
    tn_buf_add(&n->bytes, head, size);
    pad(n);
}

void tn_netlink_add(struct tn_netlink *n, uint16_t type, const void *data, size_t size)
{
    const struct nlattr a = {.nla_type = type, .nla_len = (uint16_t)(sizeof a + size)};

    tn_buf_add(&n->bytes, &a, sizeof a);
    tn_buf_add(&n->bytes, data, size);
    pad(n);
}

void tn_netlink_add_text(struct tn_netlink *n, uint16_t type, const char *text)
{
    tn_netlink_add(n, type, text, strlen(text) + 1);
}

void tn_netlink_add_be32(struct tn_netlink *n, uint16_t type, uint32_t value)
{
    uint32_t big = htonl(value);

    tn_netlink_add(n, type, &big, sizeof big);
}

size_t tn_netlink_open(struct tn_netlink *n, uint16_t type)
{
    size_t at = n->bytes.len;

    tn_netlink_add(n, type | NLA_F_NESTED, NULL, 0);
    return at;
}

void tn_netlink_close(struct tn_netlink *n, size_t at)
{
    uint16_t size = (uint16_t)(n->bytes.len - at);

    if (tn_buf_ok(&n->bytes))
        memcpy(n->bytes.data + at + offsetof(struct nlattr, nla_len), &size, sizeof size);
}

void tn_netlink_end(struct tn_netlink *n)
{
    uint32_t size = (uint32_t)(n->bytes.len - n->message);

    if (tn_buf_ok(&n->bytes))
        memcpy(n->bytes.data + n->message + offsetof(struct nlmsghdr, nlmsg_len), &size,
               sizeof size);
}

/* --- sending ------------------------------------------------------------------------------- */

int tn_netlink_socket(int protocol, struct tn_error *err)
{
    struct timeval limit = {.tv_sec = ANSWER_SECONDS};
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);

    if (fd < 0)
        return tn_fail_errno(err, errno, "netlink %d", protocol);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    return fd;
}

/* How many acknowledgements the packet holds, or -1. */
static int count_acks(const char *packet, size_t size, struct tn_error *err)
{
    const struct nlmsghdr *h = (const void *)packet;
    int count = 0;

    for (; NLMSG_OK(h, size); h = NLMSG_NEXT(h, size)) {
        if (h->nlmsg_type != NLMSG_ERROR)
            continue;
        const struct nlmsgerr *e = NLMSG_DATA(h);
        if (e->error != 0)
            return tn_fail_errno(err, -e->error, "request %u", h->nlmsg_seq + 1);
        count++;
    }
    return count;
}

int tn_netlink_send(int socket, struct tn_netlink *n, struct tn_error *err)
{
    struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
    _Alignas(struct nlmsghdr) char packet[8192];

    if (!tn_buf_ok(&n->bytes))
        return tn_fail(err, TN_E_TOO_LARGE, "netlink: more than %d bytes", BYTES_MAX);
    if (sendto(socket, n->bytes.data, n->bytes.len, 0, (struct sockaddr *)&kernel, sizeof kernel) <
        0)
        return tn_fail_errno(err, errno, "netlink");
    while (n->sent > 0) {
        ssize_t size = recv(socket, packet, sizeof packet, 0);
        if (size < 0 && errno == EINTR)
            continue;
        int acks =
            size < 0 ? tn_fail_errno(err, errno, "netlink") : count_acks(packet, (size_t)size, err);
        if (acks < 0)
            return -1;
        n->sent -= (uint32_t)acks < n->sent ? (uint32_t)acks : n->sent;
    }
    tn_buf_reset(&n->bytes);
    return 0;
}

const void *tn_netlink_ask(int socket, struct tn_netlink *n, uint16_t type, size_t size,
                           char answer[TN_NETLINK_ANSWER])
{
    const struct nlmsghdr *h = (const void *)answer;

    if (tn_netlink_send(socket, n, NULL) < 0)
        return NULL;
    ssize_t got = recv(socket, answer, TN_NETLINK_ANSWER, 0);
    return got >= 0 && NLMSG_OK(h, (size_t)got) && h->nlmsg_type == type &&
                   h->nlmsg_len >= NLMSG_LENGTH(size)
               ? NLMSG_DATA(h)
               : NULL;
}
