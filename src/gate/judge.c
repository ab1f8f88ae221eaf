#include "gate/gate.h"

#include <sys/socket.h>

enum { REPORTS_A_SECOND = 50 };

struct search {
    struct gate *gate;
    const struct tn_wish *wish;
    unsigned pass;
    bool named;
};

static void ask_rules(const char *name, void *ctx)
{
    struct search *s = ctx;

    s->named = true;
    s->pass |= tn_rules_allow_name(&s->gate->rules, name, s->wish);
}

static struct judgement refused(const char *why)
{
    return (struct judgement){.verdict = REFUSED, .why = why};
}

static bool is_here(struct gate *g, const struct tn_address *a)
{
    return route_of(g->route, a) == ROUTE_HERE;
}

/* Why an address is out of reach for whoever has no rule by address; NULL: it is not. */
static const char *nearness(const struct tn_address *a, bool here)
{
    static const char *const kinds[] = {
        [TN_ADDRESS_PRIVATE] = "a private address",
        [TN_ADDRESS_LOOPBACK] = "an address of this machine",
        [TN_ADDRESS_NOBODYS] = "a link-local or reserved address",
    };
    enum tn_address_kind kind = tn_address_kind(a);

    if (kind != TN_ADDRESS_PUBLIC)
        return kinds[kind];
    return here ? kinds[TN_ADDRESS_LOOPBACK] : NULL;
}

static struct judgement passes(struct gate *g, const struct tn_wish *w)
{
    bool look = !w->udp && vault_has_port(&g->vault, w->port);

    return (struct judgement){.verdict = look ? FREE : PASSES};
}

struct judgement judge(struct gate *g, const struct tn_address *a, uint16_t port, bool udp)
{
    const struct tn_wish wish = {.address = a, .port = port, .udp = udp, .here = is_here(g, a)};
    const struct tn_wish *w = &wish;
    struct search s = {.gate = g, .wish = w};

    if (tn_rules_allow_address(&g->rules, w))
        return passes(g, w);
    const char *near = nearness(a, w->here);
    if (near)
        return refused(near);
    if (g->rules.mode == TN_GATE_OPEN)
        return passes(g, w);
    tn_pins_each(g->pins, w->address, g->now, ask_rules, &s);
    if (s.pass & TN_PASS_BLIND)
        return passes(g, w);
    if (s.pass != TN_PASS_NOT)
        return (struct judgement){.verdict = LOOK, .pass = s.pass};
    return refused(w->udp    ? "UDP, which no rule names"
                   : s.named ? "no rule for this port"
                             : "no rule for this address, and no allowed name has it");
}

bool may_answer(struct gate *g, const struct tn_address *a)
{
    bool here = is_here(g, a);

    return tn_rules_know_address(&g->rules, a, here) || nearness(a, here) == NULL;
}

static void take_first(const char *name, void *ctx)
{
    char *out = ctx;

    if (!*out)
        snprintf(out, TN_NAME_MAX + 1, "%s", name);
}

const char *target_text(struct gate *g, const struct tn_address *a, uint16_t port,
                        char out[TARGET_TEXT])
{
    char name[TN_NAME_MAX + 1] = "", text[TN_ADDRESS_TEXT];

    tn_pins_each(g->pins, a, g->now, take_first, name);
    if (*name)
        snprintf(out, TARGET_TEXT, "%s:%u", name, port);
    else
        snprintf(out, TARGET_TEXT, a->family == AF_INET6 ? "[%s]:%u" : "%s:%u",
                 tn_address_text(a, text), port);
    return out;
}

/* A sandbox that asks a thousand times a second is told, and the keeper is not woken each time. */
void refuse(struct gate *g, const char *what, const char *why)
{
    char record[TN_GATE_RECORD_MAX];

    if (g->now - g->refusals_from >= TN_SECOND) {
        g->refusals_from = g->now;
        g->refusals = 0;
    }
    if (++g->refusals > REPORTS_A_SECOND)
        return;
    int n = snprintf(record, sizeof record, "%s\t%s", what, why);
    send(g->control.fd, record, (size_t)n < sizeof record ? (size_t)n : sizeof record - 1,
         MSG_DONTWAIT | MSG_NOSIGNAL);
}
