#include "runtime/mcp/result.h"

#include "runtime/toolbox.h"

/* One member: what it is called here and on the wire, and its own table. */
struct member {
    const char *name;
    const char *wire; /* NULL: the same */
    const struct member *table;
};

static const struct member annotations[] = {{.name = "audience"}, {.name = "priority"}, {0}};

#define ANNOTATIONS                                 \
    {                                               \
        .name = "annotations", .table = annotations \
    }
#define META                            \
    {                                   \
        .name = "meta", .wire = "_meta" \
    }

static const struct member contents[] = {{.name = "uri"}, {.name = "mimeType"}, META, {0}};

static const struct member text[] = {{.name = "type"}, {.name = "text"}, ANNOTATIONS, META, {0}};
static const struct member media[] = {
    {.name = "type"}, {.name = "data"}, {.name = "mimeType"}, ANNOTATIONS, META, {0}};
static const struct member resource_link[] = {{.name = "name"},     {.name = "title"},
                                              {.name = "uri"},      {.name = "description"},
                                              {.name = "mimeType"}, {.name = "size"},
                                              ANNOTATIONS,          META,
                                              {.name = "type"},     {0}};
static const struct member resource[] = {
    {.name = "type"}, {.name = "resource", .table = contents}, ANNOTATIONS, META, {0}};

static const struct {
    const char *type;
    const struct member *table;
} blocks[] = {
    {"text", text},         {"image", media}, {"audio", media}, {"resource_link", resource_link},
    {"resource", resource},
};

static const char *wire_name(const struct member *m)
{
    return m->wire ? m->wire : m->name;
}

struct rest {
    struct tn_jw *w;
    const struct member *table;
};

static int put_unknown(const char *key, struct tn_json *value, void *ctx)
{
    const struct rest *r = ctx;

    for (const struct member *m = r->table; m->name; m++)
        if (strcmp(wire_name(m), key) == 0)
            return 0;
    tn_jw_key(r->w, key);
    tn_jw_tree(r->w, value);
    return 0;
}

static void put_object(struct tn_jw *w, const struct tn_json *v, const struct member *table)
{
    if (!table || tn_json_type(v) != TN_JSON_OBJECT) {
        tn_jw_tree(w, v);
        return;
    }
    tn_jw_object(w);
    for (const struct member *m = table; m->name; m++) {
        tn_jw_key(w, m->name);
        put_object(w, tn_json_get(v, wire_name(m)), m->table);
    }
    tn_json_each(v, put_unknown, &(struct rest){.w = w, .table = table});
    tn_jw_object_end(w);
}

static void put_block(struct tn_jw *w, const struct tn_json *block)
{
    const char *type = tn_json_get_str(block, "type", "");
    const struct member *table = NULL;

    for (size_t i = 0; i < TN_COUNT(blocks); i++)
        if (strcmp(blocks[i].type, type) == 0)
            table = blocks[i].table;
    put_object(w, block, table);
}

void mcp_put_result(struct tn_jw *w, const struct tn_json *result)
{
    static const struct member known[] = {
        META, {.name = "content"}, {.name = "structuredContent"}, {.name = "isError"}, {0}};
    const struct tn_json *content = tn_json_get(result, "content");

    tn_jw_object(w);
    tn_jw_key(w, "meta");
    tn_jw_tree(w, tn_json_get(result, "_meta"));
    tn_jw_key(w, "content");
    tn_jw_array(w);
    for (size_t i = 0, n = tn_json_count(content); i < n; i++)
        put_block(w, tn_json_at(content, i));
    tn_jw_array_end(w);
    tn_jw_key(w, "structuredContent");
    tn_jw_tree(w, tn_json_get(result, "structuredContent"));
    tn_jw_kbool(w, "isError", tn_json_bool(tn_json_get(result, "isError"), false));
    tn_json_each(result, put_unknown, &(struct rest){.w = w, .table = known});
    tn_jw_object_end(w);
}

void mcp_put_failure(struct tn_jw *w, const char *why)
{
    tn_jw_object(w);
    tn_jw_kbool(w, "isError", true);
    tn_jw_kstr(w, "error", why);
    tn_jw_key(w, "content");
    tn_jw_array(w);
    tn_jw_array_end(w);
    tn_jw_object_end(w);
}

void tn_tool_put_function(struct tn_jw *w, const struct tn_json *tool)
{
    const struct tn_json *schema = tn_json_get(tool, "inputSchema");

    tn_jw_object(w);
    tn_jw_kstr(w, "type", "function");
    tn_jw_key(w, "function");
    tn_jw_object(w);
    tn_jw_kstr(w, "name", tn_json_get_str(tool, "name", ""));
    tn_jw_kstr(w, "description", tn_json_get_str(tool, "description", NULL));
    tn_jw_key(w, "parameters");
    if (tn_json_type(schema) == TN_JSON_OBJECT) {
        tn_jw_tree(w, schema);
    } else {
        tn_jw_object(w);
        tn_jw_object_end(w);
    }
    tn_jw_object_end(w);
    tn_jw_object_end(w);
}
