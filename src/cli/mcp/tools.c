/* The tools as MCP has them: their list, with a schema that follows from each table of arguments,
 * and a call. */
#include "base/base64.h"
#include "base/nearest.h"
#include "cli/mcp/mcp.h"

enum { CONTENT_MAX = 48 << 20, DATA_MAX = 8 << 20 };

static const struct tool *const tables[] = {work_tools, file_tools, life_tools};

/* --- the list ------------------------------------------------------------------------------- */

static const char *schema_type(enum tn_field_type type)
{
    switch (type) {
    case TN_FIELD_BOOL:
        return "boolean";
    case TN_FIELD_INT:
    case TN_FIELD_OPT_INT:
        return "integer";
    case TN_FIELD_DOUBLE:
    case TN_FIELD_OPT_DOUBLE:
        return "number";
    case TN_FIELD_STRINGS:
    case TN_FIELD_INTS:
        return "array";
    case TN_FIELD_STRING:
    case TN_FIELD_TEXT:
    case TN_FIELD_WORD:
        return "string";
    case TN_FIELD_JSON:
    case TN_FIELD_OBJECT:
        return "object";
    }
    return "object";
}

static void put_property(const struct tn_field *row, struct tn_jw *w)
{
    tn_jw_key(w, row->name);
    tn_jw_object(w);
    tn_jw_kstr(w, "type", schema_type(row->type));
    if (row->type == TN_FIELD_INTS || row->type == TN_FIELD_STRINGS) {
        tn_jw_key(w, "items");
        tn_jw_object(w);
        tn_jw_kstr(w, "type", row->type == TN_FIELD_INTS ? "integer" : "string");
        tn_jw_object_end(w);
    }
    if (row->words) {
        tn_jw_key(w, "enum");
        tn_jw_array(w);
        for (const char *const *word = row->words; *word; word++)
            tn_jw_str(w, *word);
        tn_jw_array_end(w);
    }
    tn_jw_kstr(w, "description", row->help);
    tn_jw_object_end(w);
}

static void put_schema(const struct tn_fields *f, struct tn_jw *w)
{
    tn_jw_object(w);
    tn_jw_kstr(w, "type", "object");
    tn_jw_key(w, "properties");
    tn_jw_object(w);
    for (size_t i = 0; i < f->count; i++)
        put_property(&f->rows[i], w);
    tn_jw_object_end(w);
    tn_jw_key(w, "required");
    tn_jw_array(w);
    for (size_t i = 0; i < f->count; i++) {
        if (f->rows[i].flags & TN_FIELD_REQUIRED)
            tn_jw_str(w, f->rows[i].name);
    }
    tn_jw_array_end(w);
    tn_jw_kbool(w, "additionalProperties", false);
    tn_jw_object_end(w);
}

static void put_tool(const struct tool *t, struct tn_jw *w)
{
    tn_jw_object(w);
    tn_jw_kstr(w, "name", t->name);
    tn_jw_kstr(w, "title", t->title);
    tn_jw_kstr(w, "description", t->description);
    tn_jw_key(w, "inputSchema");
    put_schema(t->arguments, w);
    if (t->result) {
        tn_jw_key(w, "outputSchema");
        tn_jw_raw(w, t->result, strlen(t->result));
    }
    tn_jw_key(w, "annotations");
    tn_jw_object(w);
    tn_jw_kbool(w, "readOnlyHint", t->hints & TOOL_READ_ONLY);
    tn_jw_kbool(w, "destructiveHint", t->hints & TOOL_DESTRUCTIVE);
    tn_jw_kbool(w, "idempotentHint", t->hints & TOOL_IDEMPOTENT);
    tn_jw_kbool(w, "openWorldHint", t->hints & TOOL_OPEN_WORLD);
    tn_jw_object_end(w);
    tn_jw_object_end(w);
}

int tools_list(struct tn_mcp_request *request, struct tn_buf *result)
{
    struct tn_jw w = tn_jw(result);

    tn_jw_object(&w);
    tn_jw_key(&w, "tools");
    tn_jw_array(&w);
    for (size_t i = 0; i < TN_COUNT(tables); i++) {
        for (const struct tool *t = tables[i]; t->name; t++)
            put_tool(t, &w);
    }
    tn_jw_array_end(&w);
    tn_jw_object_end(&w);
    return 0;
}

/* --- a call --------------------------------------------------------------------------------- */

static const struct tool *find(const char *name, struct tn_nearest *near)
{
    for (size_t i = 0; i < TN_COUNT(tables); i++) {
        for (const struct tool *t = tables[i]; t->name; t++) {
            if (strcmp(t->name, name) == 0)
                return t;
            tn_nearest_offer(near, t->name);
        }
    }
    return NULL;
}

void put_text(struct tool_call *c, const char *text, size_t n)
{
    tn_jw_object(c->content);
    tn_jw_kstr(c->content, "type", "text");
    tn_jw_key(c->content, "text");
    tn_jw_strn(c->content, text, n);
    tn_jw_object_end(c->content);
}

void put_output(struct tool_call *c, const char *text, size_t n)
{
    tn_autobuf struct tn_buf cut = TN_BUF_INIT(8 * TN_CONTENT_LIMIT);

    tn_put_cut(text, n, &cut);
    put_text(c, tn_buf_str(&cut), cut.len);
}

static void put_encoded(struct tool_call *c, const char *type, size_t n, const char *base64)
{
    tn_jw_object(c->content);
    tn_jw_kstr(c->content, "type", "image");
    tn_jw_kstr(c->content, "data", base64);
    tn_jw_key(c->content, "mimeType");
    tn_jw_strn(c->content, type, n);
    tn_jw_object_end(c->content);
}

bool put_image(struct tool_call *c, const char *url)
{
    const char *type = url && strncmp(url, "data:", 5) == 0 ? url + 5 : NULL;
    const char *end = type ? strstr(type, ";base64,") : NULL;

    if (!end || strncmp(type, "image/", 6) != 0)
        return false;
    put_encoded(c, type, (size_t)(end - type), end + 8);
    return true;
}

void put_image_bytes(struct tool_call *c, const char *type, const struct tn_buf *bytes)
{
    tn_autobuf struct tn_buf encoded = TN_BUF_INIT(CONTENT_MAX);

    tn_base64_encode(&encoded, tn_buf_str(bytes), bytes->len);
    put_encoded(c, type, strlen(type), tn_buf_str(&encoded));
}

/* Names all that would have been right: who guessed once would guess again. */
static int refuse_unknown(const struct tool *t, const struct tn_json *arguments,
                          struct tn_error *err)
{
    tn_autobuf struct tn_buf names = TN_BUF_INIT(4096);
    struct tn_error why = {0};

    if (tn_fields_refuse_unknown(t->arguments, arguments, &why) == 0)
        return 0;
    for (size_t i = 0; i < t->arguments->count; i++)
        tn_buf_printf(&names, "%s%s", i ? ", " : "", t->arguments->rows[i].name);
    return tn_fail(err, why.code, "%s (arguments of %s: %s)", why.text, t->name,
                   names.len ? tn_buf_str(&names) : "none");
}

/* What is wrong with the arguments is for the model to mend: it is told as a result. */
static int call_with(const struct tool *t, struct tool_call *c, const struct tn_json *arguments,
                     struct tn_error *err)
{
    tn_autofree void *object = tn_calloc(1, t->size);
    int r = -1;

    tn_fields_defaults(t->arguments, object);
    if ((!arguments || (refuse_unknown(t, arguments, err) == 0 &&
                        tn_fields_from_json(t->arguments, object, arguments, err) == 0)) &&
        tn_fields_check(t->arguments, object, err) == 0)
        r = t->call(c, object, err);
    tn_fields_done(t->arguments, object);
    return r;
}

int tools_call(struct mcp_client *client, struct tn_mcp_request *request, struct tn_buf *result)
{
    const struct tn_json *params = tn_mcp_request_message(request)->params;
    const char *name = tn_json_get_str(params, "name", NULL);
    struct tn_nearest near = tn_nearest(name ? name : "");
    const struct tool *t = name ? find(name, &near) : NULL;
    tn_autobuf struct tn_buf content = TN_BUF_INIT(CONTENT_MAX), data = TN_BUF_INIT(DATA_MAX);
    struct tn_jw blocks = tn_jw(&content);
    struct tool_call c = {.client = client, .request = request, .content = &blocks, .data = &data};
    struct tn_error err = {0};

    if (!t)
        return tn_mcp_refuse(request, TN_RPC_INVALID_PARAMS, "there is no tool '%s'%s%s",
                             name ? name : "", near.best ? ": did you mean " : "",
                             near.best ? near.best : "");
    tn_jw_array(&blocks);
    if (call_with(t, &c, tn_json_get(params, "arguments"), &err) < 0) {
        c.failed = true;
        put_text(&c, err.text, strlen(err.text));
    }
    tn_autojson struct tn_json *verdict = c.verdict;
    tn_jw_array_end(&blocks);
    if (!tn_buf_ok(&content) || !tn_buf_ok(&data))
        return tn_mcp_refuse(request, TN_RPC_INTERNAL_ERROR, "the result of %s is too large", name);

    struct tn_jw w = tn_jw(result);
    tn_jw_object(&w);
    tn_jw_key(&w, "content");
    tn_jw_raw(&w, tn_buf_str(&content), content.len);
    if (data.len) {
        tn_jw_key(&w, "structuredContent");
        tn_jw_raw(&w, tn_buf_str(&data), data.len);
    }
    tn_jw_kbool(&w, "isError", c.failed);
    if (verdict) {
        tn_jw_key(&w, "_meta");
        tn_jw_object(&w);
        tn_jw_key(&w, "tendon/verdict");
        tn_jw_tree(&w, verdict);
        tn_jw_object_end(&w);
    }
    tn_jw_object_end(&w);
    return 0;
}
