/* The line: turns, fairness, positions, and no wake-up that gets lost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "service/admit.h"

#define SOON tn_deadline_in(60)

static struct queue *line_of(int turns)
{
    return queue_new(&(struct tn_service_options){.max_starts = turns});
}

static bool admitted(struct place_in_line *p)
{
    struct tn_error err = {0};

    return queue_wait(p, 0, &err) == 0;
}

static void test_turns(void **state)
{
    struct queue *q = line_of(2);
    struct place_in_line *a = queue_join(q, "x"), *b = queue_join(q, "x"), *c = queue_join(q, "x");

    assert_int_equal(queue_wait(a, SOON, NULL), 0);
    assert_int_equal(queue_wait(b, SOON, NULL), 0);
    assert_int_equal(queue_position(a), 0);
    assert_int_equal(queue_position(c), 1);
    struct tn_error err = {0};
    assert_int_equal(queue_wait(c, tn_now(), &err), -1);
    assert_int_equal(err.code, TN_E_TIMEOUT);
    assert_non_null(strstr(err.text, "max_starts"));
    struct queue_numbers n = queue_numbers(q);
    assert_int_equal(n.turns, 2);
    assert_int_equal(n.busy, 2);
    assert_int_equal(n.waiting, 1);
    queue_leave(a);
    assert_int_equal(queue_wait(c, SOON, NULL), 0);
    queue_leave(b);
    queue_leave(c);
    n = queue_numbers(q);
    assert_int_equal(n.busy + n.waiting, 0);
    queue_free(q);
}

/* Whoever has ten in line waits for whoever has one. */
static void test_tenants_take_turns(void **state)
{
    struct queue *q = line_of(1);
    struct place_in_line *first = queue_join(q, "a"), *places[7];
    static const struct {
        const char *tenant;
        int position;
    } line[] = {{"a", 1}, {"a", 4}, {"a", 6}, {"b", 2}, {"b", 5}, {"c", 3}, {"a", 7}};

    for (size_t i = 0; i < TN_COUNT(line); i++)
        places[i] = queue_join(q, line[i].tenant);
    for (size_t i = 0; i < TN_COUNT(line); i++)
        assert_int_equal(queue_position(places[i]), line[i].position);
    /* And so it happens. */
    struct place_in_line *now = first;
    for (int turn = 1; turn <= (int)TN_COUNT(line); turn++) {
        queue_leave(now);
        now = NULL;
        for (size_t i = 0; i < TN_COUNT(line); i++)
            if (places[i] && admitted(places[i])) {
                assert_null(now);
                assert_int_equal(line[i].position, turn);
                now = places[i];
                places[i] = NULL;
            }
        assert_non_null(now);
    }
    queue_leave(now);
    queue_free(q);
}

/* Whoever has all turns, and gives none back, holds up nobody who has none for long. */
static void test_slow_turns(void **state)
{
    struct queue *q = line_of(1);
    struct place_in_line *slow = queue_join(q, "a"), *more = queue_join(q, "a"),
                         *b = queue_join(q, "b"), *b2 = queue_join(q, "b"), *c = queue_join(q, "c");
    int64_t began = tn_now();

    assert_true(admitted(slow));
    assert_int_equal(queue_wait(b, SOON, NULL), 0);
    assert_true(tn_now() - began > 4 * TN_SECOND);
    assert_int_equal(queue_numbers(q).busy, 2);
    assert_int_equal(queue_wait(c, tn_deadline_in(0.1), NULL), -1); /* there are no more */
    queue_leave(b);
    assert_int_equal(queue_wait(c, SOON, NULL), 0);
    assert_false(admitted(b2));
    queue_leave(c);
    assert_true(admitted(b2));
    assert_false(admitted(more)); /* its tenant has one */
    queue_leave(b2);
    assert_false(admitted(more));
    queue_leave(slow);
    assert_true(admitted(more));
    queue_leave(more);
    assert_int_equal(queue_numbers(q).busy, 0);
    queue_free(q);
}

static void test_giving_up(void **state)
{
    struct queue *q = line_of(1);
    struct place_in_line *a = queue_join(q, "x"), *b = queue_join(q, "x"), *c = queue_join(q, "y");
    struct tn_error err = {0};

    queue_cancel(b);
    assert_int_equal(queue_wait(b, TN_NEVER, &err), -1);
    assert_int_equal(err.code, TN_E_GONE);
    assert_int_equal(queue_position(c), 1);
    queue_cancel(a); /* has its turn: nothing to cancel */
    assert_true(admitted(a));
    queue_leave(b);
    queue_leave(c); /* leaves without ever having waited */
    queue_leave(a);
    struct place_in_line *d = queue_join(q, "x");
    assert_true(admitted(d));
    queue_leave(d);
    queue_leave(NULL);
    queue_free(q);
}

/* Pools: urgent ones before everybody, others after, and never more than half of the turns. */
static void test_pools(void **state)
{
    struct queue *q = line_of(2);
    struct place_in_line *spare = queue_join_pool(q, false), *spare2 = queue_join_pool(q, false);

    assert_true(admitted(spare));
    assert_false(admitted(spare2)); /* although there is a turn */
    struct place_in_line *a = queue_join(q, "x");
    assert_true(admitted(a));
    struct place_in_line *b = queue_join(q, "x"), *urgent = queue_join_pool(q, true);
    assert_int_equal(queue_position(b), 1);
    assert_int_equal(queue_numbers(q).waiting, 1);
    queue_leave(spare);
    assert_true(admitted(urgent));
    assert_false(admitted(b));
    queue_leave(urgent);
    assert_true(admitted(b));
    assert_false(admitted(spare2));
    queue_leave(a);
    queue_leave(b);
    assert_true(admitted(spare2));
    queue_leave(spare2);
    queue_free(q);
}

/* --- many threads -------------------------------------------------------------------------- */

#define THREADS 32
#define ROUNDS 200
#define TURNS 3

static atomic_int inside, most, done;

static void note_most(int now)
{
    for (int before = atomic_load(&most);
         now > before && !atomic_compare_exchange_weak(&most, &before, now);)
        continue;
}

/* Every third gives up at once, every fifth is cancelled by itself: whoever waits must still get
 * its turn, or the test does not end. */
static void *come_and_go(void *arg)
{
    struct queue *q = arg;
    static atomic_int number;
    int me = atomic_fetch_add(&number, 1);
    char tenant[16];

    snprintf(tenant, sizeof tenant, "tenant%d", me % 5);
    for (int i = 0; i < ROUNDS; i++) {
        struct place_in_line *p = me % 8 == 0 ? queue_join_pool(q, i & 1) : queue_join(q, tenant);
        int64_t deadline = (me + i) % 3 == 0 ? tn_now() : SOON;
        if ((me + i) % 5 == 0)
            queue_cancel(p);
        if (queue_wait(p, deadline, NULL) == 0) {
            note_most(atomic_fetch_add(&inside, 1) + 1);
            atomic_fetch_add(&done, 1);
            atomic_fetch_sub(&inside, 1);
        }
        queue_position(p);
        queue_leave(p);
    }
    return NULL;
}

static void test_many_threads(void **state)
{
    struct queue *q = line_of(TURNS);
    pthread_t threads[THREADS];

    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, come_and_go, q), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_in_range(atomic_load(&most), 1, TURNS);
    /* Those with a deadline of a minute that were not cancelled all had their turn. */
    int certain = 0;
    for (int me = 0; me < THREADS; me++)
        for (int i = 0; i < ROUNDS; i++)
            certain += (me + i) % 3 != 0 && (me + i) % 5 != 0;
    assert_true(atomic_load(&done) >= certain);
    struct queue_numbers n = queue_numbers(q);
    assert_int_equal(n.busy + n.waiting, 0);
    queue_free(q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_turns),        cmocka_unit_test(test_tenants_take_turns),
        cmocka_unit_test(test_giving_up),    cmocka_unit_test(test_pools),
        cmocka_unit_test(test_many_threads), cmocka_unit_test(test_slow_turns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
