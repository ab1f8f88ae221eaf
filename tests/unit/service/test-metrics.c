/* Counting from many threads, and the page.  Its format is checked by
 * tests/service/test_service_limits.py against the whole service; here are the numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <pthread.h>

#include "service/metrics.h"

static void assert_has(const struct tn_buf *page, const char *line)
{
    if (!strstr(tn_buf_str(page), line))
        fail_msg("no line '%s' in\n%s", line, tn_buf_str(page));
}

static void test_counters(void **state)
{
    struct metrics *m = metrics_new();
    tn_autobuf struct tn_buf page = TN_BUF_INIT(1 << 20);

    metric_add(m, METRIC_REQUESTS, "2xx", 3);
    metric_add(m, METRIC_REQUESTS, "5xx", 1);
    metric_add(m, METRIC_REQUESTS, "\"}\nevil 1", 2);
    metric_add(m, METRIC_ACTIONS, "run", 1);
    metric_add(m, METRIC_ACTIONS, NULL, 1);
    metric_add(m, METRIC_DENIED, NULL, 7);
    metric_add(m, METRIC_PROXIED_BYTES, NULL, 5000000000);
    metric_add(m, METRIC_KEPT, "ttl", 1);
    metrics_write_counters(m, &page);
    assert_has(&page, "\n# TYPE tendon_requests_total counter\n");
    assert_has(&page, "\ntendon_requests_total{status=\"2xx\"} 3\n");
    assert_has(&page, "\ntendon_requests_total{status=\"4xx\"} 0\n");
    assert_has(&page, "\ntendon_requests_total{status=\"5xx\"} 1\n");
    assert_has(&page, "\ntendon_requests_total{status=\"other\"} 2\n");
    assert_has(&page, "\ntendon_actions_total{kind=\"run\"} 1\n");
    assert_has(&page, "\ntendon_actions_total{kind=\"other\"} 1\n");
    assert_has(&page, "\ntendon_denied_total 7\n");
    assert_has(&page, "\ntendon_proxied_bytes_total 5000000000\n");
    assert_has(&page, "\ntendon_kept_total{why=\"ttl\"} 1\n");
    assert_null(strstr(tn_buf_str(&page), "evil"));
    metrics_free(m);
}

static void test_histogram(void **state)
{
    struct metrics *m = metrics_new();
    tn_autobuf struct tn_buf page = TN_BUF_INIT(1 << 20);
    static const double seconds[] = {0.0005, 0.001, 0.002, 0.3, 1000, -1, NAN};

    for (size_t i = 0; i < TN_COUNT(seconds); i++)
        metric_seconds(m, METRIC_START_SECONDS, seconds[i]);
    metrics_write_counters(m, &page);
    assert_has(&page, "\n# TYPE tendon_start_seconds histogram\n");
    assert_has(&page, "\ntendon_start_seconds_bucket{le=\"0.001\"} 4\n"); /* le: up to and with */
    assert_has(&page, "\ntendon_start_seconds_bucket{le=\"0.0025\"} 5\n");
    assert_has(&page, "\ntendon_start_seconds_bucket{le=\"0.25\"} 5\n");
    assert_has(&page, "\ntendon_start_seconds_bucket{le=\"0.5\"} 6\n");
    assert_has(&page, "\ntendon_start_seconds_bucket{le=\"60\"} 6\n");
    assert_has(&page, "\ntendon_start_seconds_bucket{le=\"+Inf\"} 7\n");
    assert_has(&page, "\ntendon_start_seconds_sum 1000.303500000\n");
    assert_has(&page, "\ntendon_start_seconds_count 7\n");
    metrics_free(m);
}

static void test_labels_are_escaped(void **state)
{
    tn_autobuf struct tn_buf page = TN_BUF_INIT(1 << 10);

    metric_sample(&page, "x", "l", "a\"b\\c\nd", 1.5);
    assert_string_equal(tn_buf_str(&page), "x{l=\"a\\\"b\\\\c\\nd\"} 1.5\n");
}

#define THREADS 8
#define TIMES 20000

static void *count(void *m)
{
    for (int i = 0; i < TIMES; i++) {
        metric_add(m, METRIC_STARTS, "warm", 1);
        metric_seconds(m, METRIC_QUEUE_SECONDS, 0.001);
    }
    return NULL;
}

static void test_many_threads(void **state)
{
    struct metrics *m = metrics_new();
    tn_autobuf struct tn_buf page = TN_BUF_INIT(1 << 20);
    pthread_t threads[THREADS];

    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count, m), 0);
    metrics_write_counters(m, &page); /* while they count */
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    tn_buf_reset(&page);
    metrics_write_counters(m, &page);
    assert_has(&page, "\ntendon_starts_total{how=\"warm\"} 160000\n");
    assert_has(&page, "\ntendon_queue_seconds_count 160000\n");
    assert_has(&page, "\ntendon_queue_seconds_sum 160.000000000\n");
    metrics_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counters),
        cmocka_unit_test(test_histogram),
        cmocka_unit_test(test_labels_are_escaped),
        cmocka_unit_test(test_many_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
