/* Field tables on the command line and in the environment. */
#include <ctype.h>

#include "base/field-member.h"
#include "base/nearest.h"

int tn_fields_from_env(const struct tn_fields *f, void *object, struct tn_error *err)
{
    for (size_t i = 0; i < f->count; i++) {
        const struct tn_field *row = &f->rows[i];
        if (row->type == TN_FIELD_OBJECT &&
            tn_fields_from_env(row->fields, FIELD_MEMBER(void, row, object), err) < 0)
            return -1;
        const char *text = row->env ? getenv(row->env) : NULL;
        if (!text || !*text)
            continue;
        bool lax = row->flags & TN_FIELD_LAX;
        if (tn_field_from_text(row, object, text, lax ? NULL : err) == 0)
            continue;
        if (!lax)
            return tn_error_context(err, "%s", row->env);
        if (row->type == TN_FIELD_BOOL)
            *FIELD_MEMBER(bool, row, object) = false;
    }
    return 0;
}

/* --- arguments ------------------------------------------------------------------------- */

struct target {
    const struct tn_field *row;
    void *object;
};

struct args {
    char *const *argv;
    int argc, at;
    const struct tn_field **lists; /* those already mentioned */
    size_t list_count;
    struct tn_error *err;
};

/* Visits the rows with a flag, those of nested tables too; stops when fn answers true. */
static bool visit(const struct tn_fields *f, void *object, tn_flag_fn fn, void *ctx)
{
    for (size_t i = 0; i < f->count; i++) {
        const struct tn_field *row = &f->rows[i];
        void *inner = object ? FIELD_MEMBER(void, row, object) : NULL;
        if (row->type == TN_FIELD_OBJECT && visit(row->fields, inner, fn, ctx))
            return true;
        if ((row->flag || row->letter) && fn(row, object, ctx))
            return true;
    }
    return false;
}

struct search {
    const char *name; /* "--flag" without its value */
    char letter;
    bool negated;
    struct target found;
    struct tn_nearest near;
};

static bool match(const struct tn_field *row, void *object, void *ctx)
{
    struct search *s = ctx;

    if (s->letter) {
        if (row->letter != s->letter)
            return false;
    } else {
        if (!row->flag)
            return false;
        tn_nearest_offer(&s->near, row->flag);
        s->negated = row->type == TN_FIELD_BOOL && strncmp(s->name, "--no-", 5) == 0 &&
                     strcmp(s->name + 5, row->flag + 2) == 0;
        if (!s->negated && strcmp(s->name, row->flag) != 0)
            return false;
    }
    s->found = (struct target){.row = row, .object = object};
    return true;
}

static int unknown_flag(const struct search *s, struct tn_error *err)
{
    if (s->letter)
        return tn_fail(err, TN_E_INVALID, "unknown flag -%c", s->letter);
    if (s->near.best)
        return tn_fail(err, TN_E_INVALID, "unknown flag %.60s; did you mean %s?", s->name,
                       s->near.best);
    return tn_fail(err, TN_E_INVALID, "unknown flag %.60s", s->name);
}

/* Flags start with '-'; a lone "-" and negative numbers do not count. */
static bool looks_like_flag(const char *arg)
{
    return arg[0] == '-' && arg[1] && !isdigit((unsigned char)arg[1]) &&
           !(arg[1] == '.' && isdigit((unsigned char)arg[2]));
}

/* True when the list or map was mentioned before. */
static bool mentioned(struct args *a, const struct tn_field *row)
{
    for (size_t i = 0; i < a->list_count; i++)
        if (a->lists[i] == row)
            return true;
    a->lists[a->list_count++] = row;
    return false;
}

/* NAME=VALUE; or NAME alone, whose value stands in the environment. */
static int add_pair(const struct target *t, const char *text, struct tn_error *err)
{
    size_t n = strcspn(text, "=");
    const char *value = text[n] ? text + n + 1 : NULL;

    if (n == 0)
        return tn_fail(err, TN_E_UNPROCESSABLE, "expected NAME=VALUE, found no name");
    if (!value && !(t->row->flags & TN_FIELD_ENVIRON))
        return tn_fail(err, TN_E_UNPROCESSABLE, "expected NAME=VALUE, found '%.60s'", text);
    if (!value && !(value = getenv(text)))
        return tn_fail(err, TN_E_UNPROCESSABLE,
                       "expected NAME=VALUE or the name of a variable of the environment, but "
                       "'%.60s' is not set",
                       text);
    return tn_field_put_pair(t->row, t->object, text, n, value, err);
}

/* Appends to a list or map, which is emptied when it is mentioned for the first time. */
static int add_value(struct args *a, const struct target *t, const char *text)
{
    bool again = mentioned(a, t->row), commas = t->row->flags & TN_FIELD_COMMAS;

    if (t->row->type == TN_FIELD_JSON) {
        if (!again)
            tn_field_clear(t->row, t->object);
        return add_pair(t, text, a->err);
    }
    if (!again && tn_field_set_list(t->row, t->object, 0, a->err) < 0)
        return -1;
    if (t->row->type == TN_FIELD_INTS)
        return tn_field_add_ints(t->row, t->object, text, a->err);
    if (commas && !*text)
        return 0;
    do {
        size_t n = commas ? strcspn(text, ",") : strlen(text);
        if (tn_field_add_string(t->row, t->object, text, n, a->err) < 0)
            return -1;
        text += n;
    } while (*text++);
    return 0;
}

static bool grows(const struct tn_field *row, const char *text)
{
    return row->type == TN_FIELD_STRINGS || (row->type == TN_FIELD_INTS && text[0] != '[') ||
           (row->type == TN_FIELD_JSON && row->flags & TN_FIELD_MAP && text[0] != '{');
}

/* Sets the field, or appends when it is a list or a map. */
static int put_value(struct args *a, const struct target *t, const char *shown, const char *text)
{
    int result = grows(t->row, text) ? add_value(a, t, text)
                                     : tn_field_from_text(t->row, t->object, text, a->err);

    return result < 0 ? tn_error_context(a->err, "%s", shown) : 0;
}

static int put_bool(struct args *a, const struct search *s, const char *shown, const char *value)
{
    if (!value)
        value = s->negated ? "false" : "true";
    else if (s->negated)
        return tn_fail(a->err, TN_E_INVALID, "%s takes no value", shown);
    return put_value(a, &s->found, shown, value);
}

/* One flag and the values that belong to it. */
static int read_flag(struct args *a, const struct tn_fields *f, void *object)
{
    const char *arg = a->argv[a->at++];
    const char *equals = strchr(arg, '=');
    bool is_long = arg[1] == '-';
    tn_autofree char *name =
        is_long && equals ? tn_strndup(arg, (size_t)(equals - arg)) : tn_strdup(arg);
    const char *value = is_long && equals ? equals + 1 : NULL;
    struct search s = {
        .name = name,
        .letter = is_long ? '\0' : arg[1],
        .near = tn_nearest(name),
    };

    if (!is_long && arg[2])
        return tn_fail(a->err, TN_E_INVALID, "unknown flag %.60s (a letter's value stands apart)",
                       arg);
    if (!visit(f, object, match, &s))
        return unknown_flag(&s, a->err);
    if (s.found.row->type == TN_FIELD_BOOL)
        return put_bool(a, &s, name, value);
    if (!value) {
        if (a->at >= a->argc || looks_like_flag(a->argv[a->at]))
            return tn_fail(a->err, TN_E_INVALID, "%s needs a value%s", name,
                           a->at < a->argc && is_long ? " (with '=' if it starts with a dash)"
                                                      : "");
        value = a->argv[a->at++];
    }
    if (put_value(a, &s.found, name, value) < 0)
        return -1;
    if (s.found.row->flags & TN_FIELD_MANY && s.found.row->type == TN_FIELD_STRINGS)
        while (a->at < a->argc && !looks_like_flag(a->argv[a->at]))
            if (put_value(a, &s.found, name, a->argv[a->at++]) < 0)
                return -1;
    return 0;
}

static const struct tn_field *next_positional(const struct tn_fields *f, size_t *index)
{
    for (; *index < f->count; (*index)++)
        if (f->rows[*index].flags & (TN_FIELD_POSITIONAL | TN_FIELD_REST))
            return &f->rows[*index];
    return NULL;
}

const char *tn_field_value_name(const struct tn_field *row)
{
    if (row->value)
        return row->value;
    switch (row->type) {
    case TN_FIELD_INT:
    case TN_FIELD_OPT_INT:
    case TN_FIELD_DOUBLE:
    case TN_FIELD_OPT_DOUBLE:
        return "N";
    case TN_FIELD_WORD:
        return "WORD";
    case TN_FIELD_JSON:
        return row->flags & TN_FIELD_MAP ? "NAME=VALUE" : "JSON";
    case TN_FIELD_INTS:
    case TN_FIELD_OBJECT:
        return "JSON";
    case TN_FIELD_STRING:
    case TN_FIELD_TEXT:
    case TN_FIELD_BOOL:
    case TN_FIELD_STRINGS:
        break;
    }
    return row->flags & (TN_FIELD_POSITIONAL | TN_FIELD_REST) ? row->name : "TEXT";
}

static int read_all(struct args *a, const struct tn_fields *f, void *object)
{
    bool flags_over = false;
    size_t position = 0;

    while (a->at < a->argc) {
        const char *arg = a->argv[a->at];
        if (!flags_over && strcmp(arg, "--") == 0) {
            flags_over = true;
            a->at++;
            continue;
        }
        if (!flags_over && (strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0))
            return 1;
        if (!flags_over && looks_like_flag(arg)) {
            if (read_flag(a, f, object) < 0)
                return -1;
            continue;
        }
        struct target t = {.row = next_positional(f, &position), .object = object};
        if (!t.row)
            return tn_fail(a->err, TN_E_INVALID, "unexpected argument '%.60s'", arg);
        if (put_value(a, &t, tn_field_value_name(t.row), arg) < 0)
            return -1;
        a->at++;
        flags_over |= (t.row->flags & TN_FIELD_REST) != 0;
        if (t.row->type != TN_FIELD_STRINGS)
            position++;
    }
    return 0;
}

int tn_fields_from_argv(const struct tn_fields *f, void *object, int argc, char *const *argv,
                        struct tn_error *err)
{
    struct args a = {.argv = argv, .argc = argc, .err = err};

    a.lists = tn_calloc((size_t)argc, sizeof *a.lists);
    int result = read_all(&a, f, object);
    free(a.lists);
    return result;
}

/* --- help ------------------------------------------------------------------------------ */

#define HELP_COLUMN 32

static void put_row(struct tn_buf *out, size_t start, const struct tn_field *row)
{
    size_t used = out->len - start;

    if (used >= HELP_COLUMN) {
        tn_buf_putc(out, '\n');
        used = 0;
    }
    tn_buf_printf(out, "%*s%s", (int)(HELP_COLUMN - used), "", row->help ? row->help : "");
    if (row->words && row->type != TN_FIELD_BOOL) {
        tn_buf_puts(out, " (");
        for (size_t i = 0; row->words[i]; i++)
            tn_buf_printf(out, "%s%s", i > 0 ? ", " : "", row->words[i]);
        tn_buf_putc(out, ')');
    }
    if (row->fallback && *row->fallback && !(row->flags & TN_FIELD_SECRET))
        tn_buf_printf(out, " [default: %s]", row->fallback);
    if (row->env)
        tn_buf_printf(out, " [env: %s]", row->env);
    tn_buf_putc(out, '\n');
}

static bool put_flag(const struct tn_field *row, void *object, void *ctx)
{
    struct tn_buf *out = ctx;
    size_t start = out->len;
    bool many = row->type == TN_FIELD_STRINGS && row->flags & TN_FIELD_MANY;

    if (row->letter)
        tn_buf_printf(out, "  -%c%s", row->letter, row->flag ? ", " : "");
    else
        tn_buf_puts(out, "      ");
    if (row->flag && row->type == TN_FIELD_BOOL)
        tn_buf_printf(out, "--[no-]%s", row->flag + 2);
    else
        tn_buf_puts(out, row->flag ? row->flag : "");
    if (row->type != TN_FIELD_BOOL)
        tn_buf_printf(out, " %s%s", tn_field_value_name(row), many ? "..." : "");
    put_row(out, start, row);
    return false;
}

static void put_usage(const struct tn_fields *f, const char *program, struct tn_buf *out)
{
    tn_buf_printf(out, "Usage: %s [OPTIONS]", program);
    for (size_t i = 0; i < f->count; i++) {
        const struct tn_field *row = &f->rows[i];
        if (!(row->flags & (TN_FIELD_POSITIONAL | TN_FIELD_REST)))
            continue;
        const char *dots = row->type == TN_FIELD_STRINGS ? "..." : "";
        bool optional = !(row->flags & TN_FIELD_REQUIRED);
        tn_buf_printf(out, " %s%s%s%s", optional ? "[" : "", tn_field_value_name(row), dots,
                      optional ? "]" : "");
    }
    tn_buf_putc(out, '\n');
}

void tn_fields_help(const struct tn_fields *f, const char *program, struct tn_buf *out)
{
    bool heading = false;

    put_usage(f, program, out);
    for (size_t i = 0; i < f->count; i++) {
        const struct tn_field *row = &f->rows[i];
        if (!(row->flags & (TN_FIELD_POSITIONAL | TN_FIELD_REST)))
            continue;
        if (!heading)
            tn_buf_puts(out, "\nArguments:\n");
        heading = true;
        size_t start = out->len;
        tn_buf_printf(out, "  %s", tn_field_value_name(row));
        put_row(out, start, row);
    }
    tn_buf_puts(out, "\nOptions:\n");
    visit(f, NULL, put_flag, out);
    tn_buf_printf(out, "  -h, --help%*s%s\n", HELP_COLUMN - 12, "", "print this and stop");
}

void tn_fields_help_flags(const struct tn_fields *f, struct tn_buf *out)
{
    visit(f, NULL, put_flag, out);
}

bool tn_fields_each_flag(const struct tn_fields *f, tn_flag_fn fn, void *ctx)
{
    return visit(f, NULL, fn, ctx);
}
