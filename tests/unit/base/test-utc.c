/* Against the C library's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/utc.h"

#define FIRST INT64_C(-377705116800)
#define LAST INT64_C(253402300799)

static void check(int64_t seconds)
{
    time_t t = (time_t)seconds;
    struct tm ours, theirs;

    tn_utc(seconds, &ours);
    assert_non_null(gmtime_r(&t, &theirs));
    assert_int_equal(ours.tm_year, theirs.tm_year);
    assert_int_equal(ours.tm_mon, theirs.tm_mon);
    assert_int_equal(ours.tm_mday, theirs.tm_mday);
    assert_int_equal(ours.tm_hour, theirs.tm_hour);
    assert_int_equal(ours.tm_min, theirs.tm_min);
    assert_int_equal(ours.tm_sec, theirs.tm_sec);
    assert_int_equal(ours.tm_wday, theirs.tm_wday);
}

static void test_every_day_of_four_centuries(void **state)
{
    for (int64_t day = -146097; day <= 2 * 146097; day++) {
        check(day * 86400);
        check(day * 86400 - 1);
    }
}

static void test_any_second(void **state)
{
    srandom(1);
    for (int i = 0; i < 200000; i++)
        check(FIRST + (int64_t)(((uint64_t)random() << 31 | (uint64_t)random()) %
                                (uint64_t)(LAST - FIRST)));
    check(FIRST);
    check(LAST);
    check(0);
}

static void test_beyond_numbers(void **state)
{
    struct tm tm;

    tn_utc(INT64_MAX, &tm);
    assert_int_equal(tm.tm_year, 9999 - 1900);
    tn_utc(INT64_MIN, &tm);
    assert_int_equal(tm.tm_year, -9999 - 1900);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_day_of_four_centuries),
        cmocka_unit_test(test_any_second),
        cmocka_unit_test(test_beyond_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
