#include "mcp/meta.h"

#include <inttypes.h>
#include <strings.h>

#include "base/base64.h"
#include "net/http-parse.h"

#define ANNOTATION "x-mcp-header"
enum { PARAMS_MAX = 64, DEPTH_MAX = 8 };

/* --- the body --------------------------------------------------------------------------------- */

static void put_members(struct tn_jw *w, const struct tn_mcp_meta *meta)
{
    tn_jw_kstr(w, TN_MCP_META "protocolVersion", TN_MCP_MODERN);
    tn_jw_key(w, TN_MCP_META "clientInfo");
    tn_jw_object(w);
    tn_jw_kstr(w, "name", meta->name);
    tn_jw_kstr(w, "version", meta->version);
    tn_jw_object_end(w);
    tn_jw_key(w, TN_MCP_META "clientCapabilities");
    tn_jw_raw(w, meta->capabilities, strlen(meta->capabilities));
    if (meta->log_level)
        tn_jw_kstr(w, TN_MCP_META "logLevel", meta->log_level);
}

void tn_mcp_put_meta(struct tn_jw *w, const struct tn_mcp_meta *meta)
{
    tn_jw_key(w, "_meta");
    tn_jw_object(w);
    put_members(w, meta);
    tn_jw_object_end(w);
}

struct copy {
    struct tn_jw *w;
    bool inputs; /* those of this round come from elsewhere */
};

static int copy_param(const char *key, struct tn_json *value, void *ctx)
{
    const struct copy *copy = ctx;
    bool input = strcmp(key, "inputResponses") == 0 || strcmp(key, "requestState") == 0;

    if (strcmp(key, "_meta") != 0 && !(input && copy->inputs)) {
        tn_jw_key(copy->w, key);
        tn_jw_tree(copy->w, value);
    }
    return 0;
}

static int copy_meta(const char *key, struct tn_json *value, void *ctx)
{
    if (strncmp(key, TN_MCP_META, sizeof TN_MCP_META - 1) != 0) {
        tn_jw_key(ctx, key);
        tn_jw_tree(ctx, value);
    }
    return 0;
}

int tn_mcp_put_params(struct tn_buf *out, const char *params, const char *inputs,
                      const struct tn_mcp_meta *meta, struct tn_error *err)
{
    tn_autojson struct tn_json *tree = NULL;
    struct tn_jw w = tn_jw(out);

    if (*params && tn_json_parse(params, strlen(params), &tree, err) < 0)
        return -1;
    tn_jw_object(&w);
    tn_jw_key(&w, "_meta");
    tn_jw_object(&w);
    put_members(&w, meta);
    tn_json_each(tn_json_get(tree, "_meta"), copy_meta, &w);
    tn_jw_object_end(&w);
    tn_json_each(tree, copy_param, &(struct copy){&w, *inputs});
    if (*inputs)
        tn_buf_printf(out, ",%s", inputs);
    tn_jw_object_end(&w);
    return 0;
}

static bool names(const struct tn_json *versions, bool (*which)(const char *version))
{
    for (size_t i = 0, n = tn_json_count(versions); i < n; i++) {
        const char *one = tn_json_str(tn_json_at(versions, i), NULL);
        if (one && which(one))
            return true;
    }
    return false;
}

static bool is_modern(const char *version)
{
    return strcmp(version, TN_MCP_MODERN) == 0;
}

static int discover_once(struct tn_mcp_peer *peer, const struct tn_mcp_meta *meta, int64_t deadline,
                         struct tn_rpc *answer, struct tn_error *err)
{
    tn_autobuf struct tn_buf params = TN_BUF_INIT(1 << 16);
    struct tn_jw w = tn_jw(&params);

    tn_jw_object(&w);
    tn_mcp_put_meta(&w, meta);
    tn_jw_object_end(&w);
    const struct tn_mcp_call call = {.method = "server/discover",
                                     .params = tn_buf_str(&params),
                                     .deadline = deadline,
                                     .cancel = -1};
    return tn_mcp_call(peer, &call, answer, err);
}

int tn_mcp_discover(struct tn_mcp_peer *peer, const struct tn_mcp_meta *meta, int64_t deadline,
                    struct tn_rpc *answer, struct tn_error *err)
{
    if (discover_once(peer, meta, deadline, answer, err) < 0)
        return -1;
    /* It refuses the one version that we have, and says that it speaks it: once more, for it may
     * have changed its mind; there is no other request that would differ. */
    if (answer->kind == TN_RPC_ERROR && answer->code == TN_MCP_UNSUPPORTED_VERSION &&
        names(tn_json_get(answer->data, "supported"), is_modern)) {
        tn_rpc_done(answer);
        *answer = (struct tn_rpc){0};
        if (discover_once(peer, meta, deadline, answer, err) < 0)
            return -1;
    }
    const struct tn_json *versions = tn_json_get(answer->result, "supportedVersions");
    /* Sessions keep what a server knows of us, and let it ask: where they are to be had, they are
     * better. */
    if (!names(versions, tn_mcp_version_known) && names(versions, is_modern))
        return 1;
    tn_rpc_done(answer);
    *answer = (struct tn_rpc){0};
    return 0;
}

bool tn_mcp_is_input_required(const struct tn_json *result)
{
    return strcmp(tn_json_get_str(result, "resultType", ""), "input_required") == 0;
}

/* --- values of headers ------------------------------------------------------------------------ */

static const char wrap_before[] = "=?base64?", wrap_after[] = "?=";

static bool is_plain(const char *value)
{
    size_t n = strlen(value);

    for (size_t i = 0; i < n; i++)
        if (value[i] < ' ' || value[i] > '~')
            return false;
    return (n == 0 || (value[0] != ' ' && value[n - 1] != ' ')) &&
           strncmp(value, wrap_before, sizeof wrap_before - 1) != 0;
}

char *tn_mcp_header(const char *name, const char *value)
{
    struct tn_buf line = TN_BUF_INIT(TN_MCP_HEADER_MAX);

    tn_buf_printf(&line, "%s: ", name);
    if (is_plain(value)) {
        tn_buf_puts(&line, value);
    } else {
        tn_buf_puts(&line, wrap_before);
        tn_base64_encode(&line, value, strlen(value));
        tn_buf_puts(&line, wrap_after);
    }
    if (tn_buf_ok(&line))
        return tn_buf_take(&line);
    tn_buf_done(&line);
    return NULL;
}

char *tn_mcp_header_value(const char *text)
{
    size_t n = strlen(text), before = sizeof wrap_before - 1, after = sizeof wrap_after - 1;

    if (n < before + after || strncmp(text, wrap_before, before) != 0 ||
        strcmp(text + n - after, wrap_after) != 0)
        return tn_strdup(text);
    struct tn_buf value = TN_BUF_INIT(n);
    if (tn_base64_decode(&value, text + before, n - before - after, NULL) < 0 ||
        memchr(tn_buf_str(&value), '\0', value.len)) {
        tn_buf_done(&value);
        return NULL;
    }
    return tn_buf_take(&value);
}

/* --- arguments in headers --------------------------------------------------------------------- */

/* One parameter that is to be repeated in a header. */
struct param {
    const char *header;
    const struct tn_json *value; /* or NULL */
};

struct params {
    struct param items[PARAMS_MAX];
    size_t count;
    bool wrong;
    const struct tn_json *arguments;
    int depth;
};

static bool is_primitive(const char *type)
{
    return strcmp(type, "string") == 0 || strcmp(type, "integer") == 0 ||
           strcmp(type, "boolean") == 0;
}

static void add_param(struct params *p, const struct tn_json *schema, const struct tn_json *value)
{
    const char *header = tn_json_get_str(schema, ANNOTATION, "");

    p->wrong |= !*header || !tn_http_is_token(header, strlen(header)) ||
                !is_primitive(tn_json_get_str(schema, "type", "")) || p->count == PARAMS_MAX;
    for (size_t i = 0; i < p->count; i++)
        p->wrong |= strcasecmp(p->items[i].header, header) == 0;
    if (!p->wrong)
        p->items[p->count++] = (struct param){header, value};
}

static int find_params(const char *name, struct tn_json *schema, void *ctx)
{
    struct params *p = ctx;
    const struct tn_json *outer = p->arguments;
    const struct tn_json *value = tn_json_get(outer, name);

    if (tn_json_has(schema, ANNOTATION))
        add_param(p, schema, value);
    if (++p->depth < DEPTH_MAX) {
        p->arguments = value;
        tn_json_each(tn_json_get(schema, "properties"), find_params, p);
        p->arguments = outer;
    }
    p->depth--;
    return p->wrong;
}

static void read_params(const struct tn_json *tool, const struct tn_json *arguments,
                        struct params *p)
{
    *p = (struct params){.arguments = arguments};
    tn_json_each(tn_json_get(tn_json_get(tool, "inputSchema"), "properties"), find_params, p);
}

bool tn_mcp_param_headers_valid(const struct tn_json *tool)
{
    struct params p;

    read_params(tool, NULL, &p);
    return !p.wrong;
}

bool tn_mcp_param_headers_wanted(const struct tn_json *tool)
{
    struct params p;

    read_params(tool, NULL, &p);
    return p.count > 0 && !p.wrong;
}

#define SAFE_MAX 9007199254740991.0 /* what every JSON reader takes for a whole number */

/* As a header says it; NULL for what is none of the kinds that may be there. */
static char *value_text(const struct tn_json *value)
{
    double number = tn_json_double(value, 0);
    size_t n = 0;
    const char *text;

    switch (tn_json_type(value)) {
    case TN_JSON_STRING:
        text = tn_json_str(value, &n);
        return strlen(text) == n ? tn_strdup(text) : NULL;
    case TN_JSON_INT:
        return tn_asprintf("%" PRId64, tn_json_int(value, 0));
    case TN_JSON_DOUBLE:
        if (number < -SAFE_MAX || number > SAFE_MAX || number != (double)(int64_t)number)
            break;
        return tn_asprintf("%" PRId64, (int64_t)number);
    case TN_JSON_BOOL:
        return tn_strdup(tn_json_bool(value, false) ? "true" : "false");
    case TN_JSON_NULL:
    case TN_JSON_ARRAY:
    case TN_JSON_OBJECT:
        break;
    }
    return NULL;
}

char **tn_mcp_param_headers(const struct tn_json *tool, const struct tn_json *arguments,
                            struct tn_error *err)
{
    char **headers = tn_calloc(PARAMS_MAX + 1, sizeof *headers);
    struct params p;
    size_t n = 0;

    read_params(tool, arguments, &p);
    for (size_t i = 0; i < p.count; i++) {
        tn_autofree char *text = value_text(p.items[i].value);
        tn_autofree char *name = tn_asprintf("Mcp-Param-%s", p.items[i].header);
        if (text && !(headers[n++] = tn_mcp_header(name, text))) {
            tn_mcp_headers_free(headers);
            tn_fail(err, TN_E_TOO_LARGE,
                    "the tool wants an argument in the header %.80s, where at most %zu bytes have "
                    "room: it has %zu",
                    name, TN_MCP_HEADER_MAX, strlen(text));
            return NULL;
        }
    }
    return headers;
}

void tn_mcp_headers_free(char **headers)
{
    for (char **h = headers; h && *h; h++)
        free(*h);
    free(headers);
}

/* Numbers are compared as such: 42.0 is 42. */
static bool is_same(const struct tn_json *value, const char *text, const char *header)
{
    tn_autojson struct tn_json *number = NULL;
    bool numeric = tn_json_type(value) == TN_JSON_INT || tn_json_type(value) == TN_JSON_DOUBLE;

    if (strcmp(text, header) == 0)
        return true;
    if (!numeric || tn_json_parse(header, strlen(header), &number, NULL) < 0)
        return false;
    tn_autofree char *same = value_text(number);
    return same && tn_json_type(number) != TN_JSON_STRING && strcmp(same, text) == 0;
}

static int check_param(const struct param *p, const char *given, struct tn_error *err)
{
    tn_autofree char *text = value_text(p->value);
    tn_autofree char *value = given ? tn_mcp_header_value(given) : NULL;
    bool absent = !p->value || tn_json_type(p->value) == TN_JSON_NULL;

    if (absent && !given)
        return 0;
    if (!given)
        return tn_fail(err, TN_E_INVALID, "Header mismatch: Mcp-Param-%.80s header is required",
                       p->header);
    if (!text || !value || !is_same(p->value, text, value))
        return tn_fail(err, TN_E_INVALID,
                       "Header mismatch: Mcp-Param-%.80s header value '%.80s' does not match body "
                       "value '%.80s'",
                       p->header, given, text ? text : "");
    return 0;
}

int tn_mcp_param_headers_check(const struct tn_json *tool, const struct tn_json *arguments,
                               const char *(*get)(void *ctx, const char *header), void *ctx,
                               struct tn_error *err)
{
    struct params p;
    int result = 0;

    read_params(tool, arguments, &p);
    for (size_t i = 0; i < p.count && result == 0; i++) {
        tn_autofree char *name = tn_asprintf("Mcp-Param-%s", p.items[i].header);
        result = check_param(&p.items[i], get(ctx, name), err);
    }
    return result;
}
