/* The network of a box: what its gate refused, and other rules for it. */
#include "base/clock.h"
#include "base/log.h"
#include "gate/rules.h"
#include "service/audit.h"
#include "service/bounds.h"
#include "service/box-internal.h"

#define GATE_SECONDS 5.0
#define CHANGE_SECONDS 10.0

enum { DETAIL_MAX = 4096 };

/* --- whose rules they are --------------------------------------------------------------------- */

/* Those that deny are everybody's. */
static void leave_out_rule(struct tn_str_list *rules, const char *rule)
{
    for (size_t i = 0; i < rules->count && !tn_rule_denies(rule);) {
        if (strcmp(rules->items[i], rule) == 0)
            rules->items[i] = rules->items[--rules->count];
        else
            i++;
    }
}

/* Those that the operator gave to it are none of its maker's. */
static int leave_out(const struct tn_db_row *row, void *ctx)
{
    const char *granted = tn_db_text(row, 0);

    if (granted)
        leave_out_rule(ctx, granted);
    return 0;
}

/* The caller frees the items. */
static void list_rules(const struct tn_spec *spec, struct tn_str_list *out)
{
    *out = (struct tn_str_list){.count = spec->allow.count};
    if (!spec->allow.items)
        return;
    out->items = tn_calloc(out->count + 1, sizeof *out->items);
    memcpy(out->items, spec->allow.items, out->count * sizeof *out->items);
}

/* The rules of that spec that its maker must be allowed; the caller frees the items. */
static int own_rules(const struct box *b, const struct tn_spec *spec, struct tn_str_list *out,
                     struct tn_error *err)
{
    list_rules(spec, out);
    if (!out->items)
        return 0;
    int found = tn_db_each(b->s->db, leave_out, out, err,
                           "SELECT rule FROM box_grant WHERE box = ?", "t", b->names.id);
    if (found < 0)
        free(TN_TAKE_PTR(out->items));
    return found < 0 ? -1 : 0;
}

struct denials {
    struct tn_rules rules;
    struct tn_error *err;
};

static int add_denial(const struct tn_db_row *row, void *ctx)
{
    struct denials *d = ctx;
    const char *granted = tn_db_text(row, 0);

    return granted && tn_rule_denies(granted) ? tn_rules_add(&d->rules, granted, d->err) : 0;
}

/* What the operator denies to it. */
static int read_denials(const struct box *b, struct denials *d)
{
    return tn_db_each(b->s->db, add_denial, d, d->err, "SELECT rule FROM box_grant WHERE box = ?",
                      "t", b->names.id) < 0
               ? -1
               : 0;
}

/* Whether that rule, or list of rules, goes before one of these. */
static bool contradicts(const struct tn_rules *denials, const char *rule)
{
    tn_autorules struct tn_rules own = {0};
    bool found = tn_rules_add(&own, rule, NULL) < 0;

    for (size_t i = 0; i < own.count; i++)
        found |= tn_rules_contradict(denials, &own.items[i]);
    return found;
}

/* Whether none of these goes before what the operator denies to it. */
static int check_granted(const struct box *b, const struct tn_str_list *rules, struct tn_error *err)
{
    struct denials d = {.err = err};
    int failed = read_denials(b, &d);

    for (size_t i = 0; !failed && i < rules->count; i++)
        if (contradicts(&d.rules, rules->items[i]))
            failed =
                tn_fail(err, TN_E_DENIED, "allow %.200s: the operator denies it", rules->items[i]);
    tn_rules_done(&d.rules);
    return failed;
}

void box_rules(struct box *b, struct tn_rules *out)
{
    tn_autosandbox struct tn_sandbox *sb = box_attach(b, NULL);
    const struct tn_spec *spec = sb ? tn_sandbox_spec(sb) : &b->spec;

    for (size_t i = 0; spec->network == TN_NETWORK_ALLOW && i < spec->allow.count; i++)
        tn_rules_add(out, spec->allow.items[i], NULL);
}

int box_may_start(struct box *b, struct tn_error *err)
{
    tn_autosandbox struct tn_sandbox *sb = box_attach(b, err);
    struct tn_spec now = b->spec; /* borrows everything */

    if (!sb)
        return -1;
    now.network = tn_sandbox_spec(sb)->network;
    int failed = own_rules(b, tn_sandbox_spec(sb), &now.allow, err) ||
                 bounds_again(b->s, b->tenant, b->key_id, b->template, &now, err) ||
                 (!bounds_admin(b->s, b->key_id) && check_granted(b, &now.allow, err));
    free(now.allow.items);
    return failed ? -1 : 0;
}

int box_hand_on_rules(struct box *b, const struct caller *who, const struct tn_spec *spec,
                      struct tn_str_list *out, struct tn_error *err)
{
    struct denials d = {.err = err};

    if (who->scopes & SCOPE_ADMIN) {
        list_rules(spec, out);
        return 0;
    }
    int failed = own_rules(b, spec, out, err) || read_denials(b, &d);
    for (size_t i = 0; !failed && i < out->count;) {
        if (contradicts(&d.rules, out->items[i])) /* an administrator's, as the denial is */
            out->items[i] = out->items[--out->count];
        else
            i++;
    }
    tn_rules_done(&d.rules);
    if (failed)
        free(TN_TAKE_PTR(out->items));
    return failed ? -1 : 0;
}

int box_may_reach(struct box *b, const struct caller *who, const char *rule, struct tn_error *err)
{
    tn_autosandbox struct tn_sandbox *sb = box_attach(b, err);
    struct tn_spec wanted = b->spec; /* borrows everything */
    size_t kept = 0;

    if (!sb)
        return -1;
    const struct tn_spec *now = tn_sandbox_spec(sb);
    wanted.network = now->network;
    wanted.allow =
        (struct tn_str_list){.items = tn_calloc(now->allow.count + 2, sizeof *wanted.allow.items)};
    for (size_t i = 0; i < now->allow.count; i++) /* what it is denied stays so */
        if (tn_rule_denies(now->allow.items[i]))
            wanted.allow.items[kept++] = now->allow.items[i];
    wanted.allow.items[kept++] = (char *)(uintptr_t)rule;
    wanted.allow.count = kept;
    bool operators = who && who->scopes & SCOPE_ADMIN;
    int failed = (!operators && check_granted(b, &wanted.allow, err)) ||
                 (who ? bounds_rules(b->s, who, b->template, &wanted, err)
                      : bounds_again(b->s, b->tenant, b->key_id, b->template, &wanted, err));
    free(wanted.allow.items);
    return failed ? -1 : 0;
}

/* --- other rules ------------------------------------------------------------------------------ */

/* Before it counts: a rule that nobody knows to be the operator's would keep it from starting.
 * 1: now, 0: it is so already. */
static int grant(struct box *b, const char *rule, struct tn_error *err)
{
    return tn_db_run(b->s->db, err, "INSERT OR IGNORE INTO box_grant (box, rule) VALUES (?, ?)",
                     "tt", b->names.id, rule);
}

static void end_grant(struct box *b, const char *rule)
{
    tn_db_run(b->s->db, NULL, "DELETE FROM box_grant WHERE box = ? AND rule = ?", "tt", b->names.id,
              rule);
}

int box_born_denied(struct box *b, const struct caller *who, const struct tn_spec *spec,
                    struct tn_error *err)
{
    const struct tn_str_list *rules = &spec->allow;

    for (size_t i = 0; who->scopes & SCOPE_ADMIN && i < rules->count; i++)
        if (tn_rule_denies(rules->items[i]) && grant(b, rules->items[i], err) < 0)
            return -1;
    return 0;
}

struct change {
    struct box *b;
    const struct caller *who;
    const struct tn_rules_change *wish;
    bool operators; /* it is an administrator who asks, */
    bool admins;    /* and who has made it */
    bool *granted;  /* which of the rules that are added, by this very change */
};

static int note_row(const struct tn_db_row *row, void *ctx)
{
    *(bool *)ctx = true;
    return 0;
}

static int is_granted(const struct box *b, const char *rule, bool *granted, struct tn_error *err)
{
    *granted = false;
    return tn_db_each(b->s->db, note_row, granted, err,
                      "SELECT rule FROM box_grant WHERE box = ? AND rule = ?", "tt", b->names.id,
                      rule) < 0
               ? -1
               : 0;
}

bool box_is_denied(const struct box *b, const struct caller *who, const char *rule)
{
    bool granted = false;

    if (!tn_rule_denies(rule) || who->scopes & SCOPE_ADMIN)
        return false;
    return is_granted(b, rule, &granted, NULL) || granted ||
           bounds_deny(b->s, who, b->template, &b->spec, rule);
}

/* What the operator denies to it is for the operator to take away. */
static int may_take_away(const struct change *c, struct tn_error *err)
{
    const struct tn_str_list *rules = &c->wish->deny;

    for (size_t i = 0; i < rules->count && !(c->who->scopes & SCOPE_ADMIN); i++) {
        bool granted = false;
        if (tn_rule_denies(rules->items[i]) && is_granted(c->b, rules->items[i], &granted, err))
            return -1;
        if (granted)
            return tn_fail(err, TN_E_DENIED, "deny %.200s: the operator's", rules->items[i]);
    }
    return 0;
}

/* Whether it may reach more afterwards than what rules say. */
static bool widens(const struct tn_rules_change *wish)
{
    bool widens = wish->network != TN_NETWORK_DEFAULT;

    for (size_t i = 0; i < wish->deny.count; i++)
        widens = widens || tn_rule_denies(wish->deny.items[i]);
    return widens;
}

/* To whom an administrator has given it, may have what goes before that administrator's denials. */
static int check_denials(const struct change *c, const struct tn_str_list *own,
                         struct tn_error *err)
{
    const struct tn_str_list *added = &c->wish->allow;
    tn_autorules struct tn_rules denied = {0};

    if (!c->operators)
        return check_granted(c->b, c->admins ? added : own, err);
    for (size_t i = 0; i < added->count; i++)
        if (tn_rule_denies(added->items[i]) && tn_rules_add(&denied, added->items[i], err))
            return -1;
    for (size_t i = 0; !c->admins && i < own->count; i++)
        if (contradicts(&denied, own->items[i]))
            return tn_fail(err, TN_E_CONFLICT,
                           "its own rule %.200s goes before one that denies: take it away as well "
                           "(deny)",
                           own->items[i]);
    return 0;
}

/* What an administrator adds is the operator's: all of it in the sandbox of a tenant, and what it
 * denies in any. */
static int grant_all(struct change *c, struct tn_error *err)
{
    const struct tn_str_list *added = &c->wish->allow;

    for (size_t i = 0; c->operators && i < added->count; i++) {
        int granted =
            c->admins && !tn_rule_denies(added->items[i]) ? 0 : grant(c->b, added->items[i], err);
        if (granted < 0)
            return -1;
        c->granted[i] |= granted > 0;
    }
    return 0;
}

static int check(void *ctx, const struct tn_spec *wanted, struct tn_error *err)
{
    struct change *c = ctx;
    const struct box *b = c->b;
    const struct tn_str_list *added = &c->wish->allow;
    struct tn_spec own = *wanted; /* borrows everything */

    int failed = may_take_away(c, err) || own_rules(b, wanted, &own.allow, err);
    if (failed)
        return -1;
    for (size_t i = 0; c->operators && i < added->count; i++)
        leave_out_rule(&own.allow, added->items[i]);
    failed =
        check_denials(c, &own.allow, err) || bounds_rules(b->s, c->who, b->template, &own, err) ||
        (widens(c->wish) && bounds_again(b->s, b->tenant, b->key_id, b->template, &own, err)) ||
        grant_all(c, err);
    free(own.allow.items);
    return failed ? -1 : 0;
}

/* Its sandbox has that already; the row is for who looks. */
static void keep_network(struct box *b, int network)
{
    pthread_mutex_lock(&b->row);
    pthread_mutex_lock(&b->lock);
    b->spec.network = network;
    pthread_mutex_unlock(&b->lock);
    row_spec(b, &b->spec, NULL);
    pthread_mutex_unlock(&b->row);
}

/* A tenant that adds a rule again that was taken away does so on its own account. */
static void note_change(void *ctx, bool failed)
{
    const struct change *c = ctx;
    const struct tn_str_list *added = &c->wish->allow;

    for (size_t i = 0; failed && i < added->count; i++)
        if (c->granted[i])
            end_grant(c->b, added->items[i]);
    if (failed)
        return;
    if (c->wish->network != TN_NETWORK_DEFAULT)
        keep_network(c->b, c->wish->network);
    for (size_t i = 0; i < c->wish->deny.count; i++)
        if (!tn_str_list_has(added, c->wish->deny.items[i]))
            end_grant(c->b, c->wish->deny.items[i]);
}

int box_change_rules(struct box *b, const struct caller *who, const struct tn_rules_change *wish,
                     struct tn_error *err)
{
    int64_t deadline = tn_deadline_in(CHANGE_SECONDS);
    struct change c = {.b = b,
                       .who = who,
                       .wish = wish,
                       .operators = who->scopes & SCOPE_ADMIN,
                       .admins = bounds_admin(b->s, b->key_id)};
    struct tn_rules_change change = *wish; /* borrows everything */

    change.check = check;
    change.done = note_change;
    change.ctx = &c;
    if (box_await_known(b, deadline, err))
        return -1;
    tn_autosandbox struct tn_sandbox *sb = box_attach(b, err);
    c.granted = tn_calloc(wish->allow.count + 1, sizeof *c.granted);
    bool failed = !sb || tn_sandbox_change_rules(sb, &change, deadline, err);
    free(c.granted);
    if (failed)
        return -1;
    box_changed(b);
    return 0;
}

/* --- what was refused ------------------------------------------------------------------------- */

int box_put_network(struct box *b, struct tn_jw *w, struct tn_error *err)
{
    tn_autosandbox struct tn_sandbox *sb =
        box_await_known(b, tn_deadline_in(CHANGE_SECONDS), err) ? NULL : box_attach(b, err);

    if (!sb)
        return -1;
    tn_sandbox_put_network(sb, w, tn_deadline_in(GATE_SECONDS));
    return 0;
}

static bool runs(struct box *b)
{
    autoview struct box_view v = {0};

    box_look(b, &v);
    return v.state == BOX_RUNNING;
}

void box_note_refusals(struct box *b)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(DETAIL_MAX);
    tn_autosandbox struct tn_sandbox *sb = runs(b) ? box_attach(b, NULL) : NULL;
    struct tn_error err = {0};

    if (!sb || tn_sandbox_note_refusals(sb, &text, tn_deadline_in(GATE_SECONDS)) == 0)
        return;
    const struct audit_entry entry = {.what = "network.refused",
                                      .box = b->names.id,
                                      .result = tn_code_row(TN_E_DENIED)->name,
                                      .detail = tn_buf_str(&text)};
    if (audit_write(b->s->audit, &entry, &err))
        tn_log(TN_LOG_ERROR, "no line in the audit log", tn_log_str("what", entry.what),
               tn_log_str("sandbox", b->names.id), tn_log_str("error", err.text));
    box_changed(b);
}

/* --- what waits ------------------------------------------------------------------------------- */

void box_let_through(struct box *b, const struct tn_action *action, struct tn_observation *o)
{
    struct tn_error err = {0};
    tn_autosandbox struct tn_sandbox *sb = box_attach(b, &err);

    if (sb)
        tn_sandbox_let_through(sb, action, o);
    else
        tn_observation_init_error(o, action, "%s", err.text);
}

void box_refuse(struct box *b, const char *host, int port)
{
    tn_autosandbox struct tn_sandbox *sb = box_attach(b, NULL);

    if (sb) /* or its gate does so by itself, when the time is over */
        tn_sandbox_let(sb, host, port, false, tn_deadline_in(GATE_SECONDS), NULL);
}
