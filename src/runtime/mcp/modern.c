#include "runtime/mcp/modern.h"

#include <inttypes.h>
#include <strings.h>

#include "base/base64.h"
#include "net/http-parse.h"

#define META "io.modelcontextprotocol/"
#define ANNOTATION "x-mcp-header"
enum { UNSUPPORTED_VERSION = -32022, PARAMS_MAX = 64, DEPTH_MAX = 8 };

/* --- the body --------------------------------------------------------------------------------- */

const char *mcp_capabilities(bool asks)
{
    return asks ? "{\"elicitation\":{\"form\":{}}}" : "{}";
}

void mcp_put_meta(struct tn_jw *w, bool asks)
{
    const char *capabilities = mcp_capabilities(asks);

    tn_jw_key(w, "_meta");
    tn_jw_object(w);
    tn_jw_kstr(w, META "protocolVersion", MCP_MODERN);
    tn_jw_key(w, META "clientInfo");
    tn_jw_object(w);
    tn_jw_kstr(w, "name", "tendon");
    tn_jw_kstr(w, "version", TN_VERSION);
    tn_jw_object_end(w);
    tn_jw_key(w, META "clientCapabilities");
    tn_jw_raw(w, capabilities, strlen(capabilities));
    tn_jw_object_end(w);
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
    return strcmp(version, MCP_MODERN) == 0;
}

static int discover_once(struct tn_mcp_peer *peer, bool asks, int64_t deadline,
                         struct tn_rpc *answer, struct tn_error *err)
{
    tn_autobuf struct tn_buf params = TN_BUF_INIT(1 << 16);
    struct tn_jw w = tn_jw(&params);

    tn_jw_object(&w);
    mcp_put_meta(&w, asks);
    tn_jw_object_end(&w);
    const struct tn_mcp_call call = {.method = "server/discover",
                                     .params = tn_buf_str(&params),
                                     .deadline = deadline,
                                     .cancel = -1};
    return tn_mcp_call(peer, &call, answer, err);
}

int mcp_discover(struct tn_mcp_peer *peer, bool asks, int64_t deadline,
                 struct tn_json **capabilities, struct tn_error *err)
{
    tn_autorpc struct tn_rpc answer = {0};

    if (discover_once(peer, asks, deadline, &answer, err) < 0)
        return -1;
    if (answer.kind == TN_RPC_ERROR && answer.code == UNSUPPORTED_VERSION &&
        names(tn_json_get(answer.data, "supported"), is_modern)) {
        tn_rpc_done(&answer);
        if (discover_once(peer, asks, deadline, &answer, err) < 0)
            return -1;
    }
    const struct tn_json *versions = tn_json_get(answer.result, "supportedVersions");
    /* Sessions keep what a server knows of us, and let it ask: where they are to be had, they are
     * better. */
    if (names(versions, tn_mcp_version_known) || !names(versions, is_modern))
        return 0;
    *capabilities = tn_json_copy(tn_json_get(answer.result, "capabilities"));
    return 1;
}

/* --- headers ---------------------------------------------------------------------------------- */

static bool is_plain(const char *value)
{
    size_t n = strlen(value);

    for (size_t i = 0; i < n; i++)
        if (value[i] < ' ' || value[i] > '~')
            return false;
    return (n == 0 || (value[0] != ' ' && value[n - 1] != ' ')) &&
           strncmp(value, "=?base64?", 9) != 0;
}

char *mcp_header(const char *name, const char *value)
{
    struct tn_buf line = TN_BUF_INIT((size_t)1 << 20);

    tn_buf_printf(&line, "%s: ", name);
    if (is_plain(value)) {
        tn_buf_puts(&line, value);
    } else {
        tn_buf_puts(&line, "=?base64?");
        tn_base64_encode(&line, value, strlen(value));
        tn_buf_puts(&line, "?=");
    }
    return tn_buf_take(&line);
}

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

bool mcp_param_headers_valid(const struct tn_json *tool)
{
    struct params p;

    read_params(tool, NULL, &p);
    return !p.wrong;
}

/* As a header says it; NULL for what is none of the kinds that may be there. */
static char *value_text(const struct tn_json *value)
{
    switch (tn_json_type(value)) {
    case TN_JSON_STRING:
        return tn_strdup(tn_json_str(value, NULL));
    case TN_JSON_INT:
        return tn_asprintf("%" PRId64, tn_json_int(value, 0));
    case TN_JSON_BOOL:
        return tn_strdup(tn_json_bool(value, false) ? "true" : "false");
    case TN_JSON_NULL:
    case TN_JSON_DOUBLE:
    case TN_JSON_ARRAY:
    case TN_JSON_OBJECT:
        break;
    }
    return NULL;
}

char **mcp_param_headers(const struct tn_json *tool, const struct tn_json *arguments)
{
    char **headers = tn_calloc(PARAMS_MAX + 1, sizeof *headers);
    struct params p;
    size_t n = 0;

    read_params(tool, arguments, &p);
    for (size_t i = 0; i < p.count; i++) {
        tn_autofree char *text = value_text(p.items[i].value);
        tn_autofree char *name = tn_asprintf("Mcp-Param-%s", p.items[i].header);
        if (text)
            headers[n++] = mcp_header(name, text);
    }
    return headers;
}

void mcp_headers_free(char **headers)
{
    for (char **h = headers; h && *h; h++)
        free(*h);
    free(headers);
}
