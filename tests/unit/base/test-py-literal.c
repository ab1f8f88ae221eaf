#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/py-literal.h"

static int to_json(const char *text, size_t n, struct tn_buf *out, struct tn_error *err)
{
    tn_autojson struct tn_json *tree = NULL;
    struct tn_jw w = tn_jw(out);
    if (tn_py_literal(text, n, &tree, err) < 0)
        return -1;
    tn_jw_tree(&w, tree);
    return 0;
}

static void test_values(void **state)
{
    static const struct {
        const char *python, *json;
    } cases[] = {
        {"None", "null"},
        {" True ", "true"},
        {"false", "false"},
        {"12", "12"},
        {"-0", "0"},
        {"+7", "7"},
        {"1.5e3", "1500.0"},
        {"2.", "2.0"},
        {".25", "0.25"},
        {"1E-2", "0.01"},
        {"'it\\'s'", "\"it's\""},
        {"\"say \\\"x\\\" 'y'\"", "\"say \\\"x\\\" 'y'\""},
        {"'a' \"b\"\n'c'", "\"abc\""},
        {"'\\n\\t\\\\\\a\\0\\x41\\u20ac\\U0001F600\\101'",
         "\"\\n\\t\\\\\\u0007\\u0000A\xe2\x82\xac\xf0\x9f\x98\x80"
         "A\""},
        {"'\\d \\\nx'", "\"\\\\d x\""},
        {"'\\ud800'", "\"\xef\xbf\xbd\""},
        {"'raw \xc3\xa9'", "\"raw \xc3\xa9\""},
        {"r'\\d\\''", "\"\\\\d\\\\'\""},
        {"Rb'a' u\"b\"", "\"ab\""},
        {"\"\"\"a\n\"b\" \\\"\"\"\"", "\"a\\n\\\"b\\\" \\\"\""},
        {"''''''", "\"\""},
        {"[]", "[]"},
        {"[1, [2], ]", "[1,[2]]"},
        {"()", "[]"},
        {"(1,)", "[1]"},
        {"(1, 'a')", "[1,\"a\"]"},
        {"{}", "{}"},
        {"{'a': None, \"b\": {'c': (1, 2)},}", "{\"a\":null,\"b\":{\"c\":[1,2]}}"},
        {"{\"json\": [true, null, 1e5]}", "{\"json\":[true,null,100000.0]}"},
    };
    for (size_t i = 0; i < TN_COUNT(cases); i++) {
        tn_autobuf struct tn_buf out = TN_BUF_INIT(1 << 12);
        struct tn_error err;
        if (to_json(cases[i].python, strlen(cases[i].python), &out, &err) < 0)
            fail_msg("%s: %s", cases[i].python, err.text);
        assert_string_equal(tn_buf_str(&out), cases[i].json);
    }
}

static void test_refused(void **state)
{
    static const char *const cases[] = {
        "",
        "x",
        "'open",
        "'a\nb'",
        "1 2",
        "[1 2]",
        "[1,,2]",
        "[,]",
        "{1: 2}",
        "{'a'}",
        "{'a': }",
        "(1)",
        "1e",
        "1e99999",
        "--1",
        "01",
        "'\\x4'",
        "'\\u12'",
        "'\\U00110000'",
        "'\\N{DASH}'",
        "'\\",
        "Nonesuch",
        "f''",
        "rrr''",
        "'''a''",
        "r'\\'",
        "[1, # one\n 2]",
        "__import__('os')",
        "1 + 1",
        "{'a\\0': 1}",
        "[1",
        "1_000",
        ".",
    };
    for (size_t i = 0; i < TN_COUNT(cases); i++) {
        tn_autobuf struct tn_buf out = TN_BUF_INIT(1 << 12);
        struct tn_error err = {0};
        if (to_json(cases[i], strlen(cases[i]), &out, &err) == 0)
            fail_msg("accepted: %s as %s", cases[i], tn_buf_str(&out));
        assert_int_equal(err.code, TN_E_INVALID);
    }
}

static void test_at(void **state)
{
    static const struct {
        const char *python, *json;
        size_t end;
    } cases[] = {
        {"f(12, 3)", "12", 4},
        {"f('a\nb')", "\"a\\nb\"", 7},
        {"f(# first\n('x') # then\n)", "[\"x\"]", 15},
        {"f(x", NULL, 2},
        {"f(# open", NULL, 8},
    };
    for (size_t i = 0; i < TN_COUNT(cases); i++) {
        tn_autobuf struct tn_buf out = TN_BUF_INIT(1 << 12);
        tn_autojson struct tn_json *tree = NULL;
        struct tn_jw w = tn_jw(&out);
        size_t at = 2;
        int result = tn_py_literal_at(cases[i].python, strlen(cases[i].python), &at, &tree, NULL);
        assert_int_equal(result, cases[i].json ? 0 : -1);
        assert_int_equal(at, cases[i].end);
        tn_jw_tree(&w, tree);
        assert_string_equal(tn_buf_str(&out), cases[i].json ? cases[i].json : "null");
    }
}

static void test_depth(void **state)
{
    char text[200];
    for (size_t depth = 32; depth <= 33; depth++) {
        tn_autobuf struct tn_buf out = TN_BUF_INIT(1 << 12);
        memset(text, '[', depth);
        memset(text + depth, ']', depth);
        assert_int_equal(to_json(text, 2 * depth, &out, NULL), depth == 32 ? 0 : -1);
    }
}

static void test_bytes_that_are_not_text(void **state)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(1 << 12);
    assert_int_equal(to_json("'\xff\0'", 4, &out, NULL), 0);
    assert_string_equal(tn_buf_str(&out), "\"\xef\xbf\xbd\\u0000\"");
    assert_int_equal(to_json("1e\0005", 4, &out, NULL), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_at),
        cmocka_unit_test(test_depth),
        cmocka_unit_test(test_bytes_that_are_not_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
