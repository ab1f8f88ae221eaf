#include "base/again.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/eventfd.h>
/* cmocka.h comes last */
#include <cmocka.h>

static struct tn_error err;

static int64_t waited(int *ms, double asked)
{
    int64_t begun = tn_now();

    assert_int_equal(tn_back_off(ms, asked, 0, TN_NEVER, &err), 0);
    return (tn_now() - begun) / TN_MILLI;
}

static void test_pauses_grow(void **state)
{
    int ms = 0;

    assert_in_range(waited(&ms, 0), 50, 1000);
    assert_int_equal(ms, 100);
    assert_in_range(waited(&ms, 0), 100, 1000);
    assert_int_equal(ms, 200);
    assert_in_range(waited(&ms, 0.3), 350, 1000);
    assert_int_equal(ms, 200); /* it was not our pause */
}

static void test_a_deadline_is_not_waited_for(void **state)
{
    int64_t begun = tn_now();
    int ms = 0;

    assert_int_equal(tn_back_off(&ms, 3600, 0, tn_deadline_in(60), &err), -1);
    assert_int_equal(err.code, TN_E_TIMEOUT);
    assert_in_range(tn_now() - begun, 0, 10 * TN_SECOND);
}

static void test_a_pause_can_be_cancelled(void **state)
{
    int cancel = eventfd(1, EFD_CLOEXEC);
    int64_t begun = tn_now();
    int ms = 0;

    assert_int_equal(tn_back_off(&ms, 1e300, cancel, TN_NEVER, &err), -1);
    assert_int_equal(err.code, TN_E_GONE);
    assert_int_equal(err.sys, ECANCELED);
    assert_in_range(tn_now() - begun, 0, 10 * TN_SECOND);
    close(cancel);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pauses_grow),
        cmocka_unit_test(test_a_deadline_is_not_waited_for),
        cmocka_unit_test(test_a_pause_can_be_cancelled),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
