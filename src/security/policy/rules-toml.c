/* Rules in TOML: a table [[rule]] for each.  docs/policy.md explains the keys, which are the rows
 * below. */
#include <ctype.h>

#include "base/nearest.h"
#include "security/policy/glob.h"
#include "security/policy/rule.h"

struct reader {
    struct rules *rules;
    const char *file;
    struct rule *rule;    /* the one that is read */
    struct test **end;    /* of its chain */
    struct test *program; /* in it, or NULL */
    struct tn_error *err;
};

static int fail(const struct reader *r, const struct tn_toml *at, const char *fmt, ...)
    TN_PRINTF(3, 4);
static int fail(const struct reader *r, const struct tn_toml *at, const char *fmt, ...)
{
    char text[400];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return tn_fail(r->err, TN_E_INVALID, "%s:%d: %s", r->file, tn_toml_line(at), text);
}

static struct test *add_test(struct reader *r, enum test_kind kind)
{
    struct test *t = tn_arena_get(r->rules->pool, sizeof *t);

    t->kind = kind;
    *r->end = t;
    r->end = &t->next;
    return t;
}

/* --- values ----------------------------------------------------------------------------------- */

/* One text, or a list of texts. */
static int read_texts(struct reader *r, const struct tn_toml *v, const char *key,
                      const char ***items, size_t *count)
{
    bool list = tn_toml_type(v) == TN_TOML_ARRAY;

    *count = list ? tn_toml_count(v) : 1;
    if (!*count)
        return fail(r, v, "%s: expected at least one text", key);
    *items = tn_arena_get(r->rules->pool, *count * sizeof **items);
    for (size_t i = 0; i < *count; i++) {
        const struct tn_toml *item = list ? tn_toml_at(v, i) : v;
        size_t n = 0;
        const char *text = tn_toml_str(item, &n);
        if (!text || tn_toml_type(item) != TN_TOML_STRING)
            return fail(r, v, "%s: expected a text or a list of texts, found %s", key,
                        tn_toml_type_name(item));
        if (!n || strlen(text) != n)
            return fail(r, v, "%s: a text is empty, or has a NUL byte in it", key);
        if (n > GLOB_MAX)
            return fail(r, v, "%s: a pattern has %d bytes at most", key, GLOB_MAX);
        (*items)[i] = tn_arena_copy(r->rules->pool, text, n);
    }
    return 0;
}

/* scheme://host:port/path, where each may be left out; "host" alone is a host. */
static int read_url(struct reader *r, const struct tn_toml *v, char *text, struct url_pattern *p)
{
    char *scheme_end = strstr(text, "://"), *host = scheme_end ? scheme_end + 3 : text;
    char *slash = strchr(host, '/'), *colon;
    long port = 0;

    if (scheme_end)
        *scheme_end = '\0';
    p->scheme = scheme_end && strcmp(text, "*") != 0 ? text : NULL;
    if (slash)
        p->path = pool_strdup(r->rules->pool, slash);
    if (slash)
        *slash = '\0';
    colon = *host == '[' ? strchr(host, ']') : host;
    colon = colon ? strchr(colon, ':') : NULL;
    if (colon) {
        char *end;
        port = strtol(colon + 1, &end, 10);
        if (*end || port < 1 || port > 65535)
            return fail(r, v, "url: '%s' is no port", colon + 1);
        *colon = '\0';
    }
    p->port = (int)port;
    if (*host == '[') { /* IPv6 */
        host++;
        host[strcspn(host, "]")] = '\0';
    }
    for (char *c = host; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    p->host = *host && strcmp(host, "*") != 0 ? host : NULL;
    if (!p->scheme && !p->host && !p->port && !p->path)
        return fail(r, v, "url: '*' is every URL: write '*://*/*' if that is meant");
    return 0;
}

/* --- keys ------------------------------------------------------------------------------------- */

static int read_actions(struct reader *r, const char *key, const struct tn_toml *v)
{
    struct test *t = add_test(r, TEST_ACTION);
    const char **names;

    if (read_texts(r, v, key, &names, &t->count))
        return -1;
    for (size_t i = 0; i < t->count; i++) {
        enum tn_action_type type;
        struct tn_error why = {0};
        if (tn_action_type_from_name(names[i], &type, &why))
            return fail(r, v, "action: %s", why.text);
        t->bits |= (uint64_t)1 << type;
    }
    return 0;
}

static int read_on(struct reader *r, const char *key, const struct tn_toml *v)
{
    const char *word = tn_toml_str(v, NULL);

    if (!word || (strcmp(word, "output") != 0 && strcmp(word, "action") != 0))
        return fail(r, v, "%s: expected \"action\" or \"output\"", key);
    if (strcmp(word, "output") == 0 && !r->rule->quiet)
        return fail(r, v, "on: what a tool returned is no action: only with risk = \"none\"");
    if (strcmp(word, "output") == 0)
        add_test(r, TEST_OUTPUT);
    return 0;
}

static int read_programs(struct reader *r, const char *key, const struct tn_toml *v)
{
    r->program = add_test(r, TEST_PROGRAM);
    return read_texts(r, v, key, &r->program->patterns, &r->program->count);
}

/* Of the program before them, or of any. */
static int read_args(struct reader *r, const char *key, const struct tn_toml *v)
{
    struct test *t = r->program ? r->program : add_test(r, TEST_PROGRAM);

    return read_texts(r, v, key, &t->args, &t->arg_count);
}

static const struct {
    const char *key;
    unsigned use;
} uses[] = {
    {"read", USE_READ},
    {"write", USE_WRITE},
    {"delete", USE_DELETE},
    {"execute", USE_EXECUTE},
    {"path", USE_READ | USE_WRITE | USE_DELETE | USE_EXECUTE},
};

static int read_paths(struct reader *r, const char *key, const struct tn_toml *v)
{
    struct test *t = add_test(r, TEST_PATH);

    for (size_t i = 0; i < TN_COUNT(uses); i++) {
        if (strcmp(uses[i].key, key) == 0)
            t->bits = uses[i].use;
    }
    return read_texts(r, v, key, &t->patterns, &t->count);
}

static int read_urls(struct reader *r, const char *key, const struct tn_toml *v)
{
    struct test *t = add_test(r, TEST_URL);
    const char **texts;
    struct url_pattern *urls;

    if (read_texts(r, v, key, &texts, &t->count))
        return -1;
    t->urls = urls = tn_arena_get(r->rules->pool, t->count * sizeof *urls);
    for (size_t i = 0; i < t->count; i++) {
        if (read_url(r, v, pool_strdup(r->rules->pool, texts[i]), &urls[i]))
            return -1;
    }
    return 0;
}

static int read_content(struct reader *r, const char *key, const struct tn_toml *v)
{
    struct test *t = add_test(r, TEST_CONTENT);

    return read_texts(r, v, key, &t->patterns, &t->count);
}

static int read_fields(struct reader *r, const char *key, const struct tn_toml *v)
{
    if (tn_toml_type(v) != TN_TOML_TABLE || !tn_toml_count(v))
        return fail(r, v, "%s: expected a table such as { name = \"pattern\" }", key);
    for (size_t i = 0; i < tn_toml_count(v); i++) {
        struct test *t = add_test(r, TEST_COMPARE);
        const char **pattern;
        size_t count;
        if (read_texts(r, tn_toml_at(v, i), tn_toml_key_at(v, i, NULL), &pattern, &count))
            return -1;
        if (count != 1)
            return fail(r, v, "field: one pattern each");
        t->compare = COMPARE_GLOB;
        t->left = (struct value){.kind = VALUE_FIELD,
                                 .text = pool_strdup(r->rules->pool, tn_toml_key_at(v, i, NULL))};
        t->right = (struct value){.kind = VALUE_TEXT, .text = pattern[0]};
    }
    return 0;
}

/* "dangerous", or "dangerous:format". */
static int read_detectors(struct reader *r, const char *key, const struct tn_toml *v)
{
    struct test *t = add_test(r, TEST_DETECT);
    const char **names;
    struct wanted *wanted;

    if (read_texts(r, v, key, &names, &t->count))
        return -1;
    t->wanted = wanted = tn_arena_get(r->rules->pool, t->count * sizeof *wanted);
    for (size_t i = 0; i < t->count; i++) {
        size_t n = strcspn(names[i], ":");
        struct tn_nearest near = tn_nearest(names[i]);
        wanted[i].detector = detector_find(names[i], n);
        wanted[i].kind = names[i][n] ? names[i] + n + 1 : NULL;
        for (const struct detector *const *d = detectors; *d; d++)
            tn_nearest_offer(&near, (*d)->name);
        if (!wanted[i].detector)
            return fail(r, v, "detect: there is no detector '%s'%s%s", names[i],
                        near.best ? ": did you mean " : "", near.best ? near.best : "");
        if (wanted[i].kind && !word_in(wanted[i].kind, wanted[i].detector->kinds))
            return fail(r, v, "detect: %s finds: %s; not '%s'", wanted[i].detector->name,
                        wanted[i].detector->kinds, wanted[i].kind);
    }
    return 0;
}

static int read_after(struct reader *r, const char *key, const struct tn_toml *v)
{
    struct test *t = add_test(r, TEST_AFTER);
    const char **names;

    if (read_texts(r, v, key, &names, &t->count))
        return -1;
    for (size_t i = 0; i < t->count; i++) {
        struct rule *before = rules_find(r->rules, names[i]);
        uint64_t bit = before && before != r->rule ? rules_fact(r->rules, before, r->err) : 0;
        if (!before || before == r->rule)
            return fail(r, v, "after: there is no rule '%s' before this one", names[i]);
        if (!bit)
            return -1;
        t->bits |= bit;
    }
    return 0;
}

static int read_unless(struct reader *r, const char *key, const struct tn_toml *v);

/* In the order in which they are tested: what costs most, and the past, last. */
static const struct key {
    const char *name;
    int (*read)(struct reader *r, const char *key, const struct tn_toml *v);
} keys[] = {
    {"on", read_on},
    {"action", read_actions},
    {"program", read_programs},
    {"args", read_args},
    {"read", read_paths},
    {"write", read_paths},
    {"delete", read_paths},
    {"execute", read_paths},
    {"path", read_paths},
    {"url", read_urls},
    {"content", read_content},
    {"field", read_fields},
    {"detect", read_detectors},
    {"unless", read_unless},
    {"after", read_after},
};

/* -1 for a key that is not known, here or among the names of a rule itself. */
static int check_keys(const struct reader *r, const struct tn_toml *table, bool whole)
{
    static const char *const own[] = {"name", "risk", "text"};

    for (size_t i = 0; i < tn_toml_count(table); i++) {
        const char *name = tn_toml_key_at(table, i, NULL);
        struct tn_nearest near = tn_nearest(name);
        bool known = false;
        for (size_t k = 0; k < TN_COUNT(keys); k++) {
            known |= strcmp(keys[k].name, name) == 0;
            tn_nearest_offer(&near, keys[k].name);
        }
        for (size_t k = 0; whole && k < TN_COUNT(own); k++) {
            known |= strcmp(own[k], name) == 0;
            tn_nearest_offer(&near, own[k]);
        }
        if (!known)
            return fail(r, tn_toml_at(table, i), "there is no key '%.60s'%s%s%s", name,
                        near.best ? ": did you mean '" : "", near.best ? near.best : "",
                        near.best ? "'?" : "");
    }
    return 0;
}

static int read_tests(struct reader *r, const struct tn_toml *table)
{
    size_t paths = 0, tests = 0;

    r->program = NULL;
    for (size_t i = 0; i < TN_COUNT(keys); i++) {
        const struct tn_toml *v = tn_toml_get(table, keys[i].name);
        if (!v)
            continue;
        tests++;
        paths += keys[i].read == read_paths;
        if (keys[i].read(r, keys[i].name, v))
            return -1;
    }
    if (paths > 1)
        return fail(r, table, "a rule has one of read, write, delete, execute and path");
    return tests ? 0 : fail(r, table, "it says nothing that an action must be");
}

/* A table, or several of which one is enough. */
static int read_unless(struct reader *r, const char *key, const struct tn_toml *v)
{
    bool list = tn_toml_type(v) == TN_TOML_ARRAY;
    size_t count = list ? tn_toml_count(v) : 1;
    struct test **end = r->end;

    for (size_t i = 0; i < count; i++) {
        const struct tn_toml *table = list ? tn_toml_at(v, i) : v;
        if (!table || tn_toml_type(table) != TN_TOML_TABLE)
            return fail(r, v, "%s: expected a table", key);
        if (check_keys(r, table, false))
            return -1;
        if (tn_toml_get(table, "unless") || tn_toml_get(table, "after"))
            return fail(r, v, "unless: no exceptions of exceptions, and no `after`");
        r->end = end;
        struct test *not = add_test(r, TEST_NOT);
        end = r->end;
        r->end = &not ->kids;
        if (read_tests(r, table))
            return -1;
    }
    r->end = end;
    return 0;
}

static bool name_valid(const char *name)
{
    return *name && strlen(name) < 64 &&
           strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == strlen(name);
}

static int read_rule(struct reader *r, const struct tn_toml *table)
{
    const char *name = tn_toml_get_str(table, "name", ""), *risk, *text;
    struct rule *rule;

    if (tn_toml_type(table) != TN_TOML_TABLE)
        return fail(r, table, "rule: expected a table [[rule]]");
    if (check_keys(r, table, true))
        return -1;
    if (!name_valid(name))
        return fail(r, table, "name: expected small letters, digits and '-', found '%.60s'", name);
    if (rules_find(r->rules, name))
        return fail(r, table, "there are two rules '%s'", name);
    rule = rules_add(r->rules, r->err);
    if (!rule)
        return -1;
    rule->name = pool_strdup(r->rules->pool, name);
    rule->file = r->file;
    rule->line = tn_toml_line(table);
    text = tn_toml_get_str(table, "text", NULL);
    rule->text = text && *text ? pool_strdup(r->rules->pool, text) : NULL;
    if (!rule->text)
        return fail(r, table, "%s: text: expected a sentence for people", name);
    risk = tn_toml_get_str(table, "risk", "");
    rule->quiet = strcmp(risk, "none") == 0;
    if (!rule->quiet && !tn_risk_from_word(risk, strlen(risk), &rule->risk))
        return fail(r, table, "%s: risk: expected low, medium, high, unknown or none", name);
    r->rule = rule;
    r->end = &rule->tests;
    return read_tests(r, table);
}

int rules_from_toml(struct rules *rules, const char *file, const char *text, size_t n,
                    struct tn_error *err)
{
    tn_autotoml struct tn_toml *root = tn_toml_parse(text, n, err);
    struct reader r = {.rules = rules, .file = pool_strdup(rules->pool, file), .err = err};
    const struct tn_toml *list = tn_toml_get(root, "rule");

    if (!root)
        return tn_error_context(err, "%s", file);
    for (size_t i = 0; i < tn_toml_count(root); i++) {
        if (strcmp(tn_toml_key_at(root, i, NULL), "rule") != 0)
            return fail(&r, tn_toml_at(root, i), "there is no key '%.60s': rules are [[rule]]",
                        tn_toml_key_at(root, i, NULL));
    }
    if (list && tn_toml_type(list) != TN_TOML_ARRAY)
        return fail(&r, list, "rules are written [[rule]]");
    for (size_t i = 0; i < tn_toml_count(list); i++) {
        if (read_rule(&r, tn_toml_at(list, i)))
            return -1;
    }
    return 0;
}
