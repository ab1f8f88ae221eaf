#include "hand/mcp/spec.h"

#include <ctype.h>

#include "base/words.h"

enum { LIST_MAX = 4096, TIMEOUT = 60, TIMEOUT_MAX = 3600 };
#define TEXT_MAX ((size_t)1 << 20)

/* --- lists of strings ----------------------------------------------------------------------- */

struct list {
    char **items; /* ended by NULL */
    size_t count;
};

static int add(struct list *l, char *item, struct tn_error *err)
{
    if (l->count == LIST_MAX) {
        free(item);
        return tn_fail(err, TN_E_INVALID, "more than %d of them", LIST_MAX);
    }
    l->items = tn_realloc(l->items, (l->count + 2) * sizeof *l->items);
    l->items[l->count++] = item;
    l->items[l->count] = NULL;
    return 0;
}

static void free_list(char **items)
{
    for (size_t i = 0; items && items[i]; i++)
        free(items[i]);
    free(items);
}

static bool same_list(char **a, char **b)
{
    size_t i = 0;

    while (a && b && a[i] && b[i] && strcmp(a[i], b[i]) == 0)
        i++;
    return (!a || !a[i]) && (!b || !b[i]);
}

/* A text for a program: no NUL may hide in it. */
static const char *text_of(const struct tn_json *v)
{
    size_t n = 0;
    const char *s = tn_json_str(v, &n);

    return s && strlen(s) == n ? s : NULL;
}

/* --- arguments ------------------------------------------------------------------------------ */

static int read_words(struct list *argv, const char *text, struct tn_error *err)
{
    for (const char *at = text; *(at += strspn(at, TN_WORD_SPACE));) {
        tn_autobuf struct tn_buf word = TN_BUF_INIT(TEXT_MAX);
        if (!(at = tn_word_next(at, &word, err)) || add(argv, tn_buf_take(&word), err) < 0)
            return -1;
    }
    return 0;
}

static int read_args(struct list *argv, const struct tn_json *args, struct tn_error *err)
{
    if (text_of(args))
        return read_words(argv, text_of(args), err);
    if (args && tn_json_type(args) != TN_JSON_ARRAY)
        return tn_fail(err, TN_E_INVALID, "expected a list or a text, found %s",
                       tn_json_type_name(args));
    for (size_t i = 0, n = tn_json_count(args); i < n; i++) {
        const char *s = text_of(tn_json_at(args, i));
        if (!s)
            return tn_fail(err, TN_E_INVALID, "expected strings, found %s",
                           tn_json_type_name(tn_json_at(args, i)));
        if (add(argv, tn_strdup(s), err) < 0)
            return -1;
    }
    return 0;
}

/* --- environment ---------------------------------------------------------------------------- */

static bool is_identifier(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c != '_' && !isalpha(c) && !(i > 0 && isdigit(c)))
            return false;
    }
    return n > 0;
}

struct pairs {
    struct list *env;
    struct tn_error *err;
};

static int read_pair(const char *key, struct tn_json *value, void *ctx)
{
    struct pairs *p = ctx;
    const char *s = text_of(value);

    if (!*key || strchr(key, '='))
        return tn_fail(p->err, TN_E_INVALID, "%.60s: expected a name without '='", key);
    if (!s)
        return tn_fail(p->err, TN_E_INVALID, "%.60s: expected text, found %s", key,
                       tn_json_type_name(value));
    return add(p->env, tn_asprintf("%s=%s", key, s), p->err);
}

/* K=V,K=V */
static int read_pair_text(struct list *env, const char *text, struct tn_error *err)
{
    while (*text) {
        size_t n = strcspn(text, ",");
        const char *from = text + strspn(text, " ");
        const char *end = text + n, *equals = from < end ? memchr(from, '=', end - from) : NULL;
        text = end + (*end == ',');
        if (from >= end)
            continue;
        if (!equals || !is_identifier(from, (size_t)(equals - from)))
            return tn_fail(err, TN_E_INVALID, "expected NAME=VALUE,NAME=VALUE,...");
        if (add(env, tn_strndup(from, (size_t)(end - from)), err) < 0)
            return -1;
    }
    return 0;
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int read_env(struct list *env, const struct tn_json *v, struct tn_error *err)
{
    struct pairs p = {.env = env, .err = err};
    int result = 0;

    if (text_of(v))
        result = read_pair_text(env, text_of(v), err);
    else if (!v || tn_json_type(v) == TN_JSON_OBJECT)
        result = tn_json_each(v, read_pair, &p);
    else
        result = tn_fail(err, TN_E_INVALID, "expected an object or a text, found %s",
                         tn_json_type_name(v));
    if (env->count)
        qsort(env->items, env->count, sizeof *env->items, compare);
    return result;
}

/* --- an entry ------------------------------------------------------------------------------- */

static int refuse_unknown(const char *key, struct tn_json *value, void *ctx)
{
    static const char *const members[] = {"name", "command", "args", "env", "timeout"};

    for (size_t i = 0; i < TN_COUNT(members); i++) {
        if (strcmp(members[i], key) == 0)
            return 0;
    }
    return tn_fail(ctx, TN_E_INVALID,
                   "unknown member %.60s: expected name, command, args, env or timeout", key);
}

static int read_members(const struct tn_json *entry, struct mcp_spec *spec, struct tn_error *err)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    const char *name = text_of(tn_json_get(entry, "name"));
    const char *command = text_of(tn_json_get(entry, "command"));
    const struct tn_json *timeout = tn_json_get(entry, "timeout");
    struct list argv = {0}, env = {0};
    int result = 0;

    if (tn_json_type(entry) != TN_JSON_OBJECT)
        return tn_fail(err, TN_E_INVALID, "expected an object, found %s", tn_json_type_name(entry));
    if (tn_json_each(entry, refuse_unknown, err) < 0)
        return -1;
    if (!name || !*name || name[strspn(name, letters)])
        return tn_fail(err, TN_E_INVALID, "name: expected letters, digits, '_' and '-'");
    spec->name = tn_strdup(name);
    if (!command || !*command || strpbrk(command, TN_WORD_SPACE))
        return tn_fail(err, TN_E_INVALID,
                       "command: expected one word (what follows belongs in args)");
    double seconds = timeout ? tn_json_double(timeout, 0) : TIMEOUT;
    if (seconds < 1 || seconds > TIMEOUT_MAX)
        return tn_fail(err, TN_E_INVALID, "timeout: expected seconds from 1 to %d", TIMEOUT_MAX);
    spec->timeout = (int)seconds;
    add(&argv, tn_strdup(command), err);
    if (read_args(&argv, tn_json_get(entry, "args"), err) < 0)
        result = tn_error_context(err, "args");
    else if (read_env(&env, tn_json_get(entry, "env"), err) < 0)
        result = tn_error_context(err, "env");
    spec->argv = argv.items;
    spec->env = env.items;
    return result;
}

int mcp_spec_read(const struct tn_json *entry, struct mcp_spec *spec, struct tn_error *err)
{
    *spec = (struct mcp_spec){0};
    int result = read_members(entry, spec, err);
    if (result < 0)
        mcp_spec_done(spec);
    return result;
}

void mcp_spec_done(struct mcp_spec *spec)
{
    free(spec->name);
    free_list(spec->argv);
    free_list(spec->env);
    *spec = (struct mcp_spec){0};
}

bool mcp_spec_equal(const struct mcp_spec *a, const struct mcp_spec *b)
{
    return strcmp(a->name, b->name) == 0 && a->timeout == b->timeout &&
           same_list(a->argv, b->argv) && same_list(a->env, b->env);
}
