/* Connections that wait: until somebody has said whether they may pass, and until the name that
 * they are for is looked up.
 *
 * A name without a rule is not looked up when the sandbox asks for it: data could leave in names.
 * It gets an address that stands for it (198.19.0.0/16, which is nobody's, or where there is no
 * IPv4 one of the wall's), and the connection to that address waits here.  Connections to the same
 * host and port are one question. */
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <sys/socket.h>

#include "gate/link.h"
#include "gate/netlink.h"

#define STAND_IN_NET "198.19.0.0"
#define STAND_IN_NET6 "fd74:656e:646f:6e::a:0"
enum {
    STAND_IN_BITS = 16, /* the last ones */
    STAND_IN_TRIES = 64,
    STAND_IN_SECONDS = 300, /* and again with each connection */
};

/* One connection. */
struct held {
    struct grave grave; /* first: it is freed by it */
    struct held *next;
    struct asked *of;
    struct watch client;
    struct timer left;         /* runs when the client has said all that it will */
    struct tn_address address; /* that it wanted */
};

/* All that wait for the same. */
struct asked {
    struct grave grave; /* first: it is freed by it */
    struct asked *next;
    struct timer timer;
    char host[TN_NAME_MAX + 1];
    uint16_t port;
    bool allowed; /* somebody has said so, of these alone */
    uint16_t now; /* type of the records that are being looked up; 0: it waits for an answer */
    struct held *held;
};

/* --- addresses that stand for names ----------------------------------------------------------- */

bool asked_stands_in(const struct tn_address *a)
{
    bool v6 = a->family == AF_INET6;
    struct tn_address net;

    return tn_address_parse(v6 ? STAND_IN_NET6 : STAND_IN_NET, &net) &&
           tn_address_in(a, &net, (v6 ? 128 : 32) - STAND_IN_BITS);
}

/* Whether the address may stand for that name. */
struct fit {
    const char *name;
    bool other;
};

static void look_for_other(const char *name, void *ctx)
{
    struct fit *f = ctx;

    f->other |= strcmp(name, f->name) != 0;
}

bool asked_stand_in(struct gate *g, const char *name, struct tn_address *out)
{
    bool v6 = g->family == TN_DNS_AAAA;
    uint8_t *last = out->bytes + (v6 ? 14 : 2);
    uint32_t h = 2166136261u;

    /* An address is no name: who is asked would read another thing than is meant. */
    if (g->ask_seconds <= 0 || tn_address_parse(name, out) ||
        !tn_address_parse(v6 ? STAND_IN_NET6 : STAND_IN_NET, out))
        return false;
    for (const char *at = name; *at; at++)
        h = (h ^ (uint8_t)*at) * 16777619u;
    for (int i = 0; i < STAND_IN_TRIES; i++, h++) {
        struct fit f = {.name = name};
        last[0] = (uint8_t)(h >> 8);
        last[1] = (uint8_t)h;
        tn_pins_each(g->pins, out, g->now, look_for_other, &f);
        if (f.other)
            continue;
        tn_pins_add(g->pins, out, name, g->now + STAND_IN_SECONDS * TN_SECOND);
        return true;
    }
    return false;
}

/* --- the end of waiting ----------------------------------------------------------------------- */

static void tell(struct gate *g, char kind, const struct asked *a)
{
    char record[TN_GATE_RECORD_MAX];
    int n = snprintf(record, sizeof record, "%c%s\t%u", kind, a->host, a->port);

    send(g->control.fd, record, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Its descriptor, which nobody watches any more. */
static int take_held(struct gate *g, struct held *h)
{
    epoll_ctl(g->epoll, EPOLL_CTL_DEL, h->client.fd, NULL);
    timer_stop(&h->left);
    g->held_count--;
    g->quiet = g->now;
    bury(g, &h->grave);
    return TN_TAKE_FD(h->client.fd);
}

static void end_asked(struct gate *g, struct asked *a)
{
    struct asked **at = &g->asked;

    while (*at != a)
        at = &(*at)->next;
    *at = a->next;
    timer_stop(&a->timer);
    bury(g, &a->grave);
}

static void refuse_all(struct gate *g, struct asked *a, const char *why)
{
    struct held *list = TN_TAKE_PTR(a->held);
    char what[TARGET_TEXT];

    snprintf(what, sizeof what, strchr(a->host, ':') ? "[%s]:%u" : "%s:%u", a->host, a->port);
    refuse(g, what, why);
    for (struct held *h = list, *next; h; h = next) {
        next = h->next;
        link_close_hard(take_held(g, h));
    }
    end_asked(g, a);
}

static void asked_over(struct gate *g, struct timer *t)
{
    struct asked *a = CONTAINER(t, struct asked, timer);

    tell(g, TN_GATE_OVER, a);
    refuse_all(g, a, "no rule, and nobody allowed it in time");
}

/* Waits no longer. */
static void drop(struct gate *g, struct held *h)
{
    struct held **at = &h->of->held;
    struct asked *a = h->of;

    while (*at != h)
        at = &(*at)->next;
    *at = h->next;
    link_close_hard(take_held(g, h));
    if (a->held)
        return;
    if (!a->now)
        tell(g, TN_GATE_OVER, a);
    end_asked(g, a);
}

static void put_end(const union tn_sockaddr *from, __be32 address[4], __be16 *port)
{
    bool v4 = from->any.sa_family == AF_INET;

    memcpy(address, v4 ? (const void *)&from->v4.sin_addr : &from->v6.sin6_addr, v4 ? 4 : 16);
    *port = v4 ? from->v4.sin_port : from->v6.sin6_port;
}

/* Whether a process of the sandbox has the other end: one that has ended what it sends, and one
 * that has closed it, look the same from here. */
static bool is_there(const struct gate *g, int fd)
{
    tn_autonetlink struct tn_netlink n;
    struct inet_diag_req_v2 ask = {
        .sdiag_protocol = IPPROTO_TCP,
        .idiag_states = ~0u,
        .id.idiag_cookie = {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE},
    };
    union tn_sockaddr here, there;
    socklen_t size = sizeof here, its = sizeof there;
    _Alignas(struct nlmsghdr) char answer[TN_NETLINK_ANSWER];

    tn_netlink_init(&n);
    if (getsockname(fd, &here.any, &size) < 0 || getpeername(fd, &there.any, &its) < 0)
        return false;
    ask.sdiag_family = (uint8_t)there.any.sa_family;
    put_end(&there, ask.id.idiag_src, &ask.id.idiag_sport);
    put_end(&here, ask.id.idiag_dst, &ask.id.idiag_dport);
    tn_netlink_begin(&n, SOCK_DIAG_BY_FAMILY, 0, &ask, sizeof ask);
    tn_netlink_end(&n);
    const struct inet_diag_msg *found =
        tn_netlink_ask(g->wall.fd[TN_WALL_DIAG], &n, SOCK_DIAG_BY_FAMILY, sizeof *found, answer);
    return found && found->idiag_inode;
}

static void look_for(struct gate *g, struct timer *t)
{
    struct held *h = CONTAINER(t, struct held, left);

    if (is_there(g, h->client.fd))
        timer_start(g, t, TIMER_LEFT);
    else
        drop(g, h);
}

/* Of one that waits nothing is read. */
static void held_ready(struct gate *g, struct watch *w, uint32_t events)
{
    struct held *h = CONTAINER(w, struct held, client);

    if (events & (EPOLLHUP | EPOLLERR))
        drop(g, h);
    else if (events & EPOLLRDHUP)
        timer_start(g, &h->left, TIMER_LEFT);
}

/* --- going on --------------------------------------------------------------------------------- */

/* What somebody has allowed, as a rule; NULL: it makes none. */
static struct tn_rules *rules_for(const struct asked *a)
{
    struct tn_rules *rules = tn_calloc(1, sizeof *rules);
    char text[TN_RULE_FOR];

    rules->mode = TN_GATE_ALLOW;
    if (tn_rule_for(a->host, a->port, text) && tn_rules_add(rules, text, NULL) == 0)
        return rules;
    tn_rules_done(rules);
    free(rules);
    return NULL;
}

/* Connects one of them; to: where its name leads, NULL: where it wanted to. */
static void go_on(struct gate *g, const struct asked *a, struct held *h,
                  const struct tn_address *to)
{
    const struct tn_address wanted = h->address;
    const struct tn_wish w = {.address = &wanted, .port = a->port};
    struct tn_rules *own = a->allowed ? rules_for(a) : NULL;
    struct judgement j = judge(g, &wanted, a->port, false, g->now);
    int fd = take_held(g, h);

    if (own) {
        j.pass = tn_rules_allow_name(own, a->host, &w);
        j.verdict = j.pass ? LOOK : tn_rules_allow_address(own, &w) ? PASSES : REFUSED;
    }
    if (j.verdict == REFUSED ||
        !may_reach(g, to ? to : &wanted, a->port)) { /* other rules, meanwhile */
        if (own)
            tn_rules_done(own);
        free(own);
        link_close_hard(fd);
        return;
    }
    link_begin(g, fd, &w, &j, to ? to : &wanted, own);
}

static void go_on_all(struct gate *g, struct asked *a, const struct tn_address *to)
{
    struct held *list = TN_TAKE_PTR(a->held);

    for (struct held *h = list, *next; h; h = next) {
        next = h->next;
        go_on(g, a, h, to);
    }
    end_asked(g, a);
}

/* Its name may be looked up now; it is found (and gone) at once where no server can be asked. */
static void look_up(struct gate *g, struct asked *a)
{
    timer_stop(&a->timer);
    a->now = g->family;
    names_find(g, a->host, g->family);
}

static void allow(struct gate *g, struct asked *a)
{
    a->allowed = true;
    if (asked_stands_in(&a->held->address))
        look_up(g, a);
    else
        go_on_all(g, a, NULL);
}

static const struct tn_address *first_reached(struct gate *g, const struct tn_dns_answer *found,
                                              uint16_t port)
{
    for (size_t i = 0; i < found->count; i++)
        if (may_reach(g, &found->addresses[i], port))
            return &found->addresses[i];
    return NULL;
}

void asked_found(struct gate *g, const struct tn_dns_question *q, const struct tn_dns_answer *found)
{
    bool other = false;

    for (struct asked *a = g->asked, *next; a; a = next) {
        next = a->next;
        if (a->now != q->type || !a->held || strcmp(a->host, q->name) != 0)
            continue;
        const struct tn_address *to = first_reached(g, found, a->port);
        if (to) {
            go_on_all(g, a, to);
        } else if (q->type == TN_DNS_A && g->ipv6) {
            a->now = TN_DNS_AAAA;
            other = true;
        } else {
            refuse_all(g, a, "the name leads nowhere that may be reached");
        }
    }
    if (other)
        names_find(g, q->name, TN_DNS_AAAA);
}

/* --- waiting ---------------------------------------------------------------------------------- */

static struct asked *find(const struct gate *g, const char *host, uint16_t port, bool looks)
{
    struct asked *a = g->asked;

    while (a &&
           (strcmp(a->host, host) != 0 || a->port != port || (a->now != 0) != looks || a->allowed))
        a = a->next;
    return a;
}

static struct asked *begin(struct gate *g, const char *host, uint16_t port)
{
    struct asked *a = tn_calloc(1, sizeof *a);

    snprintf(a->host, sizeof a->host, "%s", host);
    a->port = port;
    a->timer.over = asked_over;
    a->next = g->asked;
    g->asked = a;
    return a;
}

static size_t count_questions(const struct gate *g)
{
    size_t n = 0;

    for (const struct asked *a = g->asked; a; a = a->next)
        n += !a->now;
    return n;
}

bool asked_hold(struct gate *g, int fd, const struct tn_wish *w, const struct judgement *j)
{
    char host[TN_NAME_MAX + 1];

    target_host(g, w->address, host);
    struct asked *a = find(g, host, w->port, !j->ask);
    bool first = !a;
    if (g->held_count >= HELD_MAX || (first && j->ask && count_questions(g) >= TN_GATE_QUESTIONS))
        return false;
    if (asked_stands_in(w->address))
        tn_pins_add(g->pins, w->address, host, g->now + STAND_IN_SECONDS * TN_SECOND);
    if (first)
        a = begin(g, host, w->port);
    struct held *h = tn_calloc(1, sizeof *h);
    *h = (struct held){.next = a->held,
                       .of = a,
                       .client = {.fd = fd, .ready = held_ready},
                       .left.over = look_for,
                       .address = *w->address};
    a->held = h;
    g->held_count++;
    watch_begin(g, &h->client);
    if (!first)
        return true;
    if (!j->ask) {
        look_up(g, a);
        return true;
    }
    timer_start(g, &a->timer, TIMER_ASKED);
    tell(g, TN_GATE_ASKED, a);
    return true;
}

void asked_answered(struct gate *g, char sign, const char *what, size_t size)
{
    const char *tab = memchr(what, '\t', size);
    size_t n = tab ? (size_t)(tab - what) : 0;
    char host[TN_NAME_MAX + 1], port[8];

    if (!tab || n >= sizeof host || size - n - 1 >= sizeof port)
        return;
    memcpy(host, what, n);
    host[n] = '\0';
    memcpy(port, tab + 1, size - n - 1);
    port[size - n - 1] = '\0';
    struct asked *a = find(g, host, (uint16_t)strtoul(port, NULL, 10), false);
    if (!a)
        return;
    if (sign == TN_GATE_YES)
        allow(g, a);
    else
        refuse_all(g, a,
                   sign == TN_GATE_NO ? "no rule, and whoever was asked did not allow it"
                                      : "no rule, and too many others were asked about lately");
}

/* What has a rule now waits no longer. */
static void judge_again(struct gate *g, struct asked *a)
{
    struct held *list = TN_TAKE_PTR(a->held);

    tell(g, TN_GATE_OVER, a);
    end_asked(g, a);
    for (struct held *h = list, *next; h; h = next) {
        const struct tn_address wanted = h->address;
        const struct tn_wish w = {.address = &wanted, .port = a->port};
        next = h->next;
        link_judge(g, take_held(g, h), &w);
    }
}

void asked_again(struct gate *g)
{
    for (struct asked *a = g->asked, *next; a; a = next) {
        next = a->next;
        if (a->now || !a->held)
            continue;
        struct judgement j = judge(g, &a->held->address, a->port, false, g->now);
        if (j.verdict != REFUSED || !j.ask)
            judge_again(g, a);
    }
}
