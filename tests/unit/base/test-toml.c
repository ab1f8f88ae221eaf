/* The accessors and limits; what is TOML and what is not is checked by tests/base/test_toml.py. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/toml.h"

static struct tn_toml *parse(const char *text)
{
    struct tn_error err;
    struct tn_toml *root = tn_toml_parse(text, strlen(text), &err);
    if (!root)
        fail_msg("%s", err.text);
    return root;
}

static void assert_refused(const char *text, const char *why)
{
    struct tn_error err = {0};
    struct tn_toml *root = tn_toml_parse(text, strlen(text), &err);
    tn_toml_free(root);
    assert_null(root);
    assert_string_equal(err.text, why);
}

static void test_values(void **state)
{
    tn_autotoml struct tn_toml *root = parse("title = \"Tendon\"\n"
                                             "port = 3_000\n"
                                             "ratio = 2.5\n"
                                             "on = true\n"
                                             "when = 1979-05-27 07:32:00Z\n"
                                             "list = [1, [2], {x = 3}]\n"
                                             "[runtime.docker]\n"
                                             "image = 'python:3.12'\n");
    assert_int_equal(tn_toml_type(root), TN_TOML_TABLE);
    assert_int_equal(tn_toml_count(root), 7);
    assert_string_equal(tn_toml_get_str(root, "title", "-"), "Tendon");
    assert_int_equal(tn_toml_int(tn_toml_get(root, "port"), 0), 3000);
    assert_true(tn_toml_double(tn_toml_get(root, "ratio"), 0) == 2.5);
    assert_true(tn_toml_double(tn_toml_get(root, "port"), 0) == 3000);
    assert_true(tn_toml_bool(tn_toml_get(root, "on"), false));
    assert_int_equal(tn_toml_type(tn_toml_get(root, "when")), TN_TOML_DATETIME);
    assert_string_equal(tn_toml_str(tn_toml_get(root, "when"), NULL), "1979-05-27 07:32:00Z");
    const struct tn_toml *list = tn_toml_get(root, "list");
    assert_int_equal(tn_toml_count(list), 3);
    assert_int_equal(tn_toml_int(tn_toml_at(list, 0), 0), 1);
    assert_int_equal(tn_toml_int(tn_toml_get(tn_toml_at(list, 2), "x"), 0), 3);
    const struct tn_toml *docker = tn_toml_get(tn_toml_get(root, "runtime"), "docker");
    assert_string_equal(tn_toml_get_str(docker, "image", "-"), "python:3.12");
}

static void test_wrong_types_give_the_fallback(void **state)
{
    tn_autotoml struct tn_toml *root = parse("s = 'x'\ni = 1\nd = 1979-05-27\na = [1]");
    const struct tn_toml *s = tn_toml_get(root, "s"), *i = tn_toml_get(root, "i");
    assert_int_equal(tn_toml_int(s, -1), -1);
    assert_true(tn_toml_double(s, -1) == -1);
    assert_true(tn_toml_bool(s, true));
    assert_null(tn_toml_str(i, NULL));
    assert_string_equal(tn_toml_get_str(root, "i", "-"), "-");
    assert_string_equal(tn_toml_get_str(root, "d", "-"), "-"); /* a date is no string */
    assert_string_equal(tn_toml_get_str(root, "missing", "-"), "-");
    assert_null(tn_toml_get(s, "x"));
    assert_null(tn_toml_at(s, 0));
    assert_null(tn_toml_at(tn_toml_get(root, "a"), 1));
    assert_null(tn_toml_key_at(tn_toml_get(root, "a"), 0, NULL));
    assert_int_equal(tn_toml_count(s), 0);
    assert_null(tn_toml_get(NULL, "x"));
    assert_null(tn_toml_at(NULL, 0));
    assert_null(tn_toml_str(NULL, NULL));
    assert_int_equal(tn_toml_int(NULL, 5), 5);
    assert_int_equal(tn_toml_count(NULL), 0);
    assert_int_equal(tn_toml_line(NULL), 0);
    assert_string_equal(tn_toml_type_name(NULL), "nothing");
    assert_string_equal(tn_toml_type_name(i), "integer");
}

static void test_keys_in_order(void **state)
{
    size_t len;
    tn_autotoml struct tn_toml *root = parse("b = 1\n\"a\\u0000c\" = 2\n[z]\n[y]");
    assert_string_equal(tn_toml_key_at(root, 0, NULL), "b");
    assert_memory_equal(tn_toml_key_at(root, 1, &len), "a\0c", 4);
    assert_int_equal(len, 3);
    assert_string_equal(tn_toml_key_at(root, 2, NULL), "z");
    assert_string_equal(tn_toml_key_at(root, 3, NULL), "y");
    assert_null(tn_toml_key_at(root, 4, NULL));
    assert_null(tn_toml_get(root, "a")); /* not the one with the NUL */
}

static void test_string_length(void **state)
{
    size_t len;
    tn_autotoml struct tn_toml *root = parse("s = \"a\\u0000b\"");
    assert_memory_equal(tn_toml_str(tn_toml_get(root, "s"), &len), "a\0b", 4);
    assert_int_equal(len, 3);
}

static void test_lines(void **state)
{
    tn_autotoml struct tn_toml *root =
        parse("\na = 1\nb = '''\n\n'''\nc = [\n1,\n2]\n[t.u]\n[t]\n");
    assert_int_equal(tn_toml_line(tn_toml_get(root, "a")), 2);
    assert_int_equal(tn_toml_line(tn_toml_get(root, "b")), 3);
    assert_int_equal(tn_toml_line(tn_toml_get(root, "c")), 6);
    assert_int_equal(tn_toml_line(tn_toml_at(tn_toml_get(root, "c"), 1)), 8);
    assert_int_equal(tn_toml_line(tn_toml_get(root, "t")), 10);
}

static void test_many_keys_are_all_found(void **state)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(1 << 20);
    for (int i = 0; i < 20000; i++)
        tn_buf_printf(&text, "key-%d = %d\n", i, i);
    tn_autotoml struct tn_toml *root = parse(tn_buf_str(&text));
    for (int i = 0; i < 20000; i++) {
        char key[20];
        snprintf(key, sizeof key, "key-%d", i);
        assert_int_equal(tn_toml_int(tn_toml_get(root, key), -1), i);
    }
    assert_null(tn_toml_get(root, "key-20000"));
}

static void test_messages(void **state)
{
    assert_refused("a = ", "TOML: line 1, column 5: expected a value, found the end of the file");
    assert_refused("a = 1\n[b\n",
                   "TOML: line 2, column 3: expected ']', found the end of the line");
    assert_refused("a = 08", "TOML: line 1, column 5: '08' is a number with a leading zero");
    assert_refused("a = 1\na = 2", "TOML: line 2, column 1: 'a' is defined already (line 1)");
    assert_refused("x = é", "TOML: line 1, column 5: expected a value, found 'é'");
    assert_refused(
        "x = \"\x01\"",
        "TOML: line 1, column 6: expected the closing '\"', found control character 0x01");
    assert_refused("x = '\xff'", "TOML: line 1, column 6: byte 0xff is not valid UTF-8");
}

static void test_limits(void **state)
{
    struct tn_error err;
    tn_autofree char *large = tn_malloc(TN_TOML_BYTES_MAX + 1);
    memset(large, '\n', TN_TOML_BYTES_MAX + 1);
    tn_autotoml struct tn_toml *just = tn_toml_parse(large, TN_TOML_BYTES_MAX, &err);
    assert_non_null(just);
    assert_null(tn_toml_parse(large, TN_TOML_BYTES_MAX + 1, &err));
    assert_int_equal(err.code, TN_E_TOO_LARGE);

    /* A megabyte of open brackets must not exhaust the stack. */
    memset(large, '[', TN_TOML_BYTES_MAX);
    memcpy(large, "a = ", 4);
    assert_null(tn_toml_parse(large, TN_TOML_BYTES_MAX, &err));
    assert_non_null(strstr(err.text, "levels deep"));
}

/* Reads only len bytes: the sanitizer sees one byte more. */
static void test_never_reads_past_the_end(void **state)
{
    static const char text[] =
        "a.\"b\\u00e9\" = [1_0, 0xf, 1979-05-27 07:32:00.5+01:00, '''x''']\r\n"
        "[[t.'u']] # comment\nv = { w = \"\"\"\\\n  y\"\"\" , z = -inf }\n";
    for (size_t n = 0; n <= sizeof text - 1; n++) {
        tn_autofree char *exact = tn_malloc(n);
        memcpy(exact, text, n);
        tn_toml_free(tn_toml_parse(exact, n, NULL));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_wrong_types_give_the_fallback),
        cmocka_unit_test(test_keys_in_order),
        cmocka_unit_test(test_string_length),
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_many_keys_are_all_found),
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_never_reads_past_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
