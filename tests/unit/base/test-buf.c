#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"

static void test_starts_empty(void **state)
{
    tn_autobuf struct tn_buf b = TN_BUF_INIT(10);
    assert_string_equal(tn_buf_str(&b), "");
    assert_int_equal(b.len, 0);
    assert_true(tn_buf_ok(&b));
}

static void test_appends(void **state)
{
    tn_autobuf struct tn_buf b = TN_BUF_INIT(1000);
    assert_int_equal(tn_buf_puts(&b, "one"), 0);
    assert_int_equal(tn_buf_putc(&b, ' '), 0);
    assert_int_equal(tn_buf_add(&b, "two\0x", 5), 0);
    assert_int_equal(tn_buf_printf(&b, "-%05d", 42), 0);
    assert_int_equal(b.len, 15);
    assert_memory_equal(b.data, "one two\0x-00042", 16);
}

static void test_printf_longer_than_its_own_room(void **state)
{
    tn_autobuf struct tn_buf b = TN_BUF_INIT(10000);
    assert_int_equal(tn_buf_printf(&b, "%0*d", 5000, 7), 0);
    assert_int_equal(b.len, 5000);
    assert_int_equal(b.data[4999], '7');
    assert_int_equal(tn_buf_printf(&b, "%0*d", 5001, 7), -1);
    assert_int_equal(b.len, 5000);
}

static void test_maximum_is_exact_and_failure_stays(void **state)
{
    tn_autobuf struct tn_buf b = TN_BUF_INIT(4);
    assert_int_equal(tn_buf_puts(&b, "abcd"), 0);
    assert_true(tn_buf_ok(&b));
    assert_int_equal(tn_buf_putc(&b, 'e'), -1);
    assert_false(tn_buf_ok(&b));
    assert_string_equal(tn_buf_str(&b), "abcd");
    tn_buf_cut(&b, 0);
    assert_int_equal(tn_buf_putc(&b, 'e'), -1);
    assert_int_equal(tn_buf_add(&b, "", 0), -1);
    tn_buf_reset(&b);
    assert_int_equal(tn_buf_puts(&b, "efgh"), 0);
    assert_string_equal(tn_buf_str(&b), "efgh");
}

static void test_absurd_sizes_fail(void **state)
{
    tn_autobuf struct tn_buf b = TN_BUF_INIT(SIZE_MAX);
    assert_int_equal(tn_buf_puts(&b, "x"), 0);
    assert_null(tn_buf_reserve(&b, SIZE_MAX));
    tn_buf_reset(&b);
    assert_int_equal(tn_buf_puts(&b, "y"), 0);
    assert_null(tn_buf_reserve(&b, SIZE_MAX - 1));
    assert_string_equal(tn_buf_str(&b), "y");
}

static void test_nothing_allowed(void **state)
{
    tn_autobuf struct tn_buf b = TN_BUF_INIT(0);
    assert_int_equal(tn_buf_puts(&b, ""), 0);
    assert_int_equal(tn_buf_putc(&b, 'x'), -1);
}

static void test_reserve_and_grew(void **state)
{
    tn_autobuf struct tn_buf b = TN_BUF_INIT(100);
    char *to = tn_buf_reserve(&b, 50);
    assert_non_null(to);
    assert_string_equal(tn_buf_str(&b), ""); /* nothing came of it yet */
    memcpy(to, "hello", 5);
    tn_buf_grew(&b, 5);
    assert_string_equal(tn_buf_str(&b), "hello");
}

static void test_eat_and_cut(void **state)
{
    tn_autobuf struct tn_buf b = TN_BUF_INIT(100);
    tn_buf_eat(&b, 3);
    tn_buf_puts(&b, "0123456789");
    tn_buf_eat(&b, 3);
    assert_string_equal(tn_buf_str(&b), "3456789");
    tn_buf_cut(&b, 4);
    assert_string_equal(tn_buf_str(&b), "3456");
    tn_buf_cut(&b, 40);
    assert_string_equal(tn_buf_str(&b), "3456");
    tn_buf_eat(&b, 40);
    assert_string_equal(tn_buf_str(&b), "");
}

static void test_take(void **state)
{
    struct tn_buf b = TN_BUF_INIT(100);
    tn_autofree char *nothing = tn_buf_take(&b);
    assert_string_equal(nothing, "");
    tn_buf_puts(&b, "mine");
    tn_autofree char *mine = tn_buf_take(&b);
    assert_string_equal(mine, "mine");
    assert_int_equal(b.len, 0);
    assert_null(b.data);
}

static void test_growth_keeps_everything(void **state)
{
    tn_autobuf struct tn_buf b = TN_BUF_INIT(100000);
    for (int i = 0; i < 100000; i++)
        assert_int_equal(tn_buf_putc(&b, (char)('a' + i % 26)), 0);
    for (int i = 0; i < 100000; i++)
        assert_int_equal(b.data[i], 'a' + i % 26);
    assert_true(b.cap <= 100001);
}

static void test_a_purse_is_taken_from_and_given_back(void **state)
{
    struct tn_purse all = {.max = 1 << 20}, one = {.of = &all, .max = 1 << 19};
    struct tn_buf a = {.max = 1 << 20, .purse = &one}, b = a;

    assert_non_null(tn_buf_reserve(&a, TN_BUF_FREE - 1));
    assert_int_equal(one.held, 0);
    assert_non_null(tn_buf_reserve(&a, 300000));
    assert_int_equal(one.held, a.cap - TN_BUF_FREE);
    assert_int_equal(all.held, one.held);
    assert_null(tn_buf_reserve(&b, 300000));
    assert_true(tn_buf_poor(&b));
    assert_int_equal(all.held, one.held); /* nothing of it was taken */
    tn_buf_reset(&b);
    assert_int_equal(tn_buf_puts(&b, "small ones never suffer"), 0);
    assert_null(tn_buf_reserve(&a, 1 << 21));
    assert_false(tn_buf_poor(&a)); /* its own maximum */
    tn_buf_done(&a);
    assert_int_equal(one.held, 0);
    assert_non_null(tn_buf_reserve(&b, 300000));
    assert_int_equal(one.held, b.cap - TN_BUF_FREE);
    free(tn_buf_take(&b));
    assert_int_equal(all.held, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_purse_is_taken_from_and_given_back),
        cmocka_unit_test(test_starts_empty),
        cmocka_unit_test(test_appends),
        cmocka_unit_test(test_printf_longer_than_its_own_room),
        cmocka_unit_test(test_maximum_is_exact_and_failure_stays),
        cmocka_unit_test(test_absurd_sizes_fail),
        cmocka_unit_test(test_nothing_allowed),
        cmocka_unit_test(test_reserve_and_grew),
        cmocka_unit_test(test_eat_and_cut),
        cmocka_unit_test(test_take),
        cmocka_unit_test(test_growth_keeps_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
