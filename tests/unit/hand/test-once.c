/* Exactly once: answers are stored, shared with those who wait, bounded, and tied to their request.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>

#include "base/clock.h"
#include "hand/once.h"

static int begin(struct tn_once *o, const char *key, const char *body, char *answer, size_t size,
                 int *status)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(4096);
    struct tn_error err;
    int r = tn_once_begin(o, key, tn_once_digest(body, strlen(body)), false, tn_deadline_in(0.05),
                          status, &out, &err);
    snprintf(answer, size, "%s", r < 0 ? err.text : tn_buf_str(&out));
    return r < 0 ? -(int)err.code : r;
}

/* The same without running anything. */
static int replay(struct tn_once *o, const char *key, const char *body)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(4096);
    struct tn_error err;
    int status = 0;
    int r = tn_once_begin(o, key, tn_once_digest(body, strlen(body)), true, tn_deadline_in(0.05),
                          &status, &out, &err);
    return r < 0 ? -(int)err.code : r;
}

static void test_repeat_gets_the_stored_answer(void **state)
{
    struct tn_once *o = tn_once_new(8, 1024);
    char text[512];
    int status = 0;

    assert_int_equal(begin(o, "k", "body", text, sizeof text, &status), 1);
    tn_once_finish(o, "k", 200, "answer", 6);
    assert_int_equal(begin(o, "k", "body", text, sizeof text, &status), 0);
    assert_int_equal(status, 200);
    assert_string_equal(text, "answer");
    tn_once_free(o);
}

static void test_what_was_not_carried_out_is_forgotten(void **state)
{
    struct tn_once *o = tn_once_new(8, 1024);
    char text[512];
    int status = 0;

    for (int i = 0; i < 3; i++) {
        assert_int_equal(begin(o, "k", i < 2 ? "one" : "two", text, sizeof text, &status), 1);
        tn_once_forget(o, "k");
        assert_int_equal(replay(o, "k", "one"), -TN_E_NOT_FOUND);
    }
    assert_int_equal(begin(o, "k", "one", text, sizeof text, &status), 1);
    tn_once_finish(o, "k", 200, "answer", 6);
    tn_once_forget(o, "k"); /* of what was, no more */
    tn_once_forget(o, "other");
    assert_int_equal(replay(o, "k", "one"), 0);
    tn_once_free(o);
}

static void test_another_body_is_refused(void **state)
{
    struct tn_once *o = tn_once_new(8, 1024);
    char text[512];
    int status;

    assert_int_equal(begin(o, "k", "one", text, sizeof text, &status), 1);
    assert_int_equal(begin(o, "k", "two", text, sizeof text, &status), -TN_E_UNPROCESSABLE);
    tn_once_finish(o, "k", 200, "", 0);
    assert_int_equal(begin(o, "k", "two", text, sizeof text, &status), -TN_E_UNPROCESSABLE);
    tn_once_free(o);
}

/* More keys than buckets, and more than are kept: each is found exactly while it is kept. */
static void test_what_is_known(void **state)
{
    enum { KEPT = 3000, ALL = 5000 };
    struct tn_once *o = tn_once_new(KEPT, 1 << 20);
    char text[512], key[32];
    int status;

    for (int i = 0; i < ALL; i++) {
        snprintf(key, sizeof key, "key-%d", i);
        assert_int_equal(replay(o, key, "x"), -TN_E_NOT_FOUND);
        assert_int_equal(begin(o, key, "x", text, sizeof text, &status), 1);
        tn_once_finish(o, key, 200, key, strlen(key));
        assert_int_equal(replay(o, key, "x"), 0);
    }
    for (int i = 0; i < ALL; i++) {
        snprintf(key, sizeof key, "key-%d", i);
        assert_int_equal(replay(o, key, "x"), i >= ALL - KEPT ? 0 : -TN_E_NOT_FOUND);
    }
    assert_int_equal(begin(o, "key-4999", "x", text, sizeof text, &status), 0);
    assert_string_equal(text, "key-4999");
    tn_once_free(o);
}

static void test_waiting_ends_at_the_deadline(void **state)
{
    struct tn_once *o = tn_once_new(8, 1024);
    char text[512];
    int status;

    assert_int_equal(begin(o, "k", "x", text, sizeof text, &status), 1);
    assert_int_equal(begin(o, "k", "x", text, sizeof text, &status), -TN_E_TIMEOUT);
    tn_once_finish(o, "k", 200, "", 0);
    tn_once_free(o);
}

static void *finish_it(void *arg)
{
    tn_once_finish(arg, "k", 500, "late", 4);
    return NULL;
}

static void test_a_waiter_is_told(void **state)
{
    struct tn_once *o = tn_once_new(8, 1024);
    tn_autobuf struct tn_buf out = TN_BUF_INIT(4096);
    char text[512];
    int status;
    pthread_t thread;

    assert_int_equal(begin(o, "k", "x", text, sizeof text, &status), 1);
    pthread_create(&thread, NULL, finish_it, o);
    assert_int_equal(tn_once_begin(o, "k", tn_once_digest("x", 1), false, tn_deadline_in(10),
                                   &status, &out, NULL),
                     0);
    pthread_join(thread, NULL);
    assert_int_equal(status, 500);
    assert_string_equal(tn_buf_str(&out), "late");
    tn_once_free(o);
}

static void test_number_is_bounded(void **state)
{
    struct tn_once *o = tn_once_new(2, 1024);
    char text[512];
    int status;

    assert_int_equal(begin(o, "a", "", text, sizeof text, &status), 1);
    assert_int_equal(begin(o, "b", "", text, sizeof text, &status), 1);
    assert_int_equal(begin(o, "c", "", text, sizeof text, &status),
                     -TN_E_BUSY); /* both are still running */
    tn_once_finish(o, "a", 200, "A", 1);
    assert_int_equal(begin(o, "c", "", text, sizeof text, &status),
                     1); /* the finished one makes room */
    assert_int_equal(begin(o, "a", "", text, sizeof text, &status), -TN_E_BUSY);
    tn_once_finish(o, "b", 200, "", 0);
    tn_once_finish(o, "c", 200, "", 0);
    tn_once_free(o);
}

static void test_bytes_are_bounded(void **state)
{
    struct tn_once *o = tn_once_new(8, 4096);
    char text[512], large[3000];
    int status;

    memset(large, 'x', sizeof large);
    assert_int_equal(begin(o, "a", "", text, sizeof text, &status), 1);
    tn_once_finish(o, "a", 200, large, sizeof large);
    assert_int_equal(replay(o, "a", ""), 0);
    assert_int_equal(begin(o, "b", "", text, sizeof text, &status), 1);
    tn_once_finish(o, "b", 200, large, sizeof large);
    assert_int_equal(replay(o, "b", ""), 0);
    /* The oldest goes first, and is not run again. */
    assert_int_equal(replay(o, "a", ""), -TN_E_GONE);
    assert_int_equal(begin(o, "a", "", text, sizeof text, &status), -TN_E_GONE);
    assert_int_equal(begin(o, "a", "other", text, sizeof text, &status), -TN_E_UNPROCESSABLE);
    tn_once_free(o);
}

/* Answers in the order they came, whatever the order of their requests. */
static void test_the_answer_that_came_first_goes_first(void **state)
{
    struct tn_once *o = tn_once_new(8, 4096);
    char text[512], large[3000];
    int status;

    memset(large, 'x', sizeof large);
    assert_int_equal(begin(o, "slow", "", text, sizeof text, &status), 1);
    assert_int_equal(begin(o, "quick", "", text, sizeof text, &status), 1);
    tn_once_finish(o, "quick", 200, large, sizeof large);
    tn_once_finish(o, "slow", 200, large, sizeof large);
    assert_int_equal(replay(o, "quick", ""), -TN_E_GONE);
    assert_int_equal(replay(o, "slow", ""), 0);
    tn_once_free(o);
}

/* One answer that is larger than all that may be kept: it stays until the next one comes, and costs
 * no key. */
static void test_the_newest_stays_whatever_its_size(void **state)
{
    struct tn_once *o = tn_once_new(8, 1000);
    char text[512], large[3000];
    int status;

    memset(large, 'x', sizeof large);
    assert_int_equal(begin(o, "a", "", text, sizeof text, &status), 1);
    tn_once_finish(o, "a", 200, "A", 1);
    assert_int_equal(begin(o, "b", "", text, sizeof text, &status), 1);
    tn_once_finish(o, "b", 200, large, sizeof large);
    assert_int_equal(replay(o, "a", ""), -TN_E_GONE);
    assert_int_equal(replay(o, "b", ""), 0);
    assert_int_equal(begin(o, "c", "", text, sizeof text, &status), 1);
    tn_once_finish(o, "c", 200, "C", 1);
    assert_int_equal(replay(o, "b", ""), -TN_E_GONE);
    assert_int_equal(replay(o, "c", ""), 0);
    tn_once_free(o);
}

/* Keys count, too: when they alone are too many bytes, the oldest are forgotten. */
static void test_bytes_of_keys_are_bounded(void **state)
{
    struct tn_once *o = tn_once_new(1000, 20000);
    char text[512], key[250];
    int status, known = 0;

    for (int i = 0; i < 500; i++) {
        snprintf(key, sizeof key, "%0*d", (int)sizeof key - 1, i);
        assert_int_equal(begin(o, key, "", text, sizeof text, &status), 1);
        tn_once_finish(o, key, 200, "", 0);
    }
    for (int i = 0; i < 500; i++) {
        snprintf(key, sizeof key, "%0*d", (int)sizeof key - 1, i);
        known += replay(o, key, "") != -TN_E_NOT_FOUND;
    }
    assert_in_range(known, 30, 80);
    tn_once_free(o);
}

static void *run_others(void *arg)
{
    char text[512], key[32];
    int status;

    for (int i = 0; i < 20000; i++) {
        snprintf(key, sizeof key, "other-%d", i);
        if (begin(arg, key, "", text, sizeof text, &status) == 1)
            tn_once_finish(arg, key, 200, "", 0);
    }
    return NULL;
}

/* While others push it out, a key is known or it is not: nothing is run by who wants a replay. */
static void test_a_replay_never_runs_anything(void **state)
{
    struct tn_once *o = tn_once_new(4, 4096);
    char text[512];
    int status, r = 0;
    pthread_t thread;

    assert_int_equal(begin(o, "k", "", text, sizeof text, &status), 1);
    tn_once_finish(o, "k", 200, "", 0);
    pthread_create(&thread, NULL, run_others, o);
    for (int i = 0; i < 20000 && r != 1; i++)
        r = replay(o, "k", "");
    pthread_join(thread, NULL);
    assert_int_not_equal(r, 1);
    assert_int_equal(replay(o, "k", ""), -TN_E_NOT_FOUND);
    tn_once_free(o);
}

static void test_keys_are_checked(void **state)
{
    struct tn_once *o = tn_once_new(8, 10);
    char text[512], key[300];
    int status;

    memset(key, 'k', sizeof key - 1);
    key[sizeof key - 1] = '\0';
    assert_int_equal(begin(o, key, "", text, sizeof text, &status), -TN_E_INVALID);
    assert_int_equal(begin(o, "", "", text, sizeof text, &status), -TN_E_INVALID);
    tn_once_free(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_repeat_gets_the_stored_answer),
        cmocka_unit_test(test_what_was_not_carried_out_is_forgotten),
        cmocka_unit_test(test_another_body_is_refused),
        cmocka_unit_test(test_what_is_known),
        cmocka_unit_test(test_waiting_ends_at_the_deadline),
        cmocka_unit_test(test_a_waiter_is_told),
        cmocka_unit_test(test_number_is_bounded),
        cmocka_unit_test(test_bytes_are_bounded),
        cmocka_unit_test(test_the_answer_that_came_first_goes_first),
        cmocka_unit_test(test_the_newest_stays_whatever_its_size),
        cmocka_unit_test(test_bytes_of_keys_are_bounded),
        cmocka_unit_test(test_a_replay_never_runs_anything),
        cmocka_unit_test(test_keys_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
