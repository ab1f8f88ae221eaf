#include <math.h>

#include "base/field-member.h"
#include "base/nearest.h"
#include "base/py-literal.h"
#include "base/utf8.h"

/* --- reading --------------------------------------------------------------------------- */

bool tn_json_as_int(const struct tn_json *v, int64_t *value)
{
    double d;

    switch (tn_json_type(v)) {
    case TN_JSON_INT:
        *value = tn_json_int(v, 0);
        return true;
    case TN_JSON_DOUBLE:
        d = tn_json_double(v, 0);
        if (!(d >= -0x1p63 && d < 0x1p63) || (double)(int64_t)d != d)
            return false;
        *value = (int64_t)d;
        return true;
    case TN_JSON_NULL:
    case TN_JSON_BOOL:
    case TN_JSON_STRING:
    case TN_JSON_ARRAY:
    case TN_JSON_OBJECT:
        break;
    }
    return false;
}

static int wrong_type(const struct tn_field *row, const struct tn_json *v, struct tn_error *err)
{
    if (tn_json_type(v) ==
        TN_JSON_DOUBLE) /* "an integer" and "number" would be hard to tell apart */
        return tn_field_mismatch(row, err, "%g", tn_json_double(v, 0));
    return tn_field_mismatch(row, err, "%s", tn_json_type_name(v));
}

/* Fractions are cut off, numbers in strings count, and anything else is the default. */
static void read_text_number(const struct tn_field *row, void *object, const struct tn_json *v)
{
    tn_autojson struct tn_json *inner = NULL;
    size_t n;
    const char *s = tn_json_str(v, &n);

    if (s && tn_py_literal(s, n, &inner, NULL) == 0)
        v = inner;
    double d = tn_json_double(v, NAN);
    int64_t value;
    bool whole = tn_json_as_int(v, &value);
    if (!whole && d > -0x1p63 && d < 0x1p63) {
        value = (int64_t)d;
        whole = true;
    }
    if (!whole || tn_field_set_int(row, object, value, NULL) < 0)
        tn_field_default(row, object);
}

static int read_strings(const struct tn_field *row, void *object, const struct tn_json *v,
                        struct tn_error *err)
{
    size_t count = tn_json_count(v);

    if (tn_json_type(v) != TN_JSON_ARRAY)
        return wrong_type(row, v, err);
    if (tn_field_set_list(row, object, 0, err) < 0)
        return -1;
    for (size_t i = 0; i < count; i++) {
        size_t n;
        const char *s = tn_json_str(tn_json_at(v, i), &n);
        if (!s)
            return tn_field_mismatch(row, err, "%s as item %zu",
                                     tn_json_type_name(tn_json_at(v, i)), i + 1);
        if (tn_field_add_string(row, object, s, n, err) < 0)
            return -1;
    }
    return 0;
}

static int read_ints(const struct tn_field *row, void *object, const struct tn_json *v,
                     struct tn_error *err)
{
    size_t count = tn_json_count(v);
    struct tn_int_list *list = FIELD_MEMBER(struct tn_int_list, row, object);

    if (tn_json_type(v) != TN_JSON_ARRAY)
        return wrong_type(row, v, err);
    if (tn_field_set_list(row, object, count, err) < 0)
        return -1;
    for (size_t i = 0; i < count; i++) {
        if (!tn_json_as_int(tn_json_at(v, i), &list->items[i]))
            return tn_field_mismatch(row, err, "%s as item %zu",
                                     tn_json_type_name(tn_json_at(v, i)), i + 1);
        list->count++;
    }
    return 0;
}

int tn_field_from_value(const struct tn_field *row, void *object, struct tn_json *v,
                        struct tn_error *err)
{
    enum tn_json_type type = tn_json_type(v);
    int64_t whole;
    const char *s;
    size_t n;

    if (type == TN_JSON_NULL && row->flags & TN_FIELD_NULLABLE) {
        tn_field_clear(row, object);
        return 0;
    }
    switch (row->type) {
    case TN_FIELD_STRING:
    case TN_FIELD_TEXT:
    case TN_FIELD_WORD:
        s = tn_json_str(v, &n);
        return s ? tn_field_set_string(row, object, s, n, err) : wrong_type(row, v, err);
    case TN_FIELD_BOOL:
        if (type != TN_JSON_BOOL)
            return wrong_type(row, v, err);
        *FIELD_MEMBER(bool, row, object) = tn_json_bool(v, false);
        return 0;
    case TN_FIELD_INT:
    case TN_FIELD_OPT_INT:
        if (row->flags & TN_FIELD_TEXT_NUMBER) {
            read_text_number(row, object, v);
            return 0;
        }
        if (!tn_json_as_int(v, &whole))
            return wrong_type(row, v, err);
        return tn_field_set_int(row, object, whole, err);
    case TN_FIELD_DOUBLE:
    case TN_FIELD_OPT_DOUBLE:
        if (type != TN_JSON_INT && type != TN_JSON_DOUBLE)
            return wrong_type(row, v, err);
        return tn_field_set_double(row, object, tn_json_double(v, 0), err);
    case TN_FIELD_STRINGS:
        return read_strings(row, object, v, err);
    case TN_FIELD_INTS:
        return read_ints(row, object, v, err);
    case TN_FIELD_JSON:
        return tn_field_set_json(row, object, v, err);
    case TN_FIELD_OBJECT:
        if (type != TN_JSON_OBJECT)
            return wrong_type(row, v, err);
        return tn_fields_from_json(row->fields, FIELD_MEMBER(void, row, object), v, err);
    }
    return -1;
}

static int read_field(const struct tn_field *row, void *object, const struct tn_json *json,
                      struct tn_error *err)
{
    const char *key = row->name;
    struct tn_json *v = NULL;

    if (row->alias && (v = tn_json_get(json, row->alias)))
        key = row->alias;
    else if (tn_json_has(json, row->name))
        v = tn_json_get(json, row->name);
    else
        return 0;
    if (!v && !(row->flags & TN_FIELD_NULLABLE))
        return 0;
    if (row->flags & TN_FIELD_LAX) {
        tn_field_from_value(row, object, v, NULL);
        return 0;
    }
    if (tn_field_from_value(row, object, v, err) < 0)
        return tn_error_context(err, "%s", key);
    return 0;
}

int tn_fields_from_json(const struct tn_fields *f, void *object, const struct tn_json *json,
                        struct tn_error *err)
{
    if (tn_json_type(json) != TN_JSON_OBJECT)
        return tn_fail(err, TN_E_UNPROCESSABLE, "expected an object, found %s",
                       tn_json_type_name(json));
    for (size_t i = 0; i < f->count; i++)
        if (read_field(&f->rows[i], object, json, err) < 0)
            return -1;
    return 0;
}

/* --- one member of a map ---------------------------------------------------------------- */

struct pair {
    struct tn_jw w;
    const char *name;
};

static int write_others(const char *key, struct tn_json *value, void *ctx)
{
    struct pair *p = ctx;

    if (strcmp(key, p->name) != 0) {
        tn_jw_key(&p->w, key);
        tn_jw_tree(&p->w, value);
    }
    return 0;
}

int tn_field_put_pair(const struct tn_field *row, void *object, const char *name, size_t name_len,
                      const char *value, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(64 << 20);
    tn_autojson struct tn_json *map = NULL;
    tn_autofree char *key = tn_strndup(name, name_len);
    struct pair p = {.w = tn_jw(&text), .name = key};

    if (!tn_utf8_valid(key, name_len) || !tn_utf8_valid(value, strlen(value)))
        return tn_fail(err, TN_E_UNPROCESSABLE, "expected UTF-8, found other bytes");
    tn_jw_object(&p.w);
    tn_json_each(*FIELD_MEMBER(struct tn_json *, row, object), write_others, &p);
    tn_jw_kstr(&p.w, key, value);
    tn_jw_object_end(&p.w);
    if (!tn_buf_ok(&text))
        return tn_fail(err, TN_E_TOO_LARGE, "too large");
    if (tn_json_parse(text.data, text.len, &map, err) < 0)
        return -1;
    return tn_field_set_json(row, object, map, err);
}

/* --- unknown keys ------------------------------------------------------------------------ */

struct unknown {
    const struct tn_fields *fields;
    struct tn_error *err;
};

static int refuse_if_unknown(const char *key, struct tn_json *value, void *ctx)
{
    const struct unknown *u = ctx;
    struct tn_nearest near = tn_nearest(key);

    for (size_t i = 0; i < u->fields->count; i++) {
        const struct tn_field *row = &u->fields->rows[i];
        if (row->alias && strcmp(key, row->alias) == 0)
            return 0;
        if (strcmp(key, row->name) != 0)
            continue;
        if (row->type != TN_FIELD_OBJECT ||
            tn_fields_refuse_unknown(row->fields, value, u->err) == 0)
            return 0;
        return tn_error_context(u->err, "%s", key);
    }
    for (size_t i = 0; i < u->fields->count; i++)
        tn_nearest_offer(&near, u->fields->rows[i].name);
    if (near.best)
        return tn_fail(u->err, TN_E_UNPROCESSABLE, "unknown key %.60s; did you mean %s?", key,
                       near.best);
    return tn_fail(u->err, TN_E_UNPROCESSABLE, "unknown key %.60s", key);
}

int tn_fields_refuse_unknown(const struct tn_fields *f, const struct tn_json *json,
                             struct tn_error *err)
{
    struct unknown u = {.fields = f, .err = err};
    return tn_json_each(json, refuse_if_unknown, &u);
}

/* --- writing --------------------------------------------------------------------------- */

static void write_strings(const struct tn_str_list *list, struct tn_jw *w)
{
    tn_jw_array(w);
    for (size_t i = 0; i < list->count; i++)
        tn_jw_str(w, list->items[i]);
    tn_jw_array_end(w);
}

static void write_ints(const struct tn_int_list *list, struct tn_jw *w)
{
    tn_jw_array(w);
    for (size_t i = 0; i < list->count; i++)
        tn_jw_int(w, list->items[i]);
    tn_jw_array_end(w);
}

/* What a member without value reads as: its type's empty value where null is not allowed. */
static void write_null(const struct tn_field *row, struct tn_jw *w)
{
    bool nullable = row->flags & TN_FIELD_NULLABLE;

    if (row->type == TN_FIELD_JSON && row->fallback)
        tn_jw_raw(w, row->fallback, strlen(row->fallback));
    else if (!nullable && (row->type == TN_FIELD_STRING || row->type == TN_FIELD_TEXT))
        tn_jw_str(w, "");
    else if (!nullable && (row->type == TN_FIELD_STRINGS || row->type == TN_FIELD_INTS))
        tn_jw_raw(w, "[]", 2);
    else
        tn_jw_null(w);
}

static void write_fields(const struct tn_fields *f, const void *object, struct tn_jw *w, bool show);

static void write_member(const struct tn_field *row, const void *object, struct tn_jw *w, bool show)
{
    if (tn_field_is_null(row, object)) {
        write_null(row, w);
        return;
    }
    if (show && row->flags & TN_FIELD_SECRET) {
        tn_jw_str(w, "***");
        return;
    }
    switch (row->type) {
    case TN_FIELD_STRING:
        tn_jw_str(w, *FIELD_MEMBER(char *, row, object));
        break;
    case TN_FIELD_TEXT:
        tn_jw_strn(w, FIELD_MEMBER(struct tn_text, row, object)->data,
                   FIELD_MEMBER(struct tn_text, row, object)->len);
        break;
    case TN_FIELD_BOOL:
        tn_jw_bool(w, *FIELD_MEMBER(bool, row, object));
        break;
    case TN_FIELD_INT:
        tn_jw_int(w, *FIELD_MEMBER(int64_t, row, object));
        break;
    case TN_FIELD_DOUBLE:
        tn_jw_double(w, *FIELD_MEMBER(double, row, object));
        break;
    case TN_FIELD_OPT_INT:
        tn_jw_int(w, FIELD_MEMBER(struct tn_opt_int, row, object)->value);
        break;
    case TN_FIELD_OPT_DOUBLE:
        tn_jw_double(w, FIELD_MEMBER(struct tn_opt_double, row, object)->value);
        break;
    case TN_FIELD_STRINGS:
        write_strings(FIELD_MEMBER(struct tn_str_list, row, object), w);
        break;
    case TN_FIELD_INTS:
        write_ints(FIELD_MEMBER(struct tn_int_list, row, object), w);
        break;
    case TN_FIELD_JSON:
        tn_jw_tree(w, *FIELD_MEMBER(struct tn_json *, row, object));
        break;
    case TN_FIELD_WORD:
        tn_jw_str(w, row->words[*FIELD_MEMBER(int, row, object)]);
        break;
    case TN_FIELD_OBJECT:
        tn_jw_object(w);
        write_fields(row->fields, FIELD_MEMBER(void, row, object), w, show);
        tn_jw_object_end(w);
        break;
    }
}

static bool is_empty(const struct tn_field *row, const void *object)
{
    if (tn_field_is_null(row, object))
        return true;
    switch (row->type) {
    case TN_FIELD_STRING:
        return **FIELD_MEMBER(char *, row, object) == '\0';
    case TN_FIELD_TEXT:
        return FIELD_MEMBER(struct tn_text, row, object)->len == 0;
    case TN_FIELD_BOOL:
        return !*FIELD_MEMBER(bool, row, object);
    case TN_FIELD_STRINGS:
        return FIELD_MEMBER(struct tn_str_list, row, object)->count == 0;
    case TN_FIELD_INTS:
        return FIELD_MEMBER(struct tn_int_list, row, object)->count == 0;
    case TN_FIELD_INT:
    case TN_FIELD_DOUBLE:
    case TN_FIELD_OPT_INT:
    case TN_FIELD_OPT_DOUBLE:
    case TN_FIELD_JSON:
    case TN_FIELD_WORD:
    case TN_FIELD_OBJECT:
        break;
    }
    return false;
}

static void write_fields(const struct tn_fields *f, const void *object, struct tn_jw *w, bool show)
{
    for (size_t i = 0; i < f->count; i++) {
        const struct tn_field *row = &f->rows[i];
        if (row->flags & TN_FIELD_SPARSE && is_empty(row, object))
            continue;
        tn_jw_key(w, row->name);
        write_member(row, object, w, show);
    }
}

void tn_fields_to_json(const struct tn_fields *f, const void *object, struct tn_jw *w)
{
    write_fields(f, object, w, false);
}

void tn_fields_show(const struct tn_fields *f, const void *object, struct tn_jw *w)
{
    write_fields(f, object, w, true);
}
