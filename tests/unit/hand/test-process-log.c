/* Logs: bytes by offset, the oldest go first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/guard.h"
#include "hand/process/log.h"

static char byte_at(uint64_t offset)
{
    return (char)('a' + offset % 26);
}

static void add(struct process_log *log, size_t n)
{
    tn_autofree char *bytes = tn_malloc(n);

    for (size_t i = 0; i < n; i++)
        bytes[i] = byte_at(log->end + i);
    process_log_add(log, bytes, n);
}

static void check(const struct process_log *log, uint64_t from, uint64_t expected, size_t n)
{
    tn_autofree char *bytes = tn_malloc(n + 1);
    uint64_t offset = from;

    assert_int_equal(process_log_read(log, &offset, bytes, n + 1), n);
    assert_true(offset == expected);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(bytes[i], byte_at(offset + i));
}

static void test_all_is_kept_while_there_is_room(void **state)
{
    struct process_log log;

    process_log_init(&log, 10000);
    check(&log, 0, 0, 0);
    for (int i = 0; i < 100; i++)
        add(&log, 100);
    check(&log, 0, 0, 10000);
    check(&log, 9999, 9999, 1);
    check(&log, 10000, 10000, 0);
    process_log_done(&log);
}

static void test_the_oldest_go_first(void **state)
{
    struct process_log log;

    process_log_init(&log, 10000);
    for (size_t n = 1; n < 200; n++) {
        add(&log, n * 7);
        uint64_t first = log.end > 10000 ? log.end - 10000 : 0;
        assert_true(log.first == first);
        check(&log, 0, first, (size_t)(log.end - first));
    }
    add(&log, 25000); /* more than it can keep, at once */
    assert_true(log.first == log.end - 10000);
    check(&log, 5, log.first, 10000);
    process_log_done(&log);
}

static void test_a_small_one_needs_little(void **state)
{
    struct process_log log;

    process_log_init(&log, 1 << 20);
    add(&log, 100);
    assert_true(log.cap <= 4096);
    process_log_shrink(&log);
    assert_int_equal(log.cap, 100);
    check(&log, 0, 0, 100);
    process_log_done(&log);
    process_log_init(&log, 10000);
    add(&log, 12345);
    process_log_shrink(&log);
    check(&log, 0, 2345, 10000);
    process_log_done(&log);
    process_log_init(&log, 10000);
    process_log_shrink(&log);
    check(&log, 0, 0, 0);
    process_log_done(&log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_is_kept_while_there_is_room),
        cmocka_unit_test(test_the_oldest_go_first),
        cmocka_unit_test(test_a_small_one_needs_little),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
