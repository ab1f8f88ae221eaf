#include "security/policy/rule.h"

#include "base/clock.h"
#include "security/policy/glob.h"

static bool chain_met(const struct test *t, struct look *look);

/* --- values ----------------------------------------------------------------------------------- */

/* The text of a member below an object: "a.b.c". */
static const char *member_text(const struct tn_json *v, const char *path, size_t *n)
{
    while (v && *path) {
        char key[128];
        size_t len = strcspn(path, ".");
        if (len >= sizeof key)
            return NULL;
        memcpy(key, path, len);
        key[len] = '\0';
        v = tn_json_get(v, key);
        path += len + (path[len] == '.');
    }
    return v ? tn_json_str(v, n) : NULL;
}

static const char *field_text(const struct scene *s, const char *field, size_t *n)
{
    const struct tn_action *a = s->action;
    const char *text, *behind = strncmp(field, "arguments.", 10) == 0 ? field + 10 : field;

    if (!a) {
        *n = s->output_len;
        return strcmp(field, "content") == 0 ? s->output : NULL;
    }
    if (strcmp(field, "function.name") == 0) {
        text = tn_action_name(a->type);
        *n = strlen(text);
        return text;
    }
    text = tn_action_arg(a, field, n);
    if (!text && a->type == TN_ACTION_CALL_TOOL_MCP)
        text = member_text(a->call_tool_mcp.arguments, behind, n);
    if (!text && a->type == TN_ACTION_PLUGIN)
        text = member_text(a->plugin.args, behind, n);
    return text;
}

/* A value as text; a number is written into `digits`.  NULL: the action has no such field. */
static const char *value_text(const struct scene *s, const struct value *v, size_t *n,
                              char digits[24])
{
    if (v->kind == VALUE_FIELD)
        return field_text(s, v->text, n);
    if (v->kind == VALUE_NUMBER) {
        *n = (size_t)snprintf(digits, 24, "%lld", (long long)v->number);
        return digits;
    }
    *n = v->text ? strlen(v->text) : 0;
    return v->text;
}

static bool compare_met(const struct test *t, const struct scene *s)
{
    char digits[2][24];
    size_t n = 0, m = 0;
    const char *left = value_text(s, &t->left, &n, digits[0]);
    const char *right = value_text(s, &t->right, &m, digits[1]);
    int order;

    if (t->compare == COMPARE_IN && t->right.kind == VALUE_LIST) {
        for (size_t i = 0; left && i < t->right.count; i++) {
            if (strlen(t->right.items[i]) == n && memcmp(t->right.items[i], left, n) == 0)
                return true;
        }
        return false;
    }
    if (!left || !right)
        return t->compare == COMPARE_UNEQUAL;
    if (t->compare == COMPARE_GLOB)
        return glob_match(right, left, n);
    if (t->compare == COMPARE_IN)
        return n == 0 || memmem(right, m, left, n) != NULL;
    if (t->compare == COMPARE_LESS || t->compare == COMPARE_MORE) {
        long long a = strtoll(left, NULL, 10), b = strtoll(right, NULL, 10);
        return t->compare == COMPARE_LESS ? a < b : a > b;
    }
    order = n == m ? memcmp(left, right, n) : 1;
    return (order == 0) == (t->compare == COMPARE_EQUAL);
}

/* --- signs ------------------------------------------------------------------------------------ */

static bool sign_wanted(const struct wanted *w, const struct sign *s)
{
    return !w->kind || strcmp(w->kind, s->kind) == 0;
}

/* Detectors that are given one value of the action. */
static bool value_detected(const struct test *t, struct scene *s)
{
    char digits[24];
    size_t n = 0;
    const char *text = value_text(s, &t->left, &n, digits);
    struct tn_action action = {.type = t->python ? TN_ACTION_RUN_IPYTHON : TN_ACTION_RUN};
    autoscene struct scene part = {0};
    bool output = t->wanted[0].detector == &detect_injection;

    if (!text)
        return false;
    tn_autofree char *copy = tn_strndup(text, n);
    if (t->python)
        action.run_ipython.code = copy;
    else
        action.run.command = copy;
    if (output)
        scene_of_output(&part, text, n);
    else
        scene_of_action(&part, &action, s->cwd);
    for (size_t i = 0; i < t->count; i++) {
        if (detector_signs(t->wanted[i].detector, &part))
            return true;
    }
    /* what could not be read is not clean; of secrets every text can be read */
    return part.unread && t->wanted[0].detector != &detect_secrets;
}

/* --- things ----------------------------------------------------------------------------------- */

static bool any_fits(const char *const *patterns, size_t count, const char *text)
{
    for (size_t i = 0; i < count; i++) {
        if (glob_match(patterns[i], text, strlen(text)))
            return true;
    }
    return count == 0;
}

/* One of the alternatives in "a|b|c" fits one of the arguments. */
static bool argument_fits(const char *pattern, const struct tn_call *c)
{
    char one[GLOB_MAX + 1];

    for (const char *at = pattern; *at;) {
        size_t n = strcspn(at, "|");
        memcpy(one, at, n);
        one[n] = '\0';
        for (size_t i = 1; i < c->argc; i++) {
            if (glob_match(one, c->argv[i].text, strlen(c->argv[i].text)))
                return true;
        }
        at += n + (at[n] == '|');
    }
    return false;
}

static bool program_fits(const struct test *t, const struct tn_call *c)
{
    if (!any_fits(t->patterns, t->count, c->name))
        return false;
    for (size_t i = 0; i < t->arg_count; i++) {
        if (!argument_fits(t->args[i], c))
            return false;
    }
    return true;
}

static bool path_fits(const struct test *t, const struct look *look, const struct seen_path *p)
{
    if (!(p->use & t->bits))
        return false;
    for (size_t i = 0; i < t->count; i++) {
        const char *pattern = t->patterns[i];
        if (glob_path(pattern, p->path))
            return true;
        /* `cat .en*` may well be .env */
        if (p->glob && !look->exception && !glob_special(pattern) && pattern[0] != '/' &&
            pattern[0] != '~') {
            const char *slash = strrchr(p->path, '/'), *name = slash ? slash + 1 : p->path;
            if (name[0] != '*' && !strchr(pattern, '/') &&
                glob_match(name, pattern, strlen(pattern)))
                return true;
        }
    }
    return false;
}

static bool host_fits(const char *pattern, const char *host)
{
    size_t n = strlen(host), m = strlen(pattern);

    if (strncmp(pattern, "*.", 2) == 0)
        return n >= m && strcmp(host + n - (m - 1), pattern + 1) == 0;
    return glob_match(pattern, host, n);
}

static bool url_fits(const struct test *t, const struct look *look, const struct seen_url *u)
{
    (void)look;
    for (size_t i = 0; i < t->count; i++) {
        const struct url_pattern *p = &t->urls[i];
        const char *path = *u->path ? u->path : "/";
        if ((!p->scheme || strcmp(p->scheme, u->scheme) == 0) &&
            (!p->host || host_fits(p->host, u->host)) && (!p->port || p->port == u->port) &&
            (!p->path || glob_match(p->path, path, strlen(path))))
            return true;
    }
    return false;
}

static bool content_fits(const struct test *t, const struct look *look,
                         const struct seen_content *c)
{
    (void)look;
    for (size_t i = 0; i < t->count; i++) {
        if (glob_find(t->patterns[i], c->text, c->len))
            return true;
    }
    return false;
}

/* --- the chain -------------------------------------------------------------------------------- */

/* Whether the deadline has passed; not every question looks at the clock. */
static bool is_late(struct look *look)
{
    if (look->deadline != TN_NEVER && look->rounds++ % 16 == 0)
        look->late = look->late || tn_now() > look->deadline;
    return look->late;
}

/* Whether an exception may speak of the command: of those that have what the rule has found. */
static bool excused(const struct look *look, const struct tn_call *call)
{
    bool found = look->path || look->url || look->content || look->sign;

    return !look->exception || !found || (look->path && look->path->call == call) ||
           (look->url && look->url->call == call) ||
           (look->content && look->content->call == call) ||
           (look->sign && look->sign->call == call);
}

/* Whether something of a command may be bound beside the command that is. */
static bool same_call(const struct look *look, const struct tn_call *call)
{
    return look->call ? !call || look->call->call == call : !call || excused(look, call);
}

/* Whether what the bound command writes reaches the other one through pipes. */
static bool fed_by(const struct look *look, const struct tn_call *call)
{
    return look->call && call->in && tn_call_feeds(look->call->of, look->call->call, call);
}

static bool programs_met(const struct test *t, struct look *look)
{
    struct scene *s = look->scene;

    if (look->call)
        return program_fits(t, look->call->call) && chain_met(t->next, look);
    for (size_t i = 0; i < s->call_count && !is_late(look); i++) {
        if (!excused(look, s->calls[i].call) || !program_fits(t, s->calls[i].call))
            continue;
        look->call = &s->calls[i];
        if (chain_met(t->next, look))
            return true;
    }
    look->call = NULL;
    return false;
}

/* Tries everything of a kind that fits (only the bound one, when one is), and the rest of the chain
 * with each. */
#define THINGS_MET(name, type)                                                 \
    static bool name##s_met(const struct test *t, struct look *look)           \
    {                                                                          \
        struct scene *s = look->scene;                                         \
        const type *bound = look->name;                                        \
        if (bound)                                                             \
            return name##_fits(t, look, bound) && chain_met(t->next, look);    \
        for (size_t i = 0; i < s->name##_count && !is_late(look); i++) {       \
            const type *thing = &s->name##s[i];                                \
            if (!same_call(look, thing->call) || !name##_fits(t, look, thing)) \
                continue;                                                      \
            look->name = thing;                                                \
            if (chain_met(t->next, look))                                      \
                return true;                                                   \
        }                                                                      \
        look->name = NULL;                                                     \
        return false;                                                          \
    }
THINGS_MET(path, struct seen_path)
THINGS_MET(url, struct seen_url)
THINGS_MET(content, struct seen_content)

static bool signs_met(const struct test *t, struct look *look)
{
    const struct sign *before = look->sign;

    if (t->has_value)
        return value_detected(t, look->scene) && chain_met(t->next, look);
    for (size_t i = 0; i < t->count; i++) {
        const struct sign *s = detector_signs(t->wanted[i].detector, look->scene);
        for (; s && !is_late(look); s = s->next) {
            if (!sign_wanted(&t->wanted[i], s) ||
                !(same_call(look, s->call) || fed_by(look, s->call)))
                continue;
            look->sign = s;
            if (chain_met(t->next, look))
                return true;
        }
    }
    look->sign = before;
    return false;
}

/* What a test among others binds is of no account for those after it. */
static bool kid_met(const struct test *kids, struct look *look, bool exception)
{
    struct look own = *look;

    own.exception |= exception;
    bool met = chain_met(kids, &own);
    look->rounds = own.rounds;
    look->late = own.late;
    return met;
}

static bool any_met(const struct test *kids, struct look *look)
{
    for (const struct test *k = kids; k; k = k->next) {
        struct test alone = *k;
        alone.next = NULL;
        if (kid_met(&alone, look, false))
            return true;
    }
    return false;
}

static bool after_met(const struct test *t, struct look *look)
{
    if (!look->facts_known)
        look_facts(look);
    return (look->facts & t->bits) != 0;
}

static bool chain_met(const struct test *t, struct look *look)
{
    bool met = true;

    if (!t)
        return true;
    switch (t->kind) {
    case TEST_PROGRAM:
        return programs_met(t, look);
    case TEST_PATH:
        return paths_met(t, look);
    case TEST_URL:
        return urls_met(t, look);
    case TEST_CONTENT:
        return contents_met(t, look);
    case TEST_DETECT:
        return signs_met(t, look);
    case TEST_ACTION:
        met = look->scene->action && t->bits >> look->scene->action->type & 1;
        break;
    case TEST_OUTPUT:
        met = look->scene->output != NULL;
        break;
    case TEST_COMPARE:
        met = compare_met(t, look->scene);
        break;
    case TEST_AFTER:
        met = after_met(t, look);
        break;
    case TEST_ALL:
        met = kid_met(t->kids, look, false);
        break;
    case TEST_ANY:
        met = any_met(t->kids, look);
        break;
    case TEST_NOT:
        met = !kid_met(t->kids, look, true);
        break;
    }
    return met && chain_met(t->next, look);
}

bool rule_met(const struct rule *r, struct look *look)
{
    look->call = NULL;
    look->path = NULL;
    look->url = NULL;
    look->content = NULL;
    look->sign = NULL;
    return !is_late(look) && chain_met(r->tests, look);
}

struct part look_part(const struct look *look)
{
    if (look->sign)
        return look->sign->part;
    if (look->call)
        return look->call->part;
    if (look->path)
        return look->path->part;
    if (look->url)
        return look->url->part;
    if (look->content)
        return look->content->part;
    return (struct part){0};
}

/* --- the rules of a policy -------------------------------------------------------------------- */

struct rule *rules_add(struct rules *rules, struct tn_error *err)
{
    struct rule *r = tn_arena_get(rules->pool, sizeof *r);

    if (rules->count == RULES_MAX) {
        tn_fail(err, TN_E_TOO_LARGE, "a policy has %d rules at most", RULES_MAX);
        return NULL;
    }
    r->fact = -1;
    rules->list = pool_grow(rules->pool, rules->list, rules->count, sizeof(struct rule *));
    rules->list[rules->count++] = r;
    return r;
}

uint64_t rules_fact(struct rules *rules, struct rule *r, struct tn_error *err)
{
    if (r->fact < 0 && rules->facts == FACTS_MAX) {
        tn_fail(err, TN_E_TOO_LARGE, "a policy asks for %d earlier rules at most", FACTS_MAX);
        return 0;
    }
    if (r->fact < 0)
        r->fact = rules->facts++;
    return (uint64_t)1 << r->fact;
}

struct rule *rules_find(const struct rules *rules, const char *name)
{
    for (size_t i = 0; i < rules->count; i++) {
        if (strcmp(rules->list[i]->name, name) == 0)
            return rules->list[i];
    }
    return NULL;
}
