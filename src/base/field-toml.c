/* Field tables from TOML: each value takes the way a JSON value takes, with its line in the errors.
 */
#include "base/field-member.h"
#include "base/nearest.h"

static void write_value(struct tn_jw *w, const struct tn_toml *v)
{
    size_t n, count = tn_toml_count(v);
    const char *s;

    switch (tn_toml_type(v)) {
    case TN_TOML_TABLE:
        tn_jw_object(w);
        for (size_t i = 0; i < count; i++) {
            tn_jw_key(w, tn_toml_key_at(v, i, NULL));
            write_value(w, tn_toml_at(v, i));
        }
        tn_jw_object_end(w);
        break;
    case TN_TOML_ARRAY:
        tn_jw_array(w);
        for (size_t i = 0; i < count; i++)
            write_value(w, tn_toml_at(v, i));
        tn_jw_array_end(w);
        break;
    case TN_TOML_INT:
        tn_jw_int(w, tn_toml_int(v, 0));
        break;
    case TN_TOML_FLOAT:
        tn_jw_double(w, tn_toml_double(v, 0));
        break;
    case TN_TOML_BOOL:
        tn_jw_bool(w, tn_toml_bool(v, false));
        break;
    case TN_TOML_STRING:
    case TN_TOML_DATETIME:
    case TN_TOML_DATETIME_LOCAL:
    case TN_TOML_DATE_LOCAL:
    case TN_TOML_TIME_LOCAL:
        s = tn_toml_str(v, &n);
        tn_jw_strn(w, s, n);
        break;
    }
}

static int read_field(const struct tn_field *row, void *object, const struct tn_toml *v,
                      struct tn_error *err)
{
    /* Six bytes for one is the worst the JSON writer does. */
    tn_autobuf struct tn_buf text = TN_BUF_INIT(8 * TN_TOML_BYTES_MAX);
    tn_autojson struct tn_json *json = NULL;
    struct tn_jw w = tn_jw(&text);

    if (row->type == TN_FIELD_OBJECT && tn_toml_type(v) == TN_TOML_TABLE)
        return tn_fields_from_toml(row->fields, FIELD_MEMBER(void, row, object), v, err);
    write_value(&w, v);
    if (!tn_buf_ok(&text))
        return tn_fail(err, TN_E_TOO_LARGE, "too large");
    if (tn_json_parse(text.data, text.len, &json, err) < 0)
        return -1;
    return tn_field_from_value(row, object, json, err);
}

int tn_fields_from_toml(const struct tn_fields *f, void *object, const struct tn_toml *table,
                        struct tn_error *err)
{
    for (size_t i = 0; i < f->count; i++) {
        const struct tn_field *row = &f->rows[i];
        const char *key = row->name;
        const struct tn_toml *v = tn_toml_get(table, key);
        if (!v && row->alias)
            v = tn_toml_get(table, key = row->alias);
        bool lax = row->flags & TN_FIELD_LAX;
        if (!v || read_field(row, object, v, lax ? NULL : err) == 0 || lax)
            continue;
        if (row->type == TN_FIELD_OBJECT && tn_toml_type(v) == TN_TOML_TABLE)
            return -1;
        return tn_error_context(err, "line %d: %s", tn_toml_line(v), key);
    }
    return 0;
}

int tn_fields_refuse_unknown_key(const struct tn_fields *f, const char *key,
                                 const struct tn_toml *v, struct tn_error *err)
{
    struct tn_nearest near = tn_nearest(key);

    for (size_t i = 0; i < f->count; i++) {
        const struct tn_field *row = &f->rows[i];
        if (strcmp(key, row->name) == 0 || (row->alias && strcmp(key, row->alias) == 0))
            return row->type == TN_FIELD_OBJECT ? tn_fields_refuse_unknown_toml(row->fields, v, err)
                                                : 0;
    }
    for (size_t i = 0; i < f->count; i++)
        tn_nearest_offer(&near, f->rows[i].name);
    if (near.best)
        return tn_fail(err, TN_E_UNPROCESSABLE, "line %d: unknown key %.60s; did you mean %s?",
                       tn_toml_line(v), key, near.best);
    return tn_fail(err, TN_E_UNPROCESSABLE, "line %d: unknown key %.60s", tn_toml_line(v), key);
}

int tn_fields_refuse_unknown_toml(const struct tn_fields *f, const struct tn_toml *table,
                                  struct tn_error *err)
{
    if (!table || tn_toml_type(table) != TN_TOML_TABLE)
        return 0;
    for (size_t i = 0, count = tn_toml_count(table); i < count; i++)
        if (tn_fields_refuse_unknown_key(f, tn_toml_key_at(table, i, NULL), tn_toml_at(table, i),
                                         err) < 0)
            return -1;
    return 0;
}
