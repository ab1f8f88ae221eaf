#include "unit.h"

#include "hand/mcp/spec.h"

static int read_spec(const char *text, struct mcp_spec *spec, struct tn_error *err)
{
    tn_autojson struct tn_json *tree = NULL;

    assert_int_equal(tn_json_parse(text, strlen(text), &tree, NULL), 0);
    return mcp_spec_read(tree, spec, err);
}

static void test_entries(void **state)
{
    struct mcp_spec s;
    struct tn_error err;

    assert_int_equal(
        read_spec("{\"name\":\"a-_1\",\"command\":\"c\",\"args\":\"x 'y z' \\\"q\\\" ''\","
                  "\"env\":\"B=2,A=1=1, C=\"}",
                  &s, &err),
        0);
    static const char *const argv[] = {"c", "x", "y z", "q", "", NULL};
    static const char *const env[] = {"A=1=1", "B=2", "C=", NULL};
    for (int i = 0; argv[i]; i++)
        assert_string_equal(s.argv[i], argv[i]);
    assert_null(s.argv[5]);
    for (int i = 0; env[i]; i++)
        assert_string_equal(s.env[i], env[i]);
    assert_null(s.env[3]);
    assert_int_equal(s.timeout, 60);
    mcp_spec_done(&s);
}

static void test_problems(void **state)
{
    static const struct {
        const char *text, *problem;
    } rows[] = {
        {"1", "expected an object, found integer"},
        {"{\"name\":\"a b\",\"command\":\"c\"}", "name: expected letters, digits, '_' and '-'"},
        {"{\"name\":\"a\",\"command\":\"c d\"}",
         "command: expected one word (what follows belongs in args)"},
        {"{\"name\":\"a\",\"command\":\"c\",\"x\":1}",
         "unknown member x: expected name, command, args, env or timeout"},
        {"{\"name\":\"a\",\"command\":\"c\",\"args\":\"'\"}", "args: a quotation is not closed"},
        {"{\"name\":\"a\",\"command\":\"c\",\"args\":\"\\\\\"}",
         "args: nothing follows the last backslash"},
        {"{\"name\":\"a\",\"command\":\"c\",\"env\":\"1=2\"}",
         "env: expected NAME=VALUE,NAME=VALUE,..."},
        {"{\"name\":\"a\",\"command\":\"c\",\"env\":{\"A\":\"x\\u0000y\"}}",
         "env: A: expected text, found string"},
        {"{\"name\":\"a\",\"command\":\"c\",\"timeout\":3601}",
         "timeout: expected seconds from 1 to 3600"},
    };

    for (size_t i = 0; i < TN_COUNT(rows); i++) {
        struct mcp_spec s;
        struct tn_error err;
        assert_int_equal(read_spec(rows[i].text, &s, &err), -1);
        assert_string_equal(err.text, rows[i].problem);
    }
}

static void test_equality(void **state)
{
    static const char base[] = "{\"name\":\"a\",\"command\":\"c\",\"args\":[\"1\",\"2\"],"
                               "\"env\":{\"A\":\"1\",\"B\":\"2\"}}";
    static const struct {
        const char *text;
        bool equal;
    } rows[] = {
        {"{\"name\":\"a\",\"command\":\"c\",\"args\":\"1 2\",\"env\":{\"B\":\"2\",\"A\":\"1\"}}",
         true},
        {"{\"name\":\"a\",\"command\":\"c\",\"args\":\"2 1\",\"env\":\"A=1,B=2\"}", false},
        {"{\"name\":\"b\",\"command\":\"c\",\"args\":\"1 2\",\"env\":\"A=1,B=2\"}", false},
        {"{\"name\":\"a\",\"command\":\"c\",\"args\":\"1 2\",\"env\":\"A=1\"}", false},
        {"{\"name\":\"a\",\"command\":\"c\",\"args\":\"1 2\"}", false},
    };

    for (size_t i = 0; i < TN_COUNT(rows); i++) {
        struct mcp_spec a, b;
        assert_int_equal(read_spec(base, &a, NULL), 0);
        assert_int_equal(read_spec(rows[i].text, &b, NULL), 0);
        assert_int_equal(mcp_spec_equal(&a, &b), rows[i].equal);
        assert_int_equal(mcp_spec_equal(&b, &a), rows[i].equal);
        mcp_spec_done(&a);
        mcp_spec_done(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_entries),
        cmocka_unit_test(test_problems),
        cmocka_unit_test(test_equality),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
