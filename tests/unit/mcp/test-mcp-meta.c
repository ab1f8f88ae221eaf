/* What requests say of themselves in the revision without sessions. */
#include "mcp/meta.h"
#include "unit.h"

static void test_headers(void **state)
{
    static const struct {
        const char *value, *line;
    } rows[] = {
        {"plain text", "N: plain text"},
        {"", "N: "},
        {" x", "N: =?base64?IHg=?="},
        {"a\nb", "N: =?base64?YQpi?="},
        {"\xc3\xa4", "N: =?base64?w6Q=?="},
        {"=?base64?eA==?=", "N: =?base64?PT9iYXNlNjQ/ZUE9PT89?="},
    };

    for (size_t i = 0; i < TN_COUNT(rows); i++) {
        tn_autofree char *line = tn_mcp_header("N", rows[i].value);
        assert_string_equal(line, rows[i].line);
        tn_autofree char *value = tn_mcp_header_value(line + strlen("N: "));
        assert_string_equal(value, rows[i].value);
    }
}

static void test_params(void **state)
{
    static const char text[] =
        "{\"inputSchema\":{\"properties\":{\"a\":{\"type\":\"string\",\"x-mcp-header\":\"A\"},"
        "\"b\":{\"type\":\"object\",\"properties\":{\"c\":{\"type\":\"integer\",\"x-mcp-header\":"
        "\"C\"}}},\"d\":{\"type\":\"boolean\",\"x-mcp-header\":\"D\"}}}}";
    static const char given[] = "{\"a\":\"x\",\"b\":{\"c\":-3},\"d\":null}";
    tn_autojson struct tn_json *tool = NULL, *arguments = NULL;

    tn_json_parse(text, strlen(text), &tool, NULL);
    tn_json_parse(given, strlen(given), &arguments, NULL);
    assert_true(tn_mcp_param_headers_valid(tool));
    char **headers = tn_mcp_param_headers(tool, arguments, NULL);
    assert_string_equal(headers[0], "Mcp-Param-A: x");
    assert_string_equal(headers[1], "Mcp-Param-C: -3");
    assert_null(headers[2]);
    tn_mcp_headers_free(headers);
}

static void test_too_long(void **state)
{
    static const char text[] = "{\"inputSchema\":{\"properties\":{\"a\":{\"type\":\"string\","
                               "\"x-mcp-header\":\"A\"}}}}";
    tn_autobuf struct tn_buf given = TN_BUF_INIT(4 << 20);
    tn_autojson struct tn_json *tool = NULL, *arguments = NULL;
    struct tn_error err;

    tn_buf_puts(&given, "{\"a\":\"");
    while (given.len < TN_MCP_HEADER_MAX)
        tn_buf_puts(&given, "0123456789");
    tn_buf_puts(&given, "\"}");
    tn_json_parse(text, strlen(text), &tool, NULL);
    assert_int_equal(tn_json_parse(tn_buf_str(&given), given.len, &arguments, NULL), 0);
    assert_null(tn_mcp_param_headers(tool, arguments, &err));
    assert_int_equal(err.code, TN_E_TOO_LARGE);
    assert_non_null(strstr(err.text, "Mcp-Param-A"));
}

static void test_malformed_values(void **state)
{
    static const char *const rows[] = {
        "=?base64?SGVsbG8?=", "=?base64?SGVs!!!bG8=?=", "=?base64?AA==?="};

    for (size_t i = 0; i < TN_COUNT(rows); i++)
        assert_null(tn_mcp_header_value(rows[i]));
}

static const char *get_header(void *ctx, const char *header)
{
    return strcmp(header, "Mcp-Param-A") == 0 ? ctx : NULL;
}

static void test_check(void **state)
{
    static const struct {
        const char *type, *arguments, *header;
        bool agrees;
    } rows[] = {
        {"string", "{\"a\":\"x\"}", "x", true},
        {"string", "{\"a\":\"x\"}", "=?base64?eA==?=", true},
        {"string", "{\"a\":\"x\"}", "y", false},
        {"string", "{\"a\":\"x\"}", NULL, false},
        {"string", "{\"a\":\"x\\u0000y\"}", "x", false},
        {"string", "{\"a\":\"x\\u0000y\"}", NULL, false},
        {"string", "{\"a\":null}", NULL, true},
        {"string", "{\"a\":null}", "", false},
        {"string", "{}", NULL, true},
        {"string", "{}", "x", false},
        {"string", "{\"a\":\"42\"}", "42.0", false},
        {"integer", "{\"a\":42}", "42", true},
        {"integer", "{\"a\":42}", "42.0", true},
        {"integer", "{\"a\":42.0}", "42", true},
        {"integer", "{\"a\":42.0}", NULL, false},
        {"integer", "{\"a\":42}", "43", false},
        {"integer", "{\"a\":42}", "\"42\"", false},
        {"integer", "{\"a\":[42]}", "42", false},
        {"boolean", "{\"a\":true}", "true", true},
        {"boolean", "{\"a\":false}", "true", false},
    };

    for (size_t i = 0; i < TN_COUNT(rows); i++) {
        tn_autofree char *text =
            tn_asprintf("{\"inputSchema\":{\"properties\":{\"a\":{\"type\":\"%s\","
                        "\"x-mcp-header\":\"A\"}}}}",
                        rows[i].type);
        tn_autojson struct tn_json *tool = NULL, *arguments = NULL;
        struct tn_error err;
        tn_json_parse(text, strlen(text), &tool, NULL);
        tn_json_parse(rows[i].arguments, strlen(rows[i].arguments), &arguments, NULL);
        assert_true(tn_mcp_param_headers_wanted(tool));
        int result = tn_mcp_param_headers_check(tool, arguments, get_header,
                                                (void *)(uintptr_t)rows[i].header, &err);
        if ((result == 0) != rows[i].agrees)
            fail_msg("%s with %s", rows[i].arguments, rows[i].header ? rows[i].header : "nothing");
    }
}

static void test_put_params(void **state)
{
    static const struct tn_mcp_meta meta = {"n", "1", "{}", "info"};
#define OURS                                                                     \
    "{\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","    \
    "\"io.modelcontextprotocol/clientInfo\":{\"name\":\"n\",\"version\":\"1\"}," \
    "\"io.modelcontextprotocol/clientCapabilities\":{},"                         \
    "\"io.modelcontextprotocol/logLevel\":\"info\""
    static const struct {
        const char *params, *inputs, *out;
    } rows[] = {
        {"", "", OURS "}}"},
        {"{\"a\":1}", "", OURS "},\"a\":1}"},
        {"{\"_meta\":{\"x\":2,\"io.modelcontextprotocol/logLevel\":\"debug\"},\"a\":1}", "",
         OURS ",\"x\":2},\"a\":1}"},
        {"{\"inputResponses\":{\"old\":1},\"requestState\":\"s\"}", "",
         OURS "},\"inputResponses\":{\"old\":1},\"requestState\":\"s\"}"},
        {"{\"inputResponses\":{\"old\":1},\"requestState\":\"s\"}", "\"inputResponses\":{}",
         OURS "},\"inputResponses\":{}}"},
    };

    for (size_t i = 0; i < TN_COUNT(rows); i++) {
        tn_autobuf struct tn_buf out = TN_BUF_INIT(1 << 16);
        struct tn_error err;
        assert_int_equal(tn_mcp_put_params(&out, rows[i].params, rows[i].inputs, &meta, &err), 0);
        assert_string_equal(tn_buf_str(&out), rows[i].out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_headers),  cmocka_unit_test(test_params),
        cmocka_unit_test(test_too_long), cmocka_unit_test(test_malformed_values),
        cmocka_unit_test(test_check),    cmocka_unit_test(test_put_params),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
