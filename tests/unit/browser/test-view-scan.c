/* The cursor over JSON text. */
#include "hand/browser/view-scan.h"

#include "unit.h"

static void test_walks_values(void **state)
{
    static const char text[] =
        " { \"a\" : [1, -2.5e1, true, \"x\\\"]\"], \"b\": {\"c\": [[], {}]} , "
        "\"s\":\"\\u00e9\\ud83d\\ude00\\n\\ud800!\" } ";
    struct tn_scan c = tn_scan(text, sizeof text - 1);
    tn_autobuf struct tn_buf s = TN_BUF_INIT(100);
    struct tn_slice key;

    tn_scan_enter(&c);
    assert_true(tn_scan_member(&c, &key) && tn_slice_is(key, "a"));
    tn_scan_enter(&c);
    assert_true(tn_scan_element(&c));
    assert_int_equal(tn_scan_int(&c), 1);
    assert_true(tn_scan_element(&c));
    assert_true(tn_scan_double(&c) == -25);
    assert_true(tn_scan_element(&c));
    assert_true(tn_scan_bool(&c));
    assert_true(tn_scan_element(&c));
    assert_true(tn_slice_is(tn_scan_skip(&c), "\"x\\\"]\""));
    assert_false(tn_scan_element(&c));
    assert_true(tn_scan_member(&c, &key) && tn_slice_is(key, "b"));
    assert_true(tn_slice_is(tn_scan_skip(&c), "{\"c\": [[], {}]}"));
    assert_true(tn_scan_member(&c, &key));
    assert_true(tn_scan_string(&c, &s));
    assert_string_equal(tn_buf_str(&s), "\xc3\xa9\xf0\x9f\x98\x80\n\xef\xbf\xbd!");
    assert_false(tn_scan_member(&c, &key));
    assert_false(c.bad);
}

static void test_gets_members(void **state)
{
    static const char text[] = "{\"type\":\"t\",\"value\":{\"value\":\"v\"}}";
    struct tn_slice object = {text, sizeof text - 1};
    struct tn_slice value = tn_slice_get(tn_slice_get(object, "value"), "value");

    assert_true(tn_slice_is(tn_slice_unquoted(value), "v"));
    assert_int_equal(tn_slice_get(object, "other").n, 0);
    assert_int_equal(tn_slice_get(value, "value").n, 0);
}

static void test_numbers_out_of_range(void **state)
{
    static const char text[] = "[99999999999999999999999, -99999999999999999999999, \"7\", {}]";
    struct tn_scan c = tn_scan(text, sizeof text - 1);

    tn_scan_enter(&c);
    for (int i = 0; tn_scan_element(&c); i++) {
        int64_t v = tn_scan_int(&c);
        assert_true(i == 0 ? v > INT32_MAX : i == 1 ? v < INT32_MIN : v == 0);
    }
    assert_false(c.bad);
}

/* Whatever is cut off, reading ends, and the cursor tells. */
static void test_cut_short(void **state)
{
    static const char text[] = "{\"a\":[1,\"b\\\"\",{\"c\":null}],\"d\":\"e\"}";

    for (size_t n = 0; n < sizeof text - 1; n++) {
        tn_autofree char *part = tn_malloc(n); /* its end is the end of memory */
        memcpy(part, text, n);
        struct tn_scan c = tn_scan(part, n);
        struct tn_slice key;
        tn_scan_enter(&c);
        while (tn_scan_member(&c, &key))
            tn_scan_skip(&c);
        assert_true(c.bad);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_walks_values),
        cmocka_unit_test(test_gets_members),
        cmocka_unit_test(test_numbers_out_of_range),
        cmocka_unit_test(test_cut_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
