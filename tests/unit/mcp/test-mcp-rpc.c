#include "unit.h"

#include "mcp/rpc.h"

static const struct {
    const char *text;
    int kind; /* -1: no JSON, -2: no message */
} messages[] = {
    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\"}", TN_RPC_REQUEST},
    {"{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"method\":\"m\",\"params\":{}}", TN_RPC_REQUEST},
    {"{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"m\",\"params\":[1]}", TN_RPC_REQUEST},
    {"{\"jsonrpc\":\"2.0\",\"method\":\"m\"}", TN_RPC_NOTIFICATION},
    {"{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"params\":null}", TN_RPC_NOTIFICATION},
    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}", TN_RPC_RESULT},
    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":null}", TN_RPC_RESULT},
    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":5,\"message\":\"no\"}}", TN_RPC_ERROR},
    {"{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":5,\"message\":\"no\"}}", TN_RPC_ERROR},
    {"{\"jsonrpc\":\"2.0\",\"error\":{}}", TN_RPC_ERROR},
    {"", -1},
    {"{", -1},
    {"{} {}", -1},
    {"null", -2},
    {"[]", -2},
    {"\"x\"", -2},
    {"{}", -2},
    {"{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"m\"}", -2},
    {"{\"jsonrpc\":2.0,\"id\":1,\"method\":\"m\"}", -2},
    {"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"m\"}", -2},
    {"{\"jsonrpc\":\"2.0\",\"id\":[],\"method\":\"m\"}", -2},
    {"{\"jsonrpc\":\"2.0\",\"id\":1e999,\"method\":\"m\"}", -2},
    {"{\"jsonrpc\":\"2.0\",\"id\":-1e999,\"result\":{}}", -2},
    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":5}", -2},
    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":5}", -2},
    {"{\"jsonrpc\":\"2.0\",\"id\":1}", -2},
    {"{\"jsonrpc\":\"2.0\",\"result\":{}}", -2},
    {"{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{}}", -2},
    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{},\"error\":{}}", -2},
};

static void test_parse(void **state)
{
    for (size_t i = 0; i < TN_COUNT(messages); i++) {
        struct tn_error err = {0};
        struct tn_rpc m;
        int result = tn_rpc_parse(messages[i].text, strlen(messages[i].text), &m, &err);
        if (messages[i].kind >= 0) {
            assert_int_equal(result, 0);
            assert_int_equal(m.kind, messages[i].kind);
            tn_rpc_done(&m);
        } else {
            assert_int_equal(result, -1);
            assert_int_equal(err.code, messages[i].kind == -1 ? TN_E_INVALID : TN_E_UNPROCESSABLE);
        }
    }
}

static void test_error_members(void **state)
{
    static const char text[] = "{\"jsonrpc\":\"2.0\",\"id\":3,\"error\":{\"code\":-32601,"
                               "\"message\":\"no\",\"data\":[1]}}";
    struct tn_rpc m;

    assert_int_equal(tn_rpc_parse(text, sizeof text - 1, &m, NULL), 0);
    assert_int_equal(m.code, -32601);
    assert_string_equal(m.message, "no");
    assert_int_equal(tn_json_count(m.data), 1);
    tn_rpc_done(&m);
}

static void check(struct tn_buf *b, const char *expected)
{
    assert_string_equal(tn_buf_str(b), expected);
    tn_buf_reset(b);
}

static void test_write(void **state)
{
    tn_autobuf struct tn_buf b = TN_BUF_INIT(4096);
    tn_autojson struct tn_json *id = NULL;

    assert_int_equal(tn_json_parse("\"a\"", 3, &id, NULL), 0);
    tn_rpc_put_request(&b, 7, "m", "");
    check(&b, "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"m\"}");
    tn_rpc_put_request(&b, 7, "m", "{\"x\":1}");
    check(&b, "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"m\",\"params\":{\"x\":1}}");
    tn_rpc_put_notification(&b, "n", NULL);
    check(&b, "{\"jsonrpc\":\"2.0\",\"method\":\"n\"}");
    tn_rpc_put_result(&b, id, "");
    check(&b, "{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"result\":{}}");
    tn_rpc_put_error(&b, NULL, -1, "no\nno", NULL);
    check(&b, "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-1,\"message\":\"no\\nno\"}}");
    tn_rpc_put_error(&b, id, -1, "x", "[2]");
    check(&b, "{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"error\":{\"code\":-1,\"message\":\"x\","
              "\"data\":[2]}}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse),
        cmocka_unit_test(test_error_members),
        cmocka_unit_test(test_write),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
