/* The parts of the steward that need no boxes: the heap of times, the rule, the clock. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/guard.h"
#include "service/clock.h"
#include "service/steward.h"
#include "service/timers.h"

/* --- the heap ------------------------------------------------------------------------------ */

static void test_timers_in_order(void **state)
{
    struct timers t = {0};
    char id[11];

    assert_int_equal(timers_next(&t), TN_NEVER);
    assert_false(timers_take(&t, INT64_MAX - 1, id));
    timers_set(&t, "b", 20);
    timers_set(&t, "c", 30);
    timers_set(&t, "a", 10);
    timers_set(&t, "b", 40); /* later */
    timers_set(&t, "c", 5);  /* sooner */
    timers_set(&t, "d", 1);
    timers_set(&t, "d", TN_NEVER);
    timers_set(&t, "e", TN_NEVER);
    assert_true(timers_has(&t, "a"));
    assert_false(timers_has(&t, "d"));
    assert_int_equal(timers_next(&t), 5);
    assert_false(timers_take(&t, 4, id));
    assert_true(timers_take(&t, 5, id));
    assert_string_equal(id, "c");
    assert_true(timers_take(&t, 100, id));
    assert_string_equal(id, "a");
    assert_true(timers_take(&t, 100, id));
    assert_string_equal(id, "b");
    assert_false(timers_take(&t, 100, id));
    timers_set(&t, "left", 1);
    timers_done(&t);
}

#define NAMES 300

/* Against the plainest thing that does the same. */
static void test_timers_against_an_array(void **state)
{
    struct timers t = {0};
    int64_t due[NAMES];
    uint32_t random = 1;
    char id[11];

    for (int i = 0; i < NAMES; i++)
        due[i] = TN_NEVER;
    for (int step = 0; step < 20000; step++) {
        random = random * 1664525 + 1013904223;
        int which = (int)((random >> 8) % NAMES);
        snprintf(id, sizeof id, "n%d", which);
        due[which] = (random >> 20) % 10 == 0 ? TN_NEVER : (int64_t)(random >> 4) % 1000;
        timers_set(&t, id, due[which]);
        int64_t first = TN_NEVER;
        for (int i = 0; i < NAMES; i++)
            first = due[i] < first ? due[i] : first;
        assert_int_equal(timers_next(&t), first);
        if (step % 3 == 0 && timers_take(&t, 500, id)) {
            which = (int)strtol(id + 1, NULL, 10);
            assert_int_equal(due[which], first);
            due[which] = TN_NEVER;
        }
    }
    timers_done(&t);
}

/* --- the rule ------------------------------------------------------------------------------ */

#define BOTH (TN_CAN_PAUSE | TN_CAN_STOP)

static void test_verdicts(void **state)
{
    static const struct {
        const char *what;
        struct keep_times t;
        enum keep verdict;
        double again;
    } rows[] = {
        {"no limits", {BOX_RUNNING, BOX_RUNNING, false, BOTH, .used = 900}, KEEP_AS_IT_IS, -1},
        {"not idle long enough",
         {BOX_RUNNING, BOX_RUNNING, false, BOTH, 950, .idle_pause = 60},
         KEEP_AS_IT_IS,
         10},
        {"idle: paused",
         {BOX_RUNNING, BOX_RUNNING, false, BOTH, 940, .idle_pause = 60},
         KEEP_PAUSE,
         60},
        {"in use: never idle",
         {BOX_RUNNING, BOX_RUNNING, true, BOTH, 1, .idle_pause = 60},
         KEEP_AS_IT_IS,
         60},
        {"used in the future: a clock that was set back harms nobody",
         {BOX_RUNNING, BOX_RUNNING, false, BOTH, 99999, .idle_pause = 60},
         KEEP_AS_IT_IS,
         60},
        {"both have passed: the stronger",
         {BOX_RUNNING, BOX_RUNNING, false, BOTH, 1, .idle_pause = 60, .idle_stop = 120},
         KEEP_STOP,
         60},
        {"ephemeral: deleted instead",
         {BOX_RUNNING, BOX_RUNNING, false, BOTH, 880, .idle_stop = 120, .ephemeral = true},
         KEEP_END,
         60},
        {"ephemeral, and in use",
         {BOX_RUNNING, BOX_RUNNING, true, BOTH, 880, .idle_stop = 120, .ephemeral = true},
         KEEP_AS_IT_IS,
         120},
        {"paused, and stays idle: stopped",
         {BOX_PAUSED, BOX_PAUSED, false, BOTH, 880, .idle_pause = 60, .idle_stop = 120},
         KEEP_STOP,
         60},
        {"paused: waits for the stop",
         {BOX_PAUSED, BOX_PAUSED, false, BOTH, 900, .idle_pause = 60, .idle_stop = 120},
         KEEP_AS_IT_IS,
         20},
        {"stopped: nothing more",
         {BOX_STOPPED, BOX_STOPPED, false, BOTH, 1, .idle_pause = 60, .idle_stop = 120},
         KEEP_AS_IT_IS,
         -1},
        {"stopped for long enough: deleted",
         {BOX_STOPPED, BOX_STOPPED, false, BOTH, 1, .stopped = 880, .clear = 120},
         KEEP_CLEAR,
         60},
        {"stopped, and its time to come",
         {BOX_STOPPED, BOX_STOPPED, false, BOTH, 1, .stopped = 881, .clear = 120},
         KEEP_AS_IT_IS,
         1},
        {"stopped for long enough, and being started",
         {BOX_STOPPED, BOX_RUNNING, false, BOTH, 1, .stopped = 1, .clear = 120},
         KEEP_AS_IT_IS,
         -1},
        {"it runs again",
         {BOX_RUNNING, BOX_RUNNING, false, BOTH, 1, .clear = 120},
         KEEP_AS_IT_IS,
         -1},
        {"stopped, and nothing deletes it",
         {BOX_STOPPED, BOX_STOPPED, false, BOTH, 1, .stopped = 1},
         KEEP_AS_IT_IS,
         -1},
        {"on its way elsewhere",
         {BOX_RUNNING, BOX_PAUSED, false, BOTH, 1, .idle_pause = 60},
         KEEP_AS_IT_IS,
         -1},
        {"a backend that cannot pause is not asked to",
         {BOX_RUNNING, BOX_RUNNING, false, TN_CAN_STOP, 1, .idle_pause = 60},
         KEEP_AS_IT_IS,
         -1},
        {"the end of its time, whatever it does",
         {BOX_STARTING, BOX_RUNNING, true, BOTH, 1000, .expires = 1000, .idle_pause = 60},
         KEEP_DELETE,
         60},
        {"a time-out: deleted, in use or not",
         {BOX_RUNNING, BOX_RUNNING, true, BOTH, 1000, .timeout = 1000},
         KEEP_DELETE,
         60},
        {"a time-out that only pauses",
         {BOX_RUNNING, BOX_RUNNING, true, BOTH, 1000, .timeout = 1, .timeout_how = TIMEOUT_PAUSE},
         KEEP_PAUSE_NOW,
         60},
        {"... or stops, where nothing else can be done",
         {BOX_RUNNING, BOX_RUNNING, true, TN_CAN_STOP, 1, .timeout = 1,
          .timeout_how = TIMEOUT_PAUSE},
         KEEP_STOP_NOW,
         60},
        {"a time-out of one that rests",
         {BOX_PAUSED, BOX_PAUSED, false, BOTH, 1, .timeout = 1},
         KEEP_AS_IT_IS,
         -1},
        {"a time-out of one that never came to life",
         {BOX_ERROR, BOX_ERROR, false, BOTH, 1, .timeout = 1},
         KEEP_DELETE,
         60},
        {"a time-out to come",
         {BOX_RUNNING, BOX_RUNNING, true, BOTH, 1000, .timeout = 1020},
         KEEP_AS_IT_IS,
         20},
        {"the nearest time counts",
         {BOX_RUNNING, BOX_RUNNING, false, BOTH, 1000, .expires = 1030, .idle_pause = 60},
         KEEP_AS_IT_IS,
         30},
        {"failed: only its end",
         {BOX_ERROR, BOX_ERROR, false, BOTH, 1, .expires = 1100},
         KEEP_AS_IT_IS,
         100},
        {"is being deleted",
         {BOX_RUNNING, BOX_GONE, false, BOTH, 1, .expires = 5},
         KEEP_AS_IT_IS,
         -1},
    };

    for (size_t i = 0; i < TN_COUNT(rows); i++) {
        double again;
        enum keep verdict = keep_verdict(&rows[i].t, 1000, &again);
        if (verdict != rows[i].verdict || again != rows[i].again)
            fail_msg("%s: verdict %d, again %g", rows[i].what, (int)verdict, again);
    }
}

/* --- the clock ----------------------------------------------------------------------------- */

static void test_clock(void **state)
{
    static const struct {
        const char *what;
        struct clock_note kept, now;
        double time;
    } rows[] = {
        {"nothing kept", {.boot = ""}, {5000, 100, "b"}, 5000},
        {"time has passed as it should", {5000, 100, "b"}, {5600, 700, "b"}, 5600},
        {"somebody keeps the clock right", {5000, 100, "b"}, {5603, 700, "b"}, 5603},
        {"set a year forward", {5000, 100, "b"}, {5600 + 31536000, 700, "b"}, 5600},
        {"set back", {500000, 100, "b"}, {600, 700, "b"}, 500600},
        {"another boot: nobody knows better", {5000, 100, "b"}, {99999, 10, "c"}, 99999},
    };

    for (size_t i = 0; i < TN_COUNT(rows); i++)
        if (clock_go_on(&rows[i].kept, &rows[i].now) != rows[i].time)
            fail_msg("%s", rows[i].what);
    double first = service_time(), second = service_time();
    assert_true(first <= second && second - first < 60);
}

static void test_clock_is_kept(void **state)
{
    char path[] = "/tmp/tendon-clock-XXXXXX";
    tn_autofd int fd = mkstemp(path);
    struct tn_error err = {0};
    struct tn_db *db = tn_db_open(path, &err);

    assert_true(fd >= 0);
    assert_non_null(db);
    assert_int_equal(service_clock_start(db, &err), 0);
    double before = service_time();
    /* Another service on the same machine whose wall clock was an hour ahead left this. */
    assert_int_equal(tn_db_run(db, &err,
                               "UPDATE setting SET value = (CAST(value AS REAL) + 3600) ||"
                               " substr(value, instr(value, ' ')) WHERE name = 'clock'",
                               ""),
                     1);
    assert_int_equal(service_clock_start(db, &err), 0);
    double after = service_time();
    assert_true(after - before > 3500 && after - before < 3700);
    assert_int_equal(tn_db_run(db, &err, "UPDATE setting SET value = 'nonsense'", ""), 1);
    assert_int_equal(service_clock_start(db, &err), 0);
    assert_true(service_time() - before < 3500);
    tn_db_close(db);
    for (size_t i = 0; i < 3; i++) {
        static const char *const ends[] = {"", "-wal", "-shm"};
        tn_autofree char *file = tn_asprintf("%s%s", path, ends[i]);
        unlink(file);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_timers_in_order), cmocka_unit_test(test_timers_against_an_array),
        cmocka_unit_test(test_verdicts),        cmocka_unit_test(test_clock),
        cmocka_unit_test(test_clock_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
