/* What shells say about their exported variables is understood as they mean it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "hand/python/exports.h"

static const struct {
    const char *listing;
    const char *entries[4];
} rows[] = {
    {"", {NULL}},
    {"declare -x A=\"1\"\ndeclare -x B=\"two words\"\n", {"A=1", "B=two words"}},
    {"declare -x A=\"a\\\"b\\\\c\\$d\\`e\\n!\"\n", {"A=a\"b\\c$d`e\\n!"}},
    {"declare -x A=\"line 1\nline 2\"\ndeclare -x B=\"\"\n", {"A=line 1\nline 2", "B="}},
    {"declare -x A=$'\\E[0m\\t\\001\\'\\\\x'\n", {"A=\033[0m\t\001'\\x"}},
    {"declare -x EMPTY\ndeclare -ix N=\"5\"\ndeclare -rx R=\"r\"", {"N=5", "R=r"}},
    {"declare -ax L=([0]=\"a\" [1]=\"b\nc\")\ndeclare -Ax M=()\ndeclare -x A=\"1\"\n", {"A=1"}},
    {"export A='it'\"'\"'s'\nexport B='x\ny'\nexport C\n", {"A=it's", "B=x\ny"}},
    {"export A=plain\\ text\nexport B=\"$'\"\n", {"A=plain text", "B=$'"}},
    {"declare -x 1A=\"no name\"\nnonsense\n\n  \ndeclare\ndeclare -x A=\"1\"", {"A=1"}},
    {"declare -x A=\"open", {"A=open"}},
    {"declare -x A='open", {"A=open"}},
    {"declare -x A=$'open\\", {"A=open\\"}},
    {"declare -x A=$'a\\000b'\ndeclare -x B=\"1\"", {"B=1"}},
    {"declare -x A=\"1\"\nf () \n{ \n    echo \"it's\"\n}\ndeclare -fx f\n",
     {"A=1", "BASH_FUNC_f%%=() { \n    echo \"it's\"\n}"}},
    {"a.b () \n{ \n    :\n} 1>&2\ndeclare -ftx a.b\nfunction if () \n{ \n    x\n}\ndeclare -frx if\n",
     {"BASH_FUNC_a.b%%=() { \n    :\n} 1>&2", "BASH_FUNC_if%%=() { \n    x\n}"}},
    /* A here-document that looks like the end of the function. */
    {"f () \n{ \n    cat <<X\n}\ndeclare -fx f\nX\n\n}\ndeclare -fx f\ng () \n{ \n    :\n}\ndeclare -fx g\n",
     {"BASH_FUNC_f%%=() { \n    cat <<X\n}\ndeclare -fx f\nX\n\n}",
      "BASH_FUNC_g%%=() { \n    :\n}"}},
    {"declare -x A=\"\nf () \n{ \n}\ndeclare -fx f\n\"\n", {"A=\nf () \n{ \n}\ndeclare -fx f\n"}},
    {"f () \n{ \n    :\n}\ndeclare -fx g\ndeclare -x B=\"1\"\n", {NULL}},
    {"f () \n{ \n    open", {NULL}},
    {"a=b () \n{ \n    :\n}\ndeclare -fx a=b\nB () \n", {NULL}},
};

static void test_parse(void **state)
{
    for (size_t i = 0; i < TN_COUNT(rows); i++) {
        char **exports = exports_parse(rows[i].listing);
        size_t n = 0;
        for (; exports[n] && rows[i].entries[n]; n++)
            assert_string_equal(exports[n], rows[i].entries[n]);
        assert_null(exports[n]);
        assert_null(rows[i].entries[n]);
        exports_free(exports);
    }
}

static void test_many(void **state)
{
    tn_autobuf struct tn_buf listing = TN_BUF_INIT(1 << 20);

    for (int i = 0; i < 1000; i++)
        tn_buf_printf(&listing, "declare -x V%d=\"%d\"\n", i, i);
    char **exports = exports_parse(tn_buf_str(&listing));
    assert_string_equal(exports_get(exports, "V999"), "999");
    assert_null(exports_get(exports, "V"));
    exports_set(&exports, "V7", "seven");
    exports_set(&exports, "NEW", "");
    assert_string_equal(exports_get(exports, "V7"), "seven");
    assert_string_equal(exports_get(exports, "NEW"), "");
    exports_free(exports);
}

static void check_changes(const char *before, const char *after, const char *expected)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(4096);
    struct tn_jw w = tn_jw(&out);
    char **a = exports_parse(before), **b = exports_parse(after);

    tn_jw_object(&w);
    exports_put_changes(a, b, &w);
    tn_jw_object_end(&w);
    assert_string_equal(tn_buf_str(&out), expected);
    exports_free(a);
    exports_free(b);
}

static void test_changes(void **state)
{
    check_changes("export A=1\nexport B=2", "export B=2\nexport A=1", "{}");
    check_changes("export A=1\nexport B=2", "export A=3\nexport C=\"'\"",
                  "{\"A\":\"3\",\"C\":\"'\",\"B\":null}");
    check_changes("f () \n{ \n    :\n}\ndeclare -fx f\n", "g () \n{ \n    :\n}\ndeclare -fx g\n",
                  "{\"BASH_FUNC_g%%\":\"() { \\n    :\\n}\",\"BASH_FUNC_f%%\":null}");
    check_changes("export A=1", "export AB=1\nexport A=1", "{\"AB\":\"1\"}");
    check_changes("export SHLVL=1\nexport _=x\nexport TENDON_HAND=1", "export OLDPWD=/", "{}");
}

/* As many as a shell can list: each is not compared with each. */
static void test_changes_of_many(void **state)
{
    tn_autobuf struct tn_buf before = TN_BUF_INIT(8 << 20), after = TN_BUF_INIT(8 << 20);

    for (int i = 0; i < 150000; i++) {
        tn_buf_printf(&before, "declare -x V%d=\"%d\"\n", i, i);
        if (i != 777)
            tn_buf_printf(&after, "declare -x V%d=\"%d\"\n", i, i == 99999 ? 0 : i);
    }
    tn_buf_puts(&after, "declare -x V=\"new\"\n");
    check_changes(tn_buf_str(&before), tn_buf_str(&after),
                  "{\"V99999\":\"0\",\"V\":\"new\",\"V777\":null}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_changes),
        cmocka_unit_test(test_changes_of_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
