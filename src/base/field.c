#include "base/field.h"

#include <assert.h>
#include <math.h>

#include "base/field-member.h"

const struct tn_field *tn_fields_find(const struct tn_fields *f, const char *name)
{
    for (size_t i = 0; i < f->count; i++)
        if (strcmp(f->rows[i].name, name) == 0)
            return &f->rows[i];
    return NULL;
}

/* --- what a field takes ---------------------------------------------------------------- */

static void put_limit(struct tn_buf *out, double limit)
{
    if (fabs(limit) < 1e15 && (double)(long long)limit == limit)
        tn_buf_printf(out, "%lld", (long long)limit);
    else
        tn_buf_printf(out, "%g", limit);
}

static void put_range(const struct tn_field *row, struct tn_buf *out)
{
    if (row->min == 0 && row->max == 0)
        return;
    if (isinf(row->max)) {
        tn_buf_puts(out, " of at least ");
        put_limit(out, row->min);
        return;
    }
    tn_buf_puts(out, " from ");
    put_limit(out, row->min);
    tn_buf_puts(out, " to ");
    put_limit(out, row->max);
}

static void put_words(const struct tn_field *row, struct tn_buf *out)
{
    for (size_t i = 0; row->words[i]; i++)
        tn_buf_printf(out, "%s%s", i > 0 ? ", " : "", row->words[i]);
}

void tn_field_put_kind(const struct tn_field *row, struct tn_buf *out)
{
    switch (row->type) {
    case TN_FIELD_STRING:
    case TN_FIELD_TEXT:
    case TN_FIELD_WORD:
        tn_buf_puts(out, row->words ? "one of " : "a string");
        if (row->words)
            put_words(row, out);
        break;
    case TN_FIELD_BOOL:
        tn_buf_puts(out, "true or false");
        break;
    case TN_FIELD_INT:
    case TN_FIELD_OPT_INT:
        tn_buf_puts(out, "an integer");
        put_range(row, out);
        break;
    case TN_FIELD_DOUBLE:
    case TN_FIELD_OPT_DOUBLE:
        tn_buf_puts(out, "a number");
        put_range(row, out);
        break;
    case TN_FIELD_STRINGS:
        tn_buf_puts(out, row->words ? "a list of " : "a list of strings");
        if (row->words)
            put_words(row, out);
        break;
    case TN_FIELD_INTS:
        tn_buf_puts(out, "a list of integers");
        break;
    case TN_FIELD_JSON:
        tn_buf_puts(out, row->flags & TN_FIELD_LIST  ? "a list"
                         : row->flags & TN_FIELD_MAP ? "an object"
                                                     : "any value");
        break;
    case TN_FIELD_OBJECT:
        tn_buf_puts(out, "an object");
        break;
    }
    if (row->flags & TN_FIELD_NULLABLE)
        tn_buf_puts(out, row->words ? ", or null" : " or null");
}

int tn_field_mismatch(const struct tn_field *row, struct tn_error *err, const char *found, ...)
{
    tn_autobuf struct tn_buf kind = TN_BUF_INIT(400);
    char what[100];
    va_list ap;

    if (!err)
        return -1;
    va_start(ap, found);
    vsnprintf(what, sizeof what, found, ap);
    va_end(ap);
    tn_field_put_kind(row, &kind);
    return tn_fail(err, TN_E_UNPROCESSABLE, "expected %s, found %s", tn_buf_str(&kind),
                   row->flags & TN_FIELD_SECRET ? "something else" : what);
}

static int no_memory(struct tn_error *err)
{
    return tn_fail(err, TN_E_TOO_LARGE, "out of memory");
}

/* --- setters --------------------------------------------------------------------------- */

bool tn_field_is_null(const struct tn_field *row, const void *object)
{
    switch (row->type) {
    case TN_FIELD_STRING:
        return !*FIELD_MEMBER(char *, row, object);
    case TN_FIELD_TEXT:
        return !FIELD_MEMBER(struct tn_text, row, object)->data;
    case TN_FIELD_OPT_INT:
        return !FIELD_MEMBER(struct tn_opt_int, row, object)->set;
    case TN_FIELD_OPT_DOUBLE:
        return !FIELD_MEMBER(struct tn_opt_double, row, object)->set;
    case TN_FIELD_STRINGS:
        return !FIELD_MEMBER(struct tn_str_list, row, object)->items;
    case TN_FIELD_INTS:
        return !FIELD_MEMBER(struct tn_int_list, row, object)->items;
    case TN_FIELD_JSON:
        return !*FIELD_MEMBER(struct tn_json *, row, object);
    case TN_FIELD_WORD:
        return *FIELD_MEMBER(int, row, object) < 0;
    case TN_FIELD_BOOL:
    case TN_FIELD_INT:
    case TN_FIELD_DOUBLE:
    case TN_FIELD_OBJECT:
        return false;
    }
    return false;
}

bool tn_str_list_has(const struct tn_str_list *list, const char *text)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->items[i], text) == 0)
            return true;
    return false;
}

static void free_strings(struct tn_str_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->items[i]);
    free(list->items);
    *list = (struct tn_str_list){0};
}

void tn_field_clear(const struct tn_field *row, void *object)
{
    switch (row->type) {
    case TN_FIELD_STRING: {
        char **s = FIELD_MEMBER(char *, row, object);
        if (*s && row->flags & TN_FIELD_SECRET)
            explicit_bzero(*s, strlen(*s));
        free(TN_TAKE_PTR(*s));
        break;
    }
    case TN_FIELD_TEXT:
        free(FIELD_MEMBER(struct tn_text, row, object)->data);
        *FIELD_MEMBER(struct tn_text, row, object) = (struct tn_text){0};
        break;
    case TN_FIELD_BOOL:
        *FIELD_MEMBER(bool, row, object) = false;
        break;
    case TN_FIELD_INT:
        *FIELD_MEMBER(int64_t, row, object) = 0;
        break;
    case TN_FIELD_DOUBLE:
        *FIELD_MEMBER(double, row, object) = 0;
        break;
    case TN_FIELD_OPT_INT:
        *FIELD_MEMBER(struct tn_opt_int, row, object) = (struct tn_opt_int){0};
        break;
    case TN_FIELD_OPT_DOUBLE:
        *FIELD_MEMBER(struct tn_opt_double, row, object) = (struct tn_opt_double){0};
        break;
    case TN_FIELD_STRINGS:
        free_strings(FIELD_MEMBER(struct tn_str_list, row, object));
        break;
    case TN_FIELD_INTS:
        free(FIELD_MEMBER(struct tn_int_list, row, object)->items);
        *FIELD_MEMBER(struct tn_int_list, row, object) = (struct tn_int_list){0};
        break;
    case TN_FIELD_JSON:
        tn_json_free(TN_TAKE_PTR(*FIELD_MEMBER(struct tn_json *, row, object)));
        break;
    case TN_FIELD_WORD:
        *FIELD_MEMBER(int, row, object) = -1;
        break;
    case TN_FIELD_OBJECT:
        tn_fields_done(row->fields, FIELD_MEMBER(void, row, object));
        break;
    }
}

/* The index of s among the words, or -1. */
static int word_index(const struct tn_field *row, const char *s, size_t n)
{
    for (int i = 0; row->words[i]; i++)
        if (strlen(row->words[i]) == n && memcmp(row->words[i], s, n) == 0)
            return i;
    return -1;
}

/* A copy of the item for a member, or NULL with err. */
static char *checked_copy(const struct tn_field *row, const char *s, size_t n, struct tn_error *err)
{
    if (row->words && word_index(row, s, n) < 0) {
        tn_field_mismatch(row, err, "'%.*s'", (int)(n < 60 ? n : 60), s);
        return NULL;
    }
    if (row->type != TN_FIELD_TEXT && memchr(s, '\0', n)) {
        tn_field_mismatch(row, err, "one with a NUL byte");
        return NULL;
    }
    char *copy = malloc(n + 1);
    if (!copy) {
        no_memory(err);
        return NULL;
    }
    memcpy(copy, s, n);
    copy[n] = '\0';
    return copy;
}

int tn_field_set_string(const struct tn_field *row, void *object, const char *s, size_t n,
                        struct tn_error *err)
{
    if (row->type == TN_FIELD_WORD) {
        int index = word_index(row, s, n);
        if (index < 0)
            return tn_field_mismatch(row, err, "'%.*s'", (int)(n < 60 ? n : 60), s);
        *FIELD_MEMBER(int, row, object) = index;
        return 0;
    }
    char *copy = checked_copy(row, s, n, err);
    if (!copy)
        return -1;
    tn_field_clear(row, object);
    if (row->type == TN_FIELD_TEXT)
        *FIELD_MEMBER(struct tn_text, row, object) = (struct tn_text){.data = copy, .len = n};
    else
        *FIELD_MEMBER(char *, row, object) = copy;
    return 0;
}

static bool in_range(const struct tn_field *row, double value)
{
    return (row->min == 0 && row->max == 0) || (value >= row->min && value <= row->max);
}

int tn_field_set_int(const struct tn_field *row, void *object, int64_t value, struct tn_error *err)
{
    if (!in_range(row, (double)value))
        return tn_field_mismatch(row, err, "%lld", (long long)value);
    if (row->type == TN_FIELD_OPT_INT)
        *FIELD_MEMBER(struct tn_opt_int, row, object) =
            (struct tn_opt_int){.set = true, .value = value};
    else
        *FIELD_MEMBER(int64_t, row, object) = value;
    return 0;
}

int tn_field_set_double(const struct tn_field *row, void *object, double value,
                        struct tn_error *err)
{
    if (!in_range(row, value))
        return tn_field_mismatch(row, err, "%g", value);
    if (row->type == TN_FIELD_OPT_DOUBLE)
        *FIELD_MEMBER(struct tn_opt_double, row, object) =
            (struct tn_opt_double){.set = true, .value = value};
    else
        *FIELD_MEMBER(double, row, object) = value;
    return 0;
}

int tn_field_set_json(const struct tn_field *row, void *object, struct tn_json *value,
                      struct tn_error *err)
{
    enum tn_json_type type = tn_json_type(value);

    if ((row->flags & TN_FIELD_LIST && type != TN_JSON_ARRAY) ||
        (row->flags & TN_FIELD_MAP && type != TN_JSON_OBJECT))
        return tn_field_mismatch(row, err, "%s", tn_json_type_name(value));
    struct tn_json *own = tn_json_ref(value);
    tn_field_clear(row, object);
    *FIELD_MEMBER(struct tn_json *, row, object) = own;
    return 0;
}

int tn_field_set_list(const struct tn_field *row, void *object, size_t count, struct tn_error *err)
{
    bool strings = row->type == TN_FIELD_STRINGS;
    void *items = calloc(count + 1, strings ? sizeof(char *) : sizeof(int64_t));

    if (!items)
        return no_memory(err);
    tn_field_clear(row, object);
    if (strings)
        FIELD_MEMBER(struct tn_str_list, row, object)->items = items;
    else
        FIELD_MEMBER(struct tn_int_list, row, object)->items = items;
    return 0;
}

int tn_field_add_string(const struct tn_field *row, void *object, const char *s, size_t n,
                        struct tn_error *err)
{
    struct tn_str_list *list = FIELD_MEMBER(struct tn_str_list, row, object);
    char *copy = checked_copy(row, s, n, err);

    if (!copy)
        return -1;
    list->items = tn_realloc(list->items, (list->count + 2) * sizeof *list->items);
    list->items[list->count++] = copy;
    list->items[list->count] = NULL;
    return 0;
}

/* --- the struct ------------------------------------------------------------------------ */

void tn_field_default(const struct tn_field *row, void *object)
{
    /* NULL stands for the default of a tree: no need to parse it each time. */
    if (!row->fallback || row->type == TN_FIELD_JSON)
        return;
    int result = tn_field_from_text(row, object, row->fallback, NULL);
    assert(result == 0 && "a default must be valid");
    (void)result;
}

void tn_fields_defaults(const struct tn_fields *f, void *object)
{
    for (size_t i = 0; i < f->count; i++) {
        const struct tn_field *row = &f->rows[i];
        if (row->type == TN_FIELD_OBJECT) {
            tn_fields_defaults(row->fields, FIELD_MEMBER(void, row, object));
            continue;
        }
        static const size_t size_of[] = {
            [TN_FIELD_STRING] = sizeof(char *),
            [TN_FIELD_TEXT] = sizeof(struct tn_text),
            [TN_FIELD_BOOL] = sizeof(bool),
            [TN_FIELD_INT] = sizeof(int64_t),
            [TN_FIELD_DOUBLE] = sizeof(double),
            [TN_FIELD_OPT_INT] = sizeof(struct tn_opt_int),
            [TN_FIELD_OPT_DOUBLE] = sizeof(struct tn_opt_double),
            [TN_FIELD_STRINGS] = sizeof(struct tn_str_list),
            [TN_FIELD_INTS] = sizeof(struct tn_int_list),
            [TN_FIELD_JSON] = sizeof(struct tn_json *),
            [TN_FIELD_WORD] = sizeof(int),
        };
        memset(FIELD_MEMBER(void, row, object), row->type == TN_FIELD_WORD ? 0xff : 0,
               size_of[row->type]);
        tn_field_default(row, object);
    }
}

void tn_fields_done(const struct tn_fields *f, void *object)
{
    for (size_t i = 0; i < f->count; i++)
        tn_field_clear(&f->rows[i], object);
}

static int missing(const struct tn_field *row, struct tn_error *err)
{
    const char *name = row->name;

    if (row->flags & TN_FIELD_POSITIONAL)
        name = row->value ? row->value : row->name;
    else if (row->flag)
        name = row->flag;
    if (row->env)
        return tn_fail(err, TN_E_UNPROCESSABLE, "%s is required (or set %s)", name, row->env);
    return tn_fail(err, TN_E_UNPROCESSABLE, "%s is required", name);
}

int tn_fields_check(const struct tn_fields *f, const void *object, struct tn_error *err)
{
    for (size_t i = 0; i < f->count; i++) {
        const struct tn_field *row = &f->rows[i];
        if (row->type == TN_FIELD_OBJECT) {
            if (tn_fields_check(row->fields, FIELD_MEMBER(void, row, object), err) < 0)
                return -1;
        } else if (row->flags & TN_FIELD_REQUIRED && tn_field_is_null(row, object)) {
            return missing(row, err);
        }
    }
    return 0;
}
