/* Requests of the revision without sessions: three lines, a tool, the params of a call of it, and a
 * header's value.  What a client makes of them is what a server takes. */
#include <assert.h>
#include <stdint.h>
#include <strings.h>

#include "mcp/meta.h"

/* The value in "Name: value" lines, as HTTP would hand it over. */
static const char *get_header(void *ctx, const char *name)
{
    size_t n = strlen(name);

    for (char **h = ctx; *h; h++) {
        if (strncasecmp(*h, name, n) == 0 && (*h)[n] == ':')
            return *h + n + 2;
    }
    return NULL;
}

static const char *get_same(void *ctx, const char *name)
{
    return ctx;
}

/* A string with a NUL, a fraction or a list has no header, and is refused without one. */
static void check_headers(const struct tn_json *tool, const struct tn_json *arguments,
                          const char *value)
{
    struct tn_error err;
    char **headers = tn_mcp_param_headers(tool, arguments, &err);

    if (!headers) {
        assert(err.code == TN_E_TOO_LARGE);
        return;
    }
    for (char **h = headers; *h; h++) {
        assert(!strpbrk(*h, "\r\n"));
        tn_autofree char *back = tn_mcp_header_value(strchr(*h, ':') + 2);
        assert(back);
    }
    if (tn_mcp_param_headers_check(tool, arguments, get_header, headers, &err) < 0)
        assert(strstr(err.text, "is required"));
    tn_mcp_param_headers_check(tool, arguments, get_same, (void *)(uintptr_t)value, &err);
    tn_mcp_headers_free(headers);
}

static void check_params(const char *params)
{
    static const struct tn_mcp_meta meta = {"n", "1", "{}", "info"};
    tn_autobuf struct tn_buf out = TN_BUF_INIT(4 << 20), again = TN_BUF_INIT(4 << 20);
    tn_autojson struct tn_json *tree = NULL;

    if (tn_mcp_put_params(&out, params, "\"inputResponses\":{}", &meta, NULL) < 0 ||
        !tn_buf_ok(&out))
        return;
    assert(tn_json_parse(tn_buf_str(&out), out.len, &tree, NULL) == 0);
    const struct tn_json *own = tn_json_get(tree, "_meta");
    assert(strcmp(tn_json_get_str(own, TN_MCP_META "protocolVersion", ""), TN_MCP_MODERN) == 0);
    assert(!tn_json_has(tree, "requestState"));
    assert(tn_mcp_put_params(&again, tn_buf_str(&out), "", &meta, NULL) == 0);
    tn_mcp_is_input_required(tree);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tn_autofree char *text = tn_strndup((const char *)data, size);
    char *params = strchr(text, '\n'), *value = params ? strchr(params + 1, '\n') : NULL;
    tn_autojson struct tn_json *tool = NULL, *call = NULL;

    if (!value)
        return 0;
    *params++ = *value++ = '\0';
    free(tn_mcp_header_value(value));
    tn_autofree char *line = tn_mcp_header("N", value);
    if (line) {
        tn_autofree char *back = tn_mcp_header_value(line + 3);
        assert(back && strcmp(back, value) == 0);
    }
    check_params(params);
    if (tn_json_parse(text, strlen(text), &tool, NULL) == 0 &&
        tn_json_parse(params, strlen(params), &call, NULL) == 0 && tn_mcp_param_headers_valid(tool))
        check_headers(tool, tn_json_get(call, "arguments"), value);
    return 0;
}
