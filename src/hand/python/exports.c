#include "hand/python/exports.h"

#include <ctype.h>

enum { VALUE_MAX = 4 << 20 };

/* --- words ---------------------------------------------------------------------------------- */

static const char *take_single(const char *p, struct tn_buf *out)
{
    const char *end = strchrnul(p, '\'');

    tn_buf_add(out, p, (size_t)(end - p));
    return end + (*end != '\0');
}

static const char *take_double(const char *p, struct tn_buf *out)
{
    for (; *p && *p != '"'; p++) {
        if (*p == '\\' && p[1] && strchr("\\\"$`\n", p[1]))
            p++;
        tn_buf_putc(out, *p);
    }
    return p + (*p != '\0');
}

/* The inside of $'...'. */
static const char *take_ansi(const char *p, struct tn_buf *out)
{
    static const char letters[] = "abeEfnrtv", meant[] = "\a\b\033\033\f\n\r\t\v";

    for (; *p && *p != '\''; p++) {
        if (*p != '\\' || !p[1]) {
            tn_buf_putc(out, *p);
            continue;
        }
        const char *letter = strchr(letters, *++p);
        if (letter) {
            tn_buf_putc(out, meant[letter - letters]);
        } else if (*p >= '0' && *p <= '7') {
            int value = 0, digits = 0;
            for (; digits < 3 && p[digits] >= '0' && p[digits] <= '7'; digits++)
                value = value * 8 + (p[digits] - '0');
            tn_buf_putc(out, (char)value);
            p += digits - 1;
        } else {
            tn_buf_putc(out, *p);
        }
    }
    return p + (*p != '\0');
}

/* Appends one word without its quotes, and returns what follows it. */
static const char *take_word(const char *p, struct tn_buf *out)
{
    while (*p && *p != '\n') {
        if (*p == '\'')
            p = take_single(p + 1, out);
        else if (*p == '"')
            p = take_double(p + 1, out);
        else if (p[0] == '$' && p[1] == '\'')
            p = take_ansi(p + 2, out);
        else if (p[0] == '\\' && p[1]) {
            tn_buf_putc(out, p[1]);
            p += 2;
        } else {
            tn_buf_putc(out, *p++);
        }
    }
    return p;
}

/* --- functions ------------------------------------------------------------------------------ */

/* The length of the name when a definition starts at *p, which is moved to the name; else 0. */
static size_t function_name(const char **p)
{
    static const char keyword[] = "function "; /* before a name that is a word of the grammar */
    const char *name = *p;

    if (strncmp(name, keyword, strlen(keyword)) == 0)
        name += strlen(keyword);
    size_t n = strcspn(name, " =\n");
    if (strncmp(name + n, " () \n{", 6) != 0)
        return 0;
    *p = name;
    return n;
}

/* The line `declare -fx NAME` after a definition, or NULL.  The text of a here-document may have
 * such a line too, but then no other definition follows, nor the end. */
static const char *function_end(const char *p, const char *name, size_t n, const char **rest)
{
    static const char mark[] = "\ndeclare -f";

    while ((p = strstr(p, mark))) {
        const char *end = p;
        p += strlen(mark);
        const char *word = p + strcspn(p, " \n") + 1;
        if (word[-1] != ' ' || strncmp(word, name, n) != 0 || word[n] != '\n')
            continue;
        const char *next = *rest = word + n;
        next++;
        if (!*next || function_name(&next))
            return end;
    }
    return NULL;
}

/* Appends the assignment by which bash hands on the function that is defined at p, and returns what
 * follows; NULL: there is none. */
static const char *take_function(const char *p, struct tn_buf *out)
{
    const char *rest, *name = p;
    size_t n = function_name(&name);

    if (!n)
        return NULL;
    const char *body = name + n + strlen(" () \n"), *end = function_end(body, name, n, &rest);
    if (!end)
        return p + strlen(p); /* cut off: nothing after it makes sense */
    tn_buf_printf(out, "BASH_FUNC_%.*s%%%%=() ", (int)n, name);
    tn_buf_add(out, body, (size_t)(end - body));
    return rest;
}

/* --- lists ---------------------------------------------------------------------------------- */

static size_t count(char *const *exports)
{
    size_t n = 0;

    while (exports[n])
        n++;
    return n;
}

static size_t name_length(const char *p)
{
    size_t n = 0;

    while (isalnum((unsigned char)p[n]) || p[n] == '_')
        n++;
    return isdigit((unsigned char)*p) ? 0 : n;
}

/* Appends the variable that a line is about unless it is an array or has no value; a line may also
 * be left of a function whose name no variable can hold. */
static const char *take_variable(const char *p, struct tn_buf *out)
{
    bool plain = true;

    p += strcspn(p, " \n"); /* `declare` or `export` */
    p += strspn(p, " ");
    if (*p == '-') { /* attributes */
        size_t flags = strcspn(p, " \n");
        plain = !memchr(p, 'a', flags) && !memchr(p, 'A', flags) && !memchr(p, 'f', flags);
        p += flags;
        p += strspn(p, " ");
    }
    size_t name = name_length(p);
    bool assigned = name && p[name] == '=';
    p = take_word(p, out);
    if (!assigned || !plain)
        tn_buf_reset(out);
    return p;
}

char **exports_parse(const char *listing)
{
    tn_autobuf struct tn_buf entry = TN_BUF_INIT(VALUE_MAX);
    char **exports = tn_calloc(1, sizeof *exports);
    size_t n = 0, room = 1;

    for (const char *p = listing; *p; p += *p == '\n') {
        tn_buf_reset(&entry);
        const char *rest = take_function(p, &entry);
        p = rest ? rest : take_variable(p, &entry);
        if (!entry.len || !tn_buf_ok(&entry) || strlen(tn_buf_str(&entry)) != entry.len)
            continue;
        if (n + 1 == room)
            exports = tn_realloc(exports, (room *= 2) * sizeof *exports);
        exports[n++] = tn_strdup(tn_buf_str(&entry));
    }
    exports[n] = NULL;
    return exports;
}

void exports_free(char **exports)
{
    for (size_t i = 0; exports && exports[i]; i++)
        free(exports[i]);
    free(exports);
}

static char **find(char *const *exports, const char *name, size_t len)
{
    for (size_t i = 0; exports[i]; i++) {
        if (strncmp(exports[i], name, len) == 0 && exports[i][len] == '=')
            return (char **)&exports[i];
    }
    return NULL;
}

const char *exports_get(char *const *exports, const char *name)
{
    char **entry = find(exports, name, strlen(name));
    return entry ? *entry + strlen(name) + 1 : NULL;
}

void exports_set(char ***exports, const char *name, const char *value)
{
    char **entry = find(*exports, name, strlen(name));

    if (!entry) {
        size_t n = count(*exports);
        *exports = tn_realloc(*exports, (n + 2) * sizeof **exports);
        (*exports)[n] = (*exports)[n + 1] = NULL;
        entry = &(*exports)[n];
    }
    free(*entry);
    *entry = tn_asprintf("%s=%s", name, value);
}

/* --- changes -------------------------------------------------------------------------------- */

static bool is_the_shells_own(const char *name)
{
    static const char *const own[] = {"_", "OLDPWD", "SHLVL", "TENDON_HAND"};

    for (size_t i = 0; i < TN_COUNT(own); i++) {
        if (strcmp(own[i], name) == 0)
            return true;
    }
    return false;
}

/* Of entries: their names, which end with "=". */
static int by_name(const void *a, const void *b)
{
    const char *p = *(char *const *)a, *q = *(char *const *)b;

    while (*p == *q && *p && *p != '=')
        p++, q++;
    return (*p == '=' ? 0 : (unsigned char)*p) - (*q == '=' ? 0 : (unsigned char)*q);
}

/* To search in: a shell may export a hundred thousand. */
struct index {
    char **entries;
    size_t count;
};

static struct index index_of(char *const *exports)
{
    struct index x = {.count = count(exports)};

    x.entries = tn_calloc(x.count + 1, sizeof *x.entries);
    memcpy(x.entries, exports, x.count * sizeof *x.entries);
    qsort(x.entries, x.count, sizeof *x.entries, by_name);
    return x;
}

static const char *look_up(const struct index *x, const char *entry)
{
    char **found = bsearch(&entry, x->entries, x->count, sizeof *x->entries, by_name);

    return found ? *found : NULL;
}

void exports_put_changes(char *const *before, char *const *after, struct tn_jw *w)
{
    struct index old = index_of(before), new = index_of(after);

    for (size_t i = 0; after[i]; i++) {
        size_t len = strcspn(after[i], "=");
        tn_autofree char *name = tn_strndup(after[i], len);
        const char *was = look_up(&old, after[i]);
        if (!is_the_shells_own(name) && (!was || strcmp(was, after[i]) != 0))
            tn_jw_kstr(w, name, after[i] + len + 1);
    }
    for (size_t i = 0; before[i]; i++) {
        tn_autofree char *name = tn_strndup(before[i], strcspn(before[i], "="));
        if (!is_the_shells_own(name) && !look_up(&new, before[i]))
            tn_jw_knull(w, name);
    }
    free(old.entries);
    free(new.entries);
}
