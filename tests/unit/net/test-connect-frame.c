#include "net/connect-frame.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka.h comes last */
#include <cmocka.h>

enum { MOST = 1000 };

static void test_what_was_put_is_taken(void **state)
{
    static const struct {
        unsigned flags;
        const char *text;
    } rows[] = {{0, "{\"a\":1}"}, {TN_FRAME_END, "{}"}, {0, ""}};
    tn_autobuf struct tn_buf bytes = TN_BUF_INIT(4096);
    struct tn_error err = {0};
    struct tn_frame f;

    for (size_t i = 0; i < TN_COUNT(rows); i++)
        assert_int_equal(tn_frame_put(&bytes, rows[i].flags, rows[i].text, strlen(rows[i].text)),
                         0);
    assert_memory_equal(bytes.data, "\0\0\0\0\x07{\"a\":1}\x02\0\0\0\x02{}", 19);
    for (size_t i = 0; i < TN_COUNT(rows); i++) {
        int64_t n = tn_frame_take(tn_buf_str(&bytes), bytes.len, MOST, &f, &err);
        assert_int_equal(n, TN_FRAME_HEAD + strlen(rows[i].text));
        assert_int_equal(f.flags, rows[i].flags);
        assert_int_equal(f.n, strlen(rows[i].text));
        assert_memory_equal(f.bytes, rows[i].text, f.n);
        tn_buf_eat(&bytes, (size_t)n);
    }
    assert_int_equal(bytes.len, 0);
}

static void test_one_that_is_cut_short_is_waited_for(void **state)
{
    static const char whole[] = "\0\0\0\0\x03" "abc";
    struct tn_error err = {0};
    struct tn_frame f;

    for (size_t n = 0; n < sizeof whole - 1; n++)
        assert_int_equal(tn_frame_take(whole, n, MOST, &f, &err), 0);
    assert_int_equal(tn_frame_take(whole, sizeof whole - 1, MOST, &f, &err), 8);
}

static void test_what_is_too_long_or_compressed_is_refused_by_its_head(void **state)
{
    struct tn_error err = {0};
    struct tn_frame f;

    assert_int_equal(tn_frame_take("\0\0\0\x03\xe9", 5, MOST, &f, &err), -1);
    assert_int_equal(err.code, TN_E_TOO_LARGE);
    assert_int_equal(tn_frame_take("\0\xff\xff\xff\xff", 5, MOST, &f, &err), -1);
    assert_int_equal(err.code, TN_E_TOO_LARGE);
    assert_int_equal(tn_frame_take("\x01\0\0\0\x01x", 6, MOST, &f, &err), -1);
    assert_int_equal(err.code, TN_E_UNSUPPORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_was_put_is_taken),
        cmocka_unit_test(test_one_that_is_cut_short_is_waited_for),
        cmocka_unit_test(test_what_is_too_long_or_compressed_is_refused_by_its_head),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
