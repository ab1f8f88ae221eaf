/* UDP: a socket of this machine for each pair of ends, and the way back. */
#include <sys/socket.h>

#include "gate/gate.h"

enum { NAMES_PORT = 53 };

struct flow {
    struct grave grave; /* first: it is freed by it */
    struct flow *next;
    struct timer timer;
    struct watch out;
    struct ends ends;  /* from the sandbox */
    unsigned settings; /* by which it passes */
    int64_t began;
};

static size_t bucket_of(const struct ends *e)
{
    uint32_t h = 2166136261u ^ e->from_port ^ (uint32_t)e->to_port << 16;

    for (size_t i = 0; i < sizeof e->to.bytes; i++)
        h = (h ^ e->to.bytes[i] ^ (uint32_t)e->from.bytes[i] << 8) * 16777619u;
    return h % FLOW_BUCKETS;
}

static bool same_ends(const struct ends *a, const struct ends *b)
{
    return a->from_port == b->from_port && a->to_port == b->to_port &&
           tn_address_same(&a->from, &b->from) && tn_address_same(&a->to, &b->to);
}

static void end_flow(struct gate *g, struct flow *f)
{
    struct flow **at = &g->flows[bucket_of(&f->ends)];

    while (*at != f)
        at = &(*at)->next;
    *at = f->next;
    timer_stop(&f->timer);
    tn_close(TN_TAKE_FD(f->out.fd));
    g->flow_count--;
    bury(g, &f->grave);
}

static void flow_over(struct gate *g, struct timer *t)
{
    end_flow(g, CONTAINER(t, struct flow, timer));
}

/* False: it has ended, for the rules are others now. */
static bool still_passes(struct gate *g, struct flow *f)
{
    if (f->settings == g->settings)
        return true;
    f->settings = g->settings;
    if (judge(g, &f->ends.to, f->ends.to_port, true, f->began).verdict == PASSES)
        return true;
    end_flow(g, f);
    return false;
}

static void flow_answers(struct gate *g, struct watch *w, uint32_t events)
{
    struct flow *f = CONTAINER(w, struct flow, out);
    const struct ends back = {.from = f->ends.to,
                              .to = f->ends.from,
                              .from_port = f->ends.to_port,
                              .to_port = f->ends.from_port};

    while (f->out.fd >= 0 && still_passes(g, f)) {
        ssize_t n = recv(f->out.fd, g->buffer, sizeof g->buffer, MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN)
            return;
        if (n < 0) { /* the far end told us what it thinks of it: pass that on in our words */
            packet_prohibit(g, &f->ends, 0);
            continue;
        }
        timer_start(g, &f->timer, TIMER_FLOW);
        packet_send(g, &back, g->buffer, (size_t)n);
    }
}

/* The oldest makes room. */
static struct flow *begin_flow(struct gate *g, const struct ends *e)
{
    union tn_sockaddr to;
    socklen_t size = tn_address_to(&e->to, e->to_port, &to);
    size_t bucket = bucket_of(e);

    if (g->flow_count >= FLOWS_MAX)
        flow_over(g, g->timers[TIMER_FLOW].after);
    tn_autofd int fd = socket(e->to.family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || connect(fd, &to.any, size) < 0)
        return NULL;
    struct flow *f = tn_calloc(1, sizeof *f);
    f->out = (struct watch){.fd = TN_TAKE_FD(fd), .ready = flow_answers};
    f->timer.over = flow_over;
    f->ends = *e;
    f->settings = g->settings;
    f->began = g->now;
    f->next = g->flows[bucket];
    g->flows[bucket] = f;
    g->flow_count++;
    timer_start(g, &f->timer, TIMER_FLOW);
    watch_begin(g, &f->out);
    return f;
}

static struct flow *find_flow(struct gate *g, const struct ends *e)
{
    struct flow *f = g->flows[bucket_of(e)];

    while (f && !same_ends(&f->ends, e))
        f = f->next;
    return f;
}

static bool asks_gate(const struct gate *g, const struct ends *e)
{
    struct tn_address names;

    if (e->to_port != NAMES_PORT)
        return false;
    /* With rules nobody else may be asked: whoever is asked, the gate answers. */
    return g->rules.mode == TN_GATE_ALLOW ||
           (tn_address_parse(TN_WALL_NAMES4, &names) && tn_address_same(&names, &e->to)) ||
           (tn_address_parse(TN_WALL_NAMES6, &names) && tn_address_same(&names, &e->to));
}

static void take_datagram(struct gate *g, const struct ends *e, size_t size)
{
    struct flow *f;
    char what[TARGET_TEXT];

    if (asks_gate(g, e)) {
        const struct asker who = {.client = e->from,
                                  .server = e->to,
                                  .client_port = e->from_port,
                                  .server_port = e->to_port};
        names_ask(g, &who, g->buffer, size);
        return;
    }
    f = find_flow(g, e);
    if (!f || !still_passes(g, f)) {
        struct judgement j = judge(g, &e->to, e->to_port, true, g->now);
        if (j.verdict != PASSES) {
            refuse(g, target_text(g, &e->to, e->to_port, what),
                   j.why ? j.why : "UDP, which no rule names");
            packet_prohibit(g, e, size);
            return;
        }
        f = begin_flow(g, e);
    } else {
        timer_start(g, &f->timer, TIMER_FLOW);
    }
    if (!f || send(f->out.fd, g->buffer, size, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
        packet_prohibit(g, e, size);
}

/* Where it was sent to, which is not where it arrived. */
static bool original(struct msghdr *m, struct tn_address *to, uint16_t *port)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c))
        if ((c->cmsg_level == SOL_IP && c->cmsg_type == IP_ORIGDSTADDR) ||
            (c->cmsg_level == SOL_IPV6 && c->cmsg_type == IPV6_ORIGDSTADDR))
            return tn_address_from((const void *)CMSG_DATA(c), to, port);
    return false;
}

static bool receive_one(struct gate *g, int fd)
{
    union tn_sockaddr from;
    union {
        struct cmsghdr align;
        char room[256];
    } control;
    struct iovec part = {.iov_base = g->buffer, .iov_len = sizeof g->buffer};
    struct msghdr m = {.msg_name = &from,
                       .msg_namelen = sizeof from,
                       .msg_iov = &part,
                       .msg_iovlen = 1,
                       .msg_control = control.room,
                       .msg_controllen = sizeof control.room};
    struct ends e;
    ssize_t n = recvmsg(fd, &m, MSG_DONTWAIT);

    if (n < 0)
        return errno == EINTR;
    g->quiet = g->now;
    if (tn_address_from(&from.any, &e.from, &e.from_port) && original(&m, &e.to, &e.to_port))
        take_datagram(g, &e, (size_t)n);
    return true;
}

void flows_receive(struct gate *g, struct watch *w, uint32_t events)
{
    struct source *s = CONTAINER(w, struct source, watch);

    for (int i = 0; i < TAKEN_A_ROUND; i++)
        if (!receive_one(g, w->fd))
            return;
    run_again(g, &s->again);
}
