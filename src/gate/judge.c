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
static const char *nearness(const struct gate *g, const struct tn_address *a, bool here)
{
    static const char *const kinds[] = {
        [TN_ADDRESS_PRIVATE] = "a private address",
        [TN_ADDRESS_LOOPBACK] = "an address of this machine",
        [TN_ADDRESS_NOBODYS] = "a link-local or reserved address",
    };
    enum tn_address_kind kind = tn_address_kind(a);

    if (kind != TN_ADDRESS_PUBLIC)
        return kinds[kind];
    if (tn_rules_are_near(&g->rules, a))
        return "an address of the cluster";
    if (tn_rules_deny(&g->rules, a))
        return "a rule denies it";
    return here ? kinds[TN_ADDRESS_LOOPBACK] : NULL;
}

static struct judgement passes(struct gate *g, const struct tn_wish *w)
{
    bool look = !w->udp && vault_has_port(&g->vault, w->port);

    return (struct judgement){.verdict = look ? FREE : PASSES};
}

/* A name that had no rule when it was asked for; it may have one now. */
static struct judgement judge_stand_in(struct gate *g, const struct tn_wish *w)
{
    struct search s = {.gate = g, .wish = w};
    struct judgement j = {.verdict = LOOK, .look_up = true};

    tn_pins_each(g->pins, w->address, g->now, ask_rules, &s);
    if (!s.named)
        return refused("the address was given for a name, and that is long ago: look it up again");
    j.pass = s.pass;
    if (s.pass & TN_PASS_BLIND)
        j.verdict = passes(g, w).verdict;
    if (s.pass == TN_PASS_NOT)
        return (struct judgement){
            .verdict = REFUSED, .ask = g->ask_seconds > 0, .look_up = true, .why = "no rule"};
    return j;
}

struct judgement judge(struct gate *g, const struct tn_address *a, uint16_t port, bool udp,
                       int64_t at)
{
    const struct tn_wish wish = {.address = a, .port = port, .udp = udp, .here = is_here(g, a)};
    const struct tn_wish *w = &wish;
    struct search s = {.gate = g, .wish = w};

    if (tn_rules_allow_address(&g->rules, w))
        return passes(g, w);
    if (!udp && asked_stands_in(a))
        return judge_stand_in(g, w);
    const char *near = nearness(g, a, w->here);
    if (near)
        return refused(near);
    if (g->rules.mode == TN_GATE_OPEN)
        return passes(g, w);
    tn_pins_each(g->pins, w->address, at, ask_rules, &s);
    if (s.pass & TN_PASS_BLIND)
        return passes(g, w);
    if (s.pass != TN_PASS_NOT)
        return (struct judgement){.verdict = LOOK, .pass = s.pass};
    return (struct judgement){.verdict = REFUSED,
                              .ask = !w->udp && g->ask_seconds > 0,
                              .why = w->udp ? "UDP, which no rule names"
                                     : s.named
                                         ? "no rule for this port"
                                         : "no rule for this address, and no allowed name has it"};
}

bool may_answer(struct gate *g, const struct tn_address *a)
{
    bool here = is_here(g, a);

    return tn_rules_know_address(&g->rules, a, here) || nearness(g, a, here) == NULL;
}

bool may_reach(struct gate *g, const struct tn_address *a, uint16_t port)
{
    const struct tn_wish w = {.address = a, .port = port, .here = is_here(g, a)};

    return tn_rules_allow_address(&g->rules, &w) || nearness(g, a, w.here) == NULL;
}

static void take_first(const char *name, void *ctx)
{
    char *out = ctx;

    if (!*out)
        snprintf(out, TN_NAME_MAX + 1, "%s", name);
}

void target_host(struct gate *g, const struct tn_address *a, char out[TN_NAME_MAX + 1])
{
    char text[TN_ADDRESS_TEXT];

    *out = '\0';
    tn_pins_each(g->pins, a, g->now, take_first, out);
    if (!*out)
        snprintf(out, TN_NAME_MAX + 1, "%s", tn_address_text(a, text));
}

const char *target_text(struct gate *g, const struct tn_address *a, uint16_t port,
                        char out[TARGET_TEXT])
{
    char host[TN_NAME_MAX + 1];

    target_host(g, a, host);
    snprintf(out, TARGET_TEXT, strchr(host, ':') ? "[%s]:%u" : "%s:%u", host, port);
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
