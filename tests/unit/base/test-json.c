#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/json.h"

#define OUT_MAX ((size_t)1 << 24)

static struct tn_json *parse(const char *text)
{
    struct tn_json *tree;
    struct tn_error err = {0};
    if (tn_json_parse(text, strlen(text), &tree, &err) < 0)
        fail_msg("%s: %s", text, err.text);
    return tree;
}

/* What comes out when the text is read and written again. */
static void assert_rewritten(const char *text, const char *expected)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(OUT_MAX);
    tn_autojson struct tn_json *tree = parse(text);
    struct tn_jw w = tn_jw(&out);
    tn_jw_tree(&w, tree);
    assert_string_equal(tn_buf_str(&out), expected);
}

static void test_reads_every_kind(void **state)
{
    static const char *const same[] = {
        "null",
        "true",
        "false",
        "0",
        "-1",
        "9223372036854775807",
        "-9223372036854775808",
        "1.5",
        "\"\"",
        "[]",
        "{}",
        "[1,2.5,\"x\",null,true,[],{}]",
        "{\"a\":1,\"b\":{\"c\":[{\"d\":null}]},\"\":0}",
        "\"\xc3\xa9\xe2\x98\x83\xf0\x9f\x98\x80\"",
    };
    for (size_t i = 0; i < TN_COUNT(same); i++)
        assert_rewritten(same[i], same[i]);
    assert_rewritten(" \t\r\n [ 1 , { \"a\" : 2 } ] \n", "[1,{\"a\":2}]");
    assert_rewritten("-0", "0");
    assert_rewritten("{\"a\":1,\"a\":2}", "{\"a\":2}");
}

static void test_numbers(void **state)
{
    assert_rewritten("1e5", "100000.0");
    assert_rewritten("1E+2", "100.0");
    assert_rewritten("25e-1", "2.5");
    assert_rewritten("-0.0", "-0.0");
    assert_rewritten("9223372036854775808", "9.223372036854776e+18");
    assert_rewritten("-9223372036854775809", "-9.223372036854776e+18");
    assert_rewritten("123456789012345678901234567890", "1.2345678901234568e+29");
    assert_rewritten("1e400", "null");
}

static void test_strings(void **state)
{
    assert_rewritten("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\\"\\\\/\\b\\f\\n\\r\\t\"");
    assert_rewritten("\"\\u0041\\u00e9\\u2603\\ud83d\\ude00\"",
                     "\"A\xc3\xa9\xe2\x98\x83\xf0\x9f\x98\x80\"");
    assert_rewritten("\"\\u001f\\u007f\"", "\"\\u001f\x7f\"");
    /* halves of pairs, as Python writes undecodable file names */
    assert_rewritten("\"\\ud83dx\"", "\"\xef\xbf\xbdx\"");
    assert_rewritten("\"\\ude00\"", "\"\xef\xbf\xbd\"");
    assert_rewritten("\"\\ud83d\\ud83d\\ude00\"", "\"\xef\xbf\xbd\xf0\x9f\x98\x80\"");
    assert_rewritten("\"\\ud83d\\u0041\"", "\"\xef\xbf\xbd\x41\"");
}

static void test_nul_is_kept(void **state)
{
    size_t len;
    tn_autojson struct tn_json *tree = parse("\"a\\u0000b\"");
    const char *s = tn_json_str(tree, &len);
    assert_int_equal(len, 3);
    assert_memory_equal(s, "a\0b", 4);
    assert_rewritten("\"a\\u0000b\"", "\"a\\u0000b\"");
}

static void test_refuses(void **state)
{
    static const char *const bad[] = {
        "",
        " ",
        "nul",
        "nulll",
        "tru",
        "True",
        "NaN",
        "Infinity",
        "-Infinity",
        "inf",
        "01",
        "-01",
        "+1",
        "-",
        "1.",
        ".5",
        "1.e5",
        "1e",
        "1e+",
        "0x10",
        "1_000",
        "1 2",
        "1x",
        "'a'",
        "\"",
        "\"a",
        "\"\\\"",
        "\"\\x41\"",
        "\"\\u12\"",
        "\"\\u12g4\"",
        "\"\\",
        "\"a\nb\"",
        "\"a\tb\"",
        "\"\x01\"",
        "[",
        "]",
        "[1",
        "[1,",
        "[1,]",
        "[,1]",
        "[1 2]",
        "[1}",
        "{",
        "}",
        "{\"a\"",
        "{\"a\":",
        "{\"a\":1",
        "{\"a\":1,}",
        "{a:1}",
        "{1:2}",
        "{\"a\" 1}",
        "{,}",
        "{\"a\":1 \"b\":2}",
        "/*c*/1",
        "1 // c",
        "\xef\xbb\xbf[]",
        "\"\xff\"",
        "\"\xc0\xaf\"",
        "\"\xed\xa0\x80\"",
        "\"\xf4\x90\x80\x80\"",
        "\"\xe2\x98\"",
        "\"\xe2\x98",
        "\xc3\xa9",
        "{\"a\\u0000\":1}",
        "[] []",
        "\f1",
        "\x00",
    };
    for (size_t i = 0; i < TN_COUNT(bad); i++) {
        struct tn_json *tree = (void *)1;
        struct tn_error err = {0};
        if (tn_json_parse(bad[i], strlen(bad[i]), &tree, &err) == 0)
            fail_msg("accepted: %s", bad[i]);
        assert_null(tree);
        assert_int_equal(err.code, TN_E_INVALID);
        assert_int_equal(strncmp(err.text, "JSON: ", 6), 0);
    }
    struct tn_json *tree;
    assert_int_equal(tn_json_parse("1\0", 2, &tree, NULL), -1);
    assert_int_equal(tn_json_parse("\"a\0b\"", 5, &tree, NULL), -1);
}

static void test_error_says_where(void **state)
{
    struct tn_json *tree;
    struct tn_error err;
    tn_json_parse("{\"a\": x}", 8, &tree, &err);
    assert_string_equal(err.text, "JSON: expected a value at byte 6, found 'x'");
    tn_json_parse("[1", 2, &tree, &err);
    assert_string_equal(err.text, "JSON: expected ',' or ']' at byte 2, found the end");
}

/* Reads only len bytes: the sanitizer sees one byte more. */
static void test_never_reads_past_the_end(void **state)
{
    static const char text[] = "{\"key\\u00e9\":[1.5e3,\"\xf0\x9f\x98\x80\\n\",true,null]}";
    for (size_t n = 0; n < sizeof text - 1; n++) {
        tn_autofree char *exact = tn_malloc(n);
        struct tn_json *tree;
        memcpy(exact, text, n);
        assert_int_equal(tn_json_parse(exact, n, &tree, NULL), -1);
    }
}

static void nested(char *out, int depth)
{
    memset(out, '[', (size_t)depth);
    memset(out + depth, ']', (size_t)depth);
    out[2 * depth] = '\0';
}

static void test_depth(void **state)
{
    char text[300];
    struct tn_json *tree;
    nested(text, 64);
    assert_rewritten(text, text);
    nested(text, 65);
    assert_int_equal(tn_json_parse(text, strlen(text), &tree, NULL), -1);
    /* siblings do not add up */
    assert_rewritten("[[],[],[[],[]]]", "[[],[],[[],[]]]");
}

static struct tn_json *parse_many(const char *item, int count, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(OUT_MAX);
    struct tn_json *tree;
    for (int i = 0; i < count; i++) {
        tn_buf_putc(&text, i ? ',' : '[');
        tn_buf_puts(&text, item);
    }
    tn_buf_putc(&text, ']');
    tn_json_parse(text.data, text.len, &tree, err);
    return tree;
}

static void test_weight(void **state)
{
    struct tn_error err = {0};
    tn_autojson struct tn_json *many = parse_many("1", 1000000, NULL);
    assert_int_equal(tn_json_count(many), 1000000);
    tn_autojson struct tn_json *too_many = parse_many("{}", 400000, &err);
    assert_null(too_many);
    assert_int_equal(err.code, TN_E_TOO_LARGE);
}

static void test_access(void **state)
{
    tn_autojson struct tn_json *tree =
        parse("{\"s\":\"x\",\"i\":7,\"d\":2.5,\"t\":true,\"n\":null,\"a\":[10,20]}");
    assert_int_equal(tn_json_type(tree), TN_JSON_OBJECT);
    assert_string_equal(tn_json_type_name(tree), "object");
    assert_int_equal(tn_json_count(tree), 6);
    assert_string_equal(tn_json_get_str(tree, "s", "-"), "x");
    assert_string_equal(tn_json_get_str(tree, "i", "-"), "-");
    assert_string_equal(tn_json_get_str(tree, "missing", "-"), "-");
    assert_int_equal(tn_json_int(tn_json_get(tree, "i"), 0), 7);
    assert_int_equal(tn_json_int(tn_json_get(tree, "d"), -1), -1);
    assert_true(tn_json_double(tn_json_get(tree, "i"), 0) == 7.0);
    assert_true(tn_json_double(tn_json_get(tree, "d"), 0) == 2.5);
    assert_true(tn_json_double(tn_json_get(tree, "s"), -1) == -1);
    assert_true(tn_json_bool(tn_json_get(tree, "t"), false));
    assert_true(tn_json_bool(tn_json_get(tree, "i"), true));
    assert_null(tn_json_get(tree, "n"));
    assert_true(tn_json_has(tree, "n"));
    assert_false(tn_json_has(tree, "missing"));
    const struct tn_json *a = tn_json_get(tree, "a");
    assert_int_equal(tn_json_count(a), 2);
    assert_int_equal(tn_json_int(tn_json_at(a, 1), 0), 20);
    assert_null(tn_json_at(a, 2));
    assert_null(tn_json_at(tree, 0));
    assert_null(tn_json_get(a, "x"));
    assert_null(tn_json_get(NULL, "x"));
    assert_false(tn_json_has(NULL, "x"));
    assert_int_equal(tn_json_count(NULL), 0);
    assert_int_equal(tn_json_type(NULL), TN_JSON_NULL);
    assert_null(tn_json_str(NULL, NULL));
}

static int note(const char *key, struct tn_json *value, void *ctx)
{
    tn_buf_printf(ctx, "%s;", key);
    return strcmp(key, "c") == 0 ? 42 : 0;
}

static void test_each_in_order_and_stops(void **state)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(100);
    tn_autojson struct tn_json *tree = parse("{\"b\":1,\"a\":2,\"c\":3,\"d\":4}");
    assert_int_equal(tn_json_each(tree, note, &out), 42);
    assert_string_equal(tn_buf_str(&out), "b;a;c;");
    assert_int_equal(tn_json_each(tn_json_get(tree, "a"), note, &out), 0);
    assert_int_equal(tn_json_each(NULL, note, &out), 0);
}

static void test_ref(void **state)
{
    struct tn_json *tree = parse("[1,[2]]");
    tn_autojson struct tn_json *part = tn_json_ref(tn_json_at(tree, 1));
    tn_json_free(tree);
    assert_int_equal(tn_json_int(tn_json_at(part, 0), 0), 2);
    tn_json_free(NULL);
}

static void test_null_is_a_tree(void **state)
{
    struct tn_json *tree = (void *)1;
    assert_int_equal(tn_json_parse("null", 4, &tree, NULL), 0);
    assert_null(tree);
}

static void test_writer(void **state)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(10000);
    struct tn_jw w = tn_jw(&out);
    tn_jw_object(&w);
    tn_jw_kstr(&w, "s", "a\"\\\n\x01\x1f");
    tn_jw_kint(&w, "min", INT64_MIN);
    tn_jw_kint(&w, "max", INT64_MAX);
    tn_jw_kint(&w, "zero", 0);
    tn_jw_kdouble(&w, "d", 0.1);
    tn_jw_kdouble(&w, "nan", NAN);
    tn_jw_kbool(&w, "t", true);
    tn_jw_kbool(&w, "f", false);
    tn_jw_knull(&w, "n");
    tn_jw_kstr(&w, "none", NULL);
    tn_jw_key(&w, "a");
    tn_jw_array(&w);
    tn_jw_array(&w);
    tn_jw_array_end(&w);
    tn_jw_object(&w);
    tn_jw_object_end(&w);
    tn_jw_strn(&w, "a\0b", 3);
    tn_jw_raw(&w, "[1]", 3);
    tn_jw_array_end(&w);
    tn_jw_kint(&w, "k\"", 1);
    tn_jw_object_end(&w);
    assert_string_equal(
        tn_buf_str(&out),
        "{\"s\":\"a\\\"\\\\\\n\\u0001\\u001f\",\"min\":-9223372036854775808,"
        "\"max\":9223372036854775807,\"zero\":0,\"d\":0.1,\"nan\":null,\"t\":true,\"f\":false,"
        "\"n\":null,\"none\":null,\"a\":[[],{},\"a\\u0000b\",[1]],\"k\\\"\":1}");
}

static void test_writer_repairs_utf8(void **state)
{
    static const struct {
        const char *in, *out;
    } rows[] = {
        {"\xff", "\"\xef\xbf\xbd\""},
        {"a\xc3", "\"a\xef\xbf\xbd\""},
        {"\xc3\xa9", "\"\xc3\xa9\""},
        {"\xc0\xaf", "\"\xef\xbf\xbd\xef\xbf\xbd\""},
        {"\xed\xa0\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},
        {"x\xf0\x9f\x98y", "\"x\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdy\""},
    };
    for (size_t i = 0; i < TN_COUNT(rows); i++) {
        tn_autobuf struct tn_buf out = TN_BUF_INIT(100);
        struct tn_jw w = tn_jw(&out);
        tn_jw_str(&w, rows[i].in);
        assert_string_equal(tn_buf_str(&out), rows[i].out);
    }
}

/* Every byte at every position of a word: the scan by words must agree with the scan by bytes. */
static void test_every_byte_everywhere(void **state)
{
    for (int byte = 0; byte < 256; byte++) {
        for (size_t at = 0; at < 20; at++) {
            char text[20];
            size_t len;
            memset(text, 'x', sizeof text);
            text[at] = (char)byte;
            tn_autobuf struct tn_buf out = TN_BUF_INIT(200);
            struct tn_jw w = tn_jw(&out);
            tn_jw_strn(&w, text, sizeof text);
            struct tn_json *raw_tree;
            assert_int_equal(tn_json_parse(out.data, out.len, &raw_tree, NULL), 0);
            tn_autojson struct tn_json *tree = raw_tree;
            const char *back = tn_json_str(tree, &len);
            if (byte < 0x80) {
                assert_int_equal(len, sizeof text);
                assert_memory_equal(back, text, sizeof text);
            } else {
                assert_int_equal(len, sizeof text + 2);
                assert_memory_equal(back + at, "\xef\xbf\xbd", 3);
            }
        }
    }
}

static void test_writer_stops_at_the_maximum(void **state)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(10);
    struct tn_jw w = tn_jw(&out);
    tn_jw_str(&w, "this is longer than that");
    assert_false(tn_buf_ok(&out));
    assert_true(out.len <= 10);
}

static void test_large_string_round_trip(void **state)
{
    size_t n = 300000, len;
    tn_autofree char *text = tn_malloc(n);
    for (size_t i = 0; i < n; i++)
        text[i] = "plain text\n\"\\\t"[i * 7 % 14];
    tn_autobuf struct tn_buf out = TN_BUF_INIT(OUT_MAX);
    struct tn_jw w = tn_jw(&out);
    tn_jw_strn(&w, text, n);
    struct tn_json *parsed;
    assert_int_equal(tn_json_parse(out.data, out.len, &parsed, NULL), 0);
    tn_autojson struct tn_json *tree = parsed;
    const char *back = tn_json_str(tree, &len);
    assert_int_equal(len, n);
    assert_memory_equal(back, text, n);
}

static void test_doubles_as_python_prints_them(void **state)
{
    static const struct {
        double v;
        const char *text;
    } rows[] = {
        {0.0, "0.0"},
        {-0.0, "-0.0"},
        {1, "1.0"},
        {2.5, "2.5"},
        {120, "120.0"},
        {0.1, "0.1"},
        {1e15, "1000000000000000.0"},
        {1e16, "1e+16"},
        {9999999999999998.0, "9999999999999998.0"},
        {123456789012345680.0, "1.2345678901234568e+17"},
        {1e-4, "0.0001"},
        {1e-5, "1e-05"},
        {1.5e-5, "1.5e-05"},
        {0.00012345, "0.00012345"},
        {1e100, "1e+100"},
        {1.5e300, "1.5e+300"},
        {-1234.5678, "-1234.5678"},
        {0.1 + 0.2, "0.30000000000000004"},
        {1.0 / 3, "0.3333333333333333"},
        {DBL_MAX, "1.7976931348623157e+308"},
        {DBL_MIN, "2.2250738585072014e-308"},
        {DBL_TRUE_MIN, "5e-324"},
        {6e-323, "6e-323"},
        {0x1p-24, "5.960464477539063e-08"}, /* the nearest 16 digits do not read back */
        {0x1p-44, "5.684341886080802e-14"},
        {0x1p89, "6.189700196426902e+26"},
        {INFINITY, "inf"},
        {-INFINITY, "-inf"},
        {NAN, "nan"},
        {-NAN, "nan"},
    };
    for (size_t i = 0; i < TN_COUNT(rows); i++) {
        char text[32];
        tn_format_double(text, rows[i].v);
        assert_string_equal(text, rows[i].text);
    }
}

/* A cheap generator is enough: the same numbers every time. */
static void test_doubles_read_back(void **state)
{
    uint64_t x = 88172645463325252u;
    for (int i = 0; i < 20000; i++) {
        double v;
        char text[32];
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        memcpy(&v, &x, sizeof v);
        if (!isfinite(v))
            continue;
        tn_format_double(text, v);
        assert_true(strtod(text, NULL) == v);
        assert_true(strpbrk(text, ".e") != NULL);
    }
}

static void test_a_tree_is_held_in_a_purse(void **state)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(1 << 20);
    struct tn_purse purse = {.max = 1 << 20};
    struct tn_json *tree;
    struct tn_error err;
    size_t held;

    assert_int_equal(tn_json_parse_held("{}", 2, &purse, &held, &tree, &err), 0);
    assert_int_equal(held + purse.held, 0); /* small ones are free */
    tn_json_free(tree);
    tn_buf_puts(&text, "[0");
    for (int i = 0; i < 5000; i++)
        tn_buf_puts(&text, ",0");
    tn_buf_puts(&text, "]");
    assert_int_equal(tn_json_parse_held(text.data, text.len, &purse, &held, &tree, &err), 0);
    assert_true(held > 5000 * 48 && held == purse.held);
    tn_json_free(tree);
    tn_purse_give(&purse, held);
    tn_buf_cut(&text, text.len - 1); /* malformed, seen late: nothing stays taken */
    assert_int_equal(tn_json_parse_held(text.data, text.len, &purse, &held, &tree, &err), -1);
    assert_int_equal(err.code, TN_E_INVALID);
    assert_int_equal(held + purse.held, 0);
    purse.max = 1 << 17;
    tn_buf_puts(&text, "]");
    assert_int_equal(tn_json_parse_held(text.data, text.len, &purse, &held, &tree, &err), -1);
    assert_int_equal(err.code, TN_E_BUSY);
    assert_int_equal(held + purse.held, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_tree_is_held_in_a_purse),
        cmocka_unit_test(test_reads_every_kind),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_strings),
        cmocka_unit_test(test_nul_is_kept),
        cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_error_says_where),
        cmocka_unit_test(test_never_reads_past_the_end),
        cmocka_unit_test(test_depth),
        cmocka_unit_test(test_weight),
        cmocka_unit_test(test_access),
        cmocka_unit_test(test_each_in_order_and_stops),
        cmocka_unit_test(test_ref),
        cmocka_unit_test(test_null_is_a_tree),
        cmocka_unit_test(test_writer),
        cmocka_unit_test(test_writer_repairs_utf8),
        cmocka_unit_test(test_every_byte_everywhere),
        cmocka_unit_test(test_writer_stops_at_the_maximum),
        cmocka_unit_test(test_large_string_round_trip),
        cmocka_unit_test(test_doubles_as_python_prints_them),
        cmocka_unit_test(test_doubles_read_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
