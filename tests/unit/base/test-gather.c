#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sched.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/gather.h"

#define THREADS 16
#define ROUNDS 200

struct job {
    struct tn_waiter waiter;
    int done; /* how often */
};

static struct tn_gather gather;
static atomic_int at_work, served, crowded;

static void work(struct tn_waiter *all, void *ctx)
{
    if (atomic_fetch_add(&at_work, 1) != 0 || ctx != &gather)
        crowded++;
    for (struct tn_waiter *w = all; w; w = w->next) {
        ((struct job *)w)->done++;
        served++;
    }
    at_work--;
}

static void *come_often(void *arg)
{
    intptr_t wrong = 0;

    for (int i = 0; i < ROUNDS; i++) {
        struct job job = {.done = 0};
        tn_gather(&gather, &job.waiter, work, &gather);
        wrong += job.done != 1;
    }
    return (void *)wrong;
}

/* Everybody is served once, by one at a time. */
static void test_everybody(void **state)
{
    pthread_t threads[THREADS];

    tn_gather_init(&gather);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, come_often, NULL), 0);
    for (int i = 0; i < THREADS; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        assert_null(wrong);
    }
    assert_int_equal(served, THREADS * ROUNDS);
    assert_int_equal(crowded, 0);
    assert_false(gather.led);
    tn_gather_done(&gather);
}

/* --- who comes while somebody is at work --------------------------------------------------- */

static int lists, longest;

static int waiting(void)
{
    int n = 0;

    pthread_mutex_lock(&gather.lock);
    for (struct tn_waiter *w = gather.first; w; w = w->next)
        n++;
    pthread_mutex_unlock(&gather.lock);
    return n;
}

/* The first one is at work until all others have come. */
static void work_slowly(struct tn_waiter *all, void *ctx)
{
    int64_t deadline = tn_deadline_in(60);
    int n = 0;

    while (lists == 0 && waiting() < THREADS - 1 && tn_now() < deadline)
        sched_yield();
    for (struct tn_waiter *w = all; w; w = w->next)
        n++;
    lists++;
    longest = n > longest ? n : longest;
}

static void *come_once(void *arg)
{
    struct job job = {.done = 0};

    tn_gather(&gather, &job.waiter, work_slowly, NULL);
    return NULL;
}

static void test_those_who_come_meanwhile_are_served_together(void **state)
{
    pthread_t threads[THREADS];

    tn_gather_init(&gather);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, come_once, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(lists, 2);
    assert_int_equal(longest, THREADS - 1);
    tn_gather_done(&gather);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everybody),
        cmocka_unit_test(test_those_who_come_meanwhile_are_served_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
