/* Values for human eyes. */
#include "runtime/config-sections.h"

/* Members of JSON values that are nobody's business, whatever they hold. */
static const char *const secret_members[] = {
    "api_key", "args", "env", "environment", "headers", "key", "password", "secret", "token",
};

static bool is_secret(const char *key)
{
    for (size_t i = 0; i < TN_COUNT(secret_members); i++)
        if (strcmp(secret_members[i], key) == 0)
            return true;
    return false;
}

/* A URL may carry a password before its host and keys after it. */
static void put_text(struct tn_buf *out, const char *text)
{
    const char *scheme = strstr(text, "://"), *host = scheme ? scheme + 3 : text;
    const char *end = host + strcspn(host, "/?#"), *at = end;
    size_t keep = strcspn(end, "?#");

    if (!scheme) {
        tn_buf_puts(out, text);
        return;
    }
    while (at > host && *at != '@')
        at--;
    tn_buf_add(out, text, (size_t)(host - text));
    if (*at == '@')
        tn_buf_puts(out, "***");
    tn_buf_add(out, at, (size_t)(end - at) + keep);
    if (end[keep])
        tn_buf_printf(out, "%c***", end[keep]);
}

static void write_text(struct tn_jw *w, const char *text)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(strlen(text) + 16);

    put_text(&out, text);
    tn_jw_str(w, tn_buf_str(&out));
}

static int put_member(const char *key, struct tn_json *value, void *ctx);

static void put_tree(struct tn_jw *w, const struct tn_json *v)
{
    const char *text = tn_json_str(v, NULL);

    if (text) {
        write_text(w, text);
    } else if (tn_json_type(v) == TN_JSON_ARRAY) {
        tn_jw_array(w);
        for (size_t i = 0, n = tn_json_count(v); i < n; i++)
            put_tree(w, tn_json_at(v, i));
        tn_jw_array_end(w);
    } else if (tn_json_type(v) == TN_JSON_OBJECT) {
        tn_jw_object(w);
        tn_json_each(v, put_member, w);
        tn_jw_object_end(w);
    } else {
        tn_jw_tree(w, v);
    }
}

static int put_member(const char *key, struct tn_json *value, void *ctx)
{
    bool empty = tn_json_type(value) == TN_JSON_NULL ||
                 ((tn_json_type(value) == TN_JSON_ARRAY || tn_json_type(value) == TN_JSON_OBJECT) &&
                  tn_json_count(value) == 0);

    tn_jw_key(ctx, key);
    if (is_secret(key) && !empty)
        tn_jw_str(ctx, "***");
    else
        put_tree(ctx, value);
    return 0;
}

static int put_hidden_member(const char *key, struct tn_json *value, void *ctx)
{
    tn_jw_kstr(ctx, key, "***");
    return 0;
}

static void put_json(const struct tn_field *row, const struct tn_json *tree, struct tn_jw *w)
{
    if (!(row->flags & TN_FIELD_SECRET)) {
        put_tree(w, tree);
        return;
    }
    tn_jw_object(w); /* names are no secret */
    tn_json_each(tree, put_hidden_member, w);
    tn_jw_object_end(w);
}

static const struct tn_json *json_of(const struct tn_field *row, const void *object)
{
    if (row->type != TN_FIELD_JSON)
        return NULL;
    return *(struct tn_json *const *)((const char *)object + row->offset);
}

static const char *plain_text_of(const struct tn_field *row, const void *object)
{
    if (row->type != TN_FIELD_STRING || row->flags & TN_FIELD_SECRET)
        return NULL;
    return *(char *const *)((const char *)object + row->offset);
}

void tn_config_show(const struct tn_config *c, const char *section, const struct tn_field *row,
                    const char *key, struct tn_jw *w)
{
    const void *object = tn_config_at(c, tn_config_find_section(section));
    const struct tn_json *tree = json_of(row, object);
    const char *text = plain_text_of(row, object);
    struct tn_field renamed = *row;
    const struct tn_fields one = {.rows = &renamed, .count = 1};

    if (!tree && !text) {
        renamed.name = key;
        tn_fields_show(&one, object, w);
        return;
    }
    tn_jw_key(w, key);
    if (tree)
        put_json(row, tree, w);
    else
        write_text(w, text);
}

void tn_config_put_value(const struct tn_field *row, const void *object, struct tn_buf *out)
{
    const struct tn_json *tree = json_of(row, object);
    const char *text = plain_text_of(row, object);
    struct tn_jw w = tn_jw(out);

    if (tree)
        put_json(row, tree, &w);
    else if (text)
        put_text(out, text);
    else if (row->flags & TN_FIELD_SECRET && row->type == TN_FIELD_STRING)
        tn_buf_puts(out, *(char *const *)((const char *)object + row->offset) ? "***" : "");
    else
        tn_field_put_text(row, object, out);
}
