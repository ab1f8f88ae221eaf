/* Members as plain text: defaults, environment, command line, messages. */
#include <errno.h>
#include <strings.h>

#include "base/field-member.h"
#include "base/py-literal.h"

static int set_bool(const struct tn_field *row, void *object, const char *text,
                    struct tn_error *err)
{
    static const char *const yes[] = {"true", "1", "yes", "y", "t", "on"};
    static const char *const no[] = {"false", "0", "no", "n", "f", "off"};
    bool *member = FIELD_MEMBER(bool, row, object);

    for (size_t i = 0; i < TN_COUNT(yes); i++) {
        if (strcasecmp(text, yes[i]) == 0) {
            *member = true;
            return 0;
        }
        if (strcasecmp(text, no[i]) == 0) {
            *member = false;
            return 0;
        }
    }
    return tn_field_mismatch(row, err, "'%.60s'", text);
}

static int set_int(const struct tn_field *row, void *object, const char *text, struct tn_error *err)
{
    char *end;

    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end || errno == ERANGE)
        return tn_field_mismatch(row, err, "'%.60s'", text);
    return tn_field_set_int(row, object, value, err);
}

/* Not strtod: its decimal point depends on the locale. */
static int set_double(const struct tn_field *row, void *object, const char *text,
                      struct tn_error *err)
{
    tn_autojson struct tn_json *number = NULL;

    tn_py_literal(text, strlen(text), &number, NULL);
    enum tn_json_type type = tn_json_type(number);
    if (type != TN_JSON_INT && type != TN_JSON_DOUBLE)
        return tn_field_mismatch(row, err, "'%.60s'", text);
    return tn_field_set_double(row, object, tn_json_double(number, 0), err);
}

static int set_literal(const struct tn_field *row, void *object, const char *text,
                       struct tn_error *err)
{
    tn_autojson struct tn_json *value = NULL;

    if (tn_py_literal(text, strlen(text), &value, NULL) < 0)
        return tn_field_mismatch(row, err, "'%.60s'", text);
    return tn_field_from_value(row, object, value, err);
}

static int set_comma_list(const struct tn_field *row, void *object, const char *text,
                          struct tn_error *err)
{
    if (tn_field_set_list(row, object, 0, err) < 0)
        return -1;
    while (*text) {
        size_t n = strcspn(text, ","), from = 0, to = n;
        while (from < to && text[from] == ' ')
            from++;
        while (to > from && text[to - 1] == ' ')
            to--;
        if (to > from && tn_field_add_string(row, object, text + from, to - from, err) < 0)
            return -1;
        text += n + (text[n] == ',');
    }
    return 0;
}

int tn_field_add_ints(const struct tn_field *row, void *object, const char *text,
                      struct tn_error *err)
{
    struct tn_int_list *list = FIELD_MEMBER(struct tn_int_list, row, object);

    for (const char *at = text;; at++) {
        char *end;
        errno = 0;
        long long value = strtoll(at, &end, 10);
        if (end == at || (*end && *end != ',') || errno == ERANGE)
            return tn_field_mismatch(row, err, "'%.60s'", text);
        list->items = tn_realloc(list->items, (list->count + 1) * sizeof *list->items);
        list->items[list->count++] = value;
        at = end;
        if (!*at)
            return 0;
    }
}

static int set_comma_ints(const struct tn_field *row, void *object, const char *text,
                          struct tn_error *err)
{
    if (tn_field_set_list(row, object, 0, err) < 0)
        return -1;
    return *text ? tn_field_add_ints(row, object, text, err) : 0;
}

int tn_field_from_text(const struct tn_field *row, void *object, const char *text,
                       struct tn_error *err)
{
    switch (row->type) {
    case TN_FIELD_STRING:
    case TN_FIELD_TEXT:
    case TN_FIELD_WORD:
        return tn_field_set_string(row, object, text, strlen(text), err);
    case TN_FIELD_BOOL:
        return set_bool(row, object, text, err);
    case TN_FIELD_INT:
    case TN_FIELD_OPT_INT:
        return set_int(row, object, text, err);
    case TN_FIELD_DOUBLE:
    case TN_FIELD_OPT_DOUBLE:
        return set_double(row, object, text, err);
    case TN_FIELD_STRINGS:
        if (text[0] == '[' || text[0] == '(')
            return set_literal(row, object, text, err);
        return set_comma_list(row, object, text, err);
    case TN_FIELD_INTS:
        if (text[0] == '[' || text[0] == '(')
            return set_literal(row, object, text, err);
        return set_comma_ints(row, object, text, err);
    case TN_FIELD_JSON:
    case TN_FIELD_OBJECT:
        return set_literal(row, object, text, err);
    }
    return -1;
}

static void put_double(struct tn_buf *out, double value)
{
    char text[32];
    tn_format_double(text, value);
    tn_buf_puts(out, text);
}

static void put_list(const struct tn_field *row, const void *object, struct tn_buf *out)
{
    const struct tn_str_list *list = FIELD_MEMBER(struct tn_str_list, row, object);

    for (size_t i = 0; i < list->count; i++)
        tn_buf_printf(out, "%s%s", i > 0 ? "," : "", list->items[i]);
}

static void put_ints(const struct tn_field *row, const void *object, struct tn_buf *out)
{
    const struct tn_int_list *list = FIELD_MEMBER(struct tn_int_list, row, object);

    tn_buf_putc(out, '[');
    for (size_t i = 0; i < list->count; i++)
        tn_buf_printf(out, "%s%lld", i > 0 ? ", " : "", (long long)list->items[i]);
    tn_buf_putc(out, ']');
}

void tn_field_put_text(const struct tn_field *row, const void *object, struct tn_buf *out)
{
    struct tn_jw w = tn_jw(out);

    if (row->type == TN_FIELD_JSON && tn_field_is_null(row, object))
        tn_buf_puts(out, row->fallback ? row->fallback : "");
    if (tn_field_is_null(row, object))
        return;
    switch (row->type) {
    case TN_FIELD_STRING:
        tn_buf_puts(out, *FIELD_MEMBER(char *, row, object));
        break;
    case TN_FIELD_TEXT:
        tn_buf_add(out, FIELD_MEMBER(struct tn_text, row, object)->data,
                   FIELD_MEMBER(struct tn_text, row, object)->len);
        break;
    case TN_FIELD_BOOL:
        tn_buf_puts(out, *FIELD_MEMBER(bool, row, object) ? "true" : "false");
        break;
    case TN_FIELD_INT:
        tn_buf_printf(out, "%lld", (long long)*FIELD_MEMBER(int64_t, row, object));
        break;
    case TN_FIELD_OPT_INT:
        tn_buf_printf(out, "%lld", (long long)FIELD_MEMBER(struct tn_opt_int, row, object)->value);
        break;
    case TN_FIELD_DOUBLE:
        put_double(out, *FIELD_MEMBER(double, row, object));
        break;
    case TN_FIELD_OPT_DOUBLE:
        put_double(out, FIELD_MEMBER(struct tn_opt_double, row, object)->value);
        break;
    case TN_FIELD_STRINGS:
        put_list(row, object, out);
        break;
    case TN_FIELD_INTS:
        put_ints(row, object, out);
        break;
    case TN_FIELD_JSON:
        tn_jw_tree(&w, *FIELD_MEMBER(struct tn_json *, row, object));
        break;
    case TN_FIELD_WORD:
        tn_buf_puts(out, row->words[*FIELD_MEMBER(int, row, object)]);
        break;
    case TN_FIELD_OBJECT:
        tn_jw_object(&w);
        tn_fields_show(row->fields, FIELD_MEMBER(void, row, object), &w);
        tn_jw_object_end(&w);
        break;
    }
}
