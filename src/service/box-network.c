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

static bool denies(const char *rule)
{
    return *rule == '!';
}

/* Those that deny are everybody's. */
static void leave_out_rule(struct tn_str_list *rules, const char *rule)
{
    for (size_t i = 0; i < rules->count && !denies(rule);) {
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
                 bounds_again(b->s, b->tenant, b->key_id, b->template, &now, err);
    free(now.allow.items);
    return failed ? -1 : 0;
}

int box_hand_on_rules(struct box *b, const struct caller *who, const struct tn_spec *spec,
                      struct tn_str_list *out, struct tn_error *err)
{
    if (!(who->scopes & SCOPE_ADMIN))
        return own_rules(b, spec, out, err);
    list_rules(spec, out);
    return 0;
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
    wanted.allow = (struct tn_str_list){
        .items = tn_calloc(now->allow.count + 2, sizeof *wanted.allow.items)};
    for (size_t i = 0; i < now->allow.count; i++) /* what it is denied stays so */
        if (denies(now->allow.items[i]))
            wanted.allow.items[kept++] = now->allow.items[i];
    wanted.allow.items[kept++] = (char *)(uintptr_t)rule;
    wanted.allow.count = kept;
    int failed = who ? bounds_rules(b->s, who, b->template, &wanted, err)
                     : bounds_again(b->s, b->tenant, b->key_id, b->template, &wanted, err);
    free(wanted.allow.items);
    return failed ? -1 : 0;
}

/* --- other rules ------------------------------------------------------------------------------ */

/* Before they count: a rule that nobody knows to be the operator's would keep it from starting. */
static int grant(struct box *b, const struct tn_str_list *rules, struct tn_error *err)
{
    for (size_t i = 0; i < rules->count; i++)
        if (tn_db_run(b->s->db, err, "INSERT OR IGNORE INTO box_grant (box, rule) VALUES (?, ?)",
                      "tt", b->names.id, rules->items[i]) < 0)
            return -1;
    return 0;
}

struct change {
    struct box *b;
    const struct caller *who;
    const struct tn_rules_change *wish;
    const struct tn_str_list *granted; /* NULL: its maker's own */
};

/* Whether its maker may start it with that, without the rules that the operator gives to it. */
static int may_its_maker(const struct change *c, struct tn_spec *own, struct tn_error *err)
{
    const struct box *b = c->b;

    for (size_t i = 0; i < c->granted->count; i++)
        leave_out_rule(&own->allow, c->granted->items[i]);
    return bounds_again(b->s, b->tenant, b->key_id, b->template, own, err);
}

static int check(void *ctx, const struct tn_spec *wanted, struct tn_error *err)
{
    const struct change *c = ctx;
    bool kind = c->wish->network != TN_NETWORK_DEFAULT;
    struct tn_spec own = *wanted; /* borrows everything */

    int failed = own_rules(c->b, wanted, &own.allow, err) ||
                 bounds_rules(c->b->s, c->who, c->b->template, &own, err) ||
                 (c->granted && kind && may_its_maker(c, &own, err));
    free(own.allow.items);
    return failed || (c->granted && grant(c->b, c->granted, err)) ? -1 : 0;
}

static int note_granted(const struct tn_db_row *row, void *ctx)
{
    *(bool *)ctx = true;
    (void)row;
    return 0;
}

/* What the operator denies to it is for the operator to take away. */
static int may_take_away(struct box *b, const struct caller *who, const struct tn_str_list *rules,
                         struct tn_error *err)
{
    bool granted = false;

    for (size_t i = 0; i < rules->count && !(who->scopes & SCOPE_ADMIN); i++) {
        if (denies(rules->items[i]) &&
            tn_db_each(b->s->db, note_granted, &granted, err,
                       "SELECT rule FROM box_grant WHERE box = ? AND rule = ?", "tt", b->names.id,
                       rules->items[i]) < 0)
            return -1;
        if (granted)
            return tn_fail(err, TN_E_DENIED, "deny %.200s: the operator's", rules->items[i]);
    }
    return 0;
}

/* Its sandbox has that already; the row is for who looks, and for its forks. */
static void keep_network(struct box *b, int network)
{
    pthread_mutex_lock(&b->row);
    pthread_mutex_lock(&b->lock);
    b->spec.network = network;
    pthread_mutex_unlock(&b->lock);
    row_spec(b, &b->spec, NULL);
    pthread_mutex_unlock(&b->row);
}

/* Whoever adds a rule again that was taken away does so on its own account. */
static void take_back(struct box *b, const struct tn_str_list *rules)
{
    for (size_t i = 0; i < rules->count; i++)
        tn_db_run(b->s->db, NULL, "DELETE FROM box_grant WHERE box = ? AND rule = ?", "tt",
                  b->names.id, rules->items[i]);
}

int box_change_rules(struct box *b, const struct caller *who, const struct tn_rules_change *wish,
                     struct tn_error *err)
{
    int64_t deadline = tn_deadline_in(CHANGE_SECONDS);
    bool operators = who->scopes & SCOPE_ADMIN && !bounds_admin(b->s, b->key_id);
    struct change c = {
        .b = b, .who = who, .wish = wish, .granted = operators ? &wish->allow : NULL};
    struct tn_rules_change change = *wish; /* borrows everything */

    change.check = check;
    change.ctx = &c;
    if (box_await_known(b, deadline, err) || may_take_away(b, who, &wish->deny, err))
        return -1;
    tn_autosandbox struct tn_sandbox *sb = box_attach(b, err);
    if (!sb)
        return -1;
    if (tn_sandbox_change_rules(sb, &change, deadline, err))
        return -1;
    if (wish->network != TN_NETWORK_DEFAULT)
        keep_network(b, wish->network);
    take_back(b, &wish->deny);
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
