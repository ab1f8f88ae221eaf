#include "net/cookie.h"

#include "unit.h"

static bool hides_b(const char *name, size_t n, void *ctx)
{
    return n == 1 && *name == 'b';
}

static void check_without(const char *cookies, const char *wanted)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(1000);

    tn_cookies_without(cookies, hides_b, NULL, &out);
    assert_string_equal(tn_buf_str(&out), wanted);
}

static void test_without(void **state)
{
    check_without("a=1; b=2; c=3", "a=1; c=3");
    check_without("b=1;b=2", "");
    check_without(" b = 1", "b = 1"); /* another name to a browser: "b " */
    check_without("bb=1;;; b;c", "bb=1; c");
    check_without("a=b=1; \tb=x", "a=b=1");
    check_without("", "");
}

static void test_below(void **state)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(1000);

    tn_cookies_below("p-a=1; other=2; p-=3; p-b=x=y; P-c=4", "p-", &out);
    assert_string_equal(tn_buf_str(&out), "a=1; b=x=y");
}

static void test_set_cookie(void **state)
{
    static const char *const without[] = {"domain", "path", NULL};
    tn_autobuf struct tn_buf out = TN_BUF_INIT(1000);
    struct tn_set_cookie c;

    assert_true(tn_set_cookie_parse("n=v=w; Path=/a; DOMAIN=x; path = /b ;; HttpOnly", &c));
    assert_memory_equal(c.name, "n", c.name_len);
    assert_memory_equal(c.value, "v=w", c.value_len);
    tn_set_cookie_rest(&c, without, &out);
    assert_string_equal(tn_buf_str(&out), "; path = /b; HttpOnly");
    assert_true(tn_set_cookie_parse("n=", &c));
    assert_int_equal(c.value_len, 0);
    assert_null(c.path);
    assert_false(tn_set_cookie_parse("n", &c));
    assert_false(tn_set_cookie_parse("=v", &c));
    assert_false(tn_set_cookie_parse("", &c));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without),
        cmocka_unit_test(test_below),
        cmocka_unit_test(test_set_cookie),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
