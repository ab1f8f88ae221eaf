/* Transactions: whole or not at all, alone and together with those of other threads. */
#include "../base/scratch.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "runtime/database.h"

#define STEPS 8
#define WRONG 3

static struct tn_db *db;

static int open_database(void **state)
{
    if (scratch_open(state))
        return -1;
    tn_autofree char *path = tn_asprintf("%s/test.db", scratch_path);
    db = tn_db_open(path, NULL);
    return db && tn_db_run(db, NULL, "CREATE TABLE word (n INTEGER PRIMARY KEY)", "") >= 0 ? 0 : -1;
}

static int close_database(void **state)
{
    tn_db_close(db);
    return scratch_close(state);
}

static int take_int(const struct tn_db_row *row, void *ctx)
{
    *(int64_t *)ctx = tn_db_int(row, 0);
    return 0;
}

static int64_t words(void)
{
    int64_t n = -1;

    tn_db_each(db, take_int, &n, NULL, "SELECT count(*) FROM word", "");
    return n;
}

static int put(struct tn_db *d, void *ctx, struct tn_error *err)
{
    return tn_db_run(d, err, "INSERT INTO word VALUES (?)", "i", *(int64_t *)ctx) < 0 ? -1 : 0;
}

/* Whatever the umask is, which stays as it is. */
static void test_nobody_else_can_read_it(void **state)
{
    static const char *const ends[] = {"", "-wal", "-shm", "-lock"};
    tn_autofree char *path = tn_asprintf("%s/private.db", scratch_path);
    struct stat st;
    mode_t before = umask(0);
    struct tn_db *own = tn_db_open(path, NULL);

    assert_int_equal(umask(before), 0);
    assert_non_null(own);
    for (size_t i = 0; i < TN_COUNT(ends); i++) {
        tn_autofree char *file = tn_asprintf("%s%s", path, ends[i]);
        assert_int_equal(stat(file, &st), 0);
        assert_int_equal(st.st_mode & 0777, 0600);
    }
    tn_db_close(own);
}

/* --- alone --------------------------------------------------------------------------------- */

static int put_and_fail(struct tn_db *d, void *ctx, struct tn_error *err)
{
    assert_int_equal(put(d, ctx, err), 0);
    return tn_fail(err, TN_E_DENIED, "not this one");
}

/* What is asked for inside belongs to it. */
static int put_inside_and_fail(struct tn_db *d, void *ctx, struct tn_error *err)
{
    assert_int_equal(tn_db_atomically(d, put, ctx, err), 0);
    return tn_fail(err, TN_E_DENIED, "not this one");
}

static void test_whole_or_not_at_all(void **state)
{
    struct tn_error err = {0};
    int64_t n = 1;

    assert_int_equal(tn_db_atomically(db, put_and_fail, &n, &err), -1);
    assert_string_equal(err.text, "not this one");
    assert_int_equal(words(), 0);
    assert_int_equal(tn_db_atomically(db, put_inside_and_fail, &n, &err), -1);
    assert_int_equal(words(), 0);
    assert_int_equal(tn_db_atomically(db, put, &n, &err), 0);
    assert_int_equal(words(), 1);
}

static void test_a_transaction_that_does_not_begin(void **state)
{
    struct tn_error err = {0};
    int64_t n = 1;

    assert_true(tn_db_run(db, NULL, "BEGIN", "") >= 0);
    assert_int_equal(tn_db_atomically(db, put, &n, &err), -1);
    assert_non_null(strstr(err.text, "transaction"));
    assert_true(tn_db_run(db, NULL, "COMMIT", "") >= 0);
    assert_int_equal(tn_db_atomically(db, put, &n, &err), 0);
}

/* --- together ------------------------------------------------------------------------------ */

struct asker {
    int64_t n;
    tn_db_step_fn fn;
    atomic_int tid; /* set when it is about to ask */
    pthread_t thread;
    struct tn_error err;
    int result;
};

static struct asker askers[STEPS];

static void *ask(void *arg)
{
    struct asker *a = arg;

    a->tid = gettid();
    a->result = tn_db_atomically(db, a->fn, &a->n, &a->err);
    return NULL;
}

static bool all_sleep(void)
{
    for (int i = 0; i < STEPS; i++) {
        tn_autofree char *path = tn_asprintf("/proc/self/task/%d/stat", askers[i].tid);
        tn_autofile FILE *f = fopen(path, "re");
        char line[512];
        const char *end = f && fgets(line, sizeof line, f) ? strrchr(line, ')') : NULL;

        if (!askers[i].tid || !end || end[2] != 'S')
            return false;
    }
    return true;
}

/* Holds the transaction until all askers wait for the next one: they will share it. */
static int start_askers(struct tn_db *d, void *ctx, struct tn_error *err)
{
    int64_t deadline = tn_deadline_in(60);

    for (int i = 0; i < STEPS; i++)
        if (pthread_create(&askers[i].thread, NULL, ask, &askers[i]))
            abort();
    while (!(all_sleep() && all_sleep()))
        if (tn_now() > deadline)
            return tn_fail(err, TN_E_TIMEOUT, "they do not come");
        else
            sched_yield();
    return 0;
}

/* All at once; the one at WRONG does something else. */
static void ask_together(tn_db_step_fn wrong)
{
    struct tn_error err = {0};

    for (int i = 0; i < STEPS; i++)
        askers[i] = (struct asker){.n = i, .fn = i == WRONG ? wrong : put};
    if (tn_db_atomically(db, start_askers, NULL, &err))
        fail_msg("%s", err.text);
    for (int i = 0; i < STEPS; i++)
        pthread_join(askers[i].thread, NULL);
}

static void test_a_failure_is_nobody_elses(void **state)
{
    int64_t n = WRONG;

    assert_int_equal(tn_db_atomically(db, put, &n, NULL), 0);
    ask_together(put); /* is there already */
    for (int i = 0; i < STEPS; i++)
        assert_int_equal(askers[i].result, i == WRONG ? -1 : 0);
    assert_int_equal(askers[WRONG].err.code, TN_E_CONFLICT);
    assert_int_equal(words(), STEPS);

    tn_db_run(db, NULL, "DELETE FROM word", "");
    ask_together(put_and_fail);
    for (int i = 0; i < STEPS; i++)
        assert_int_equal(askers[i].result, i == WRONG ? -1 : 0);
    assert_string_equal(askers[WRONG].err.text, "not this one");
    assert_int_equal(words(), STEPS - 1);
}

/* As SQLite does it by itself when the disk is full. */
static int end_all(struct tn_db *d, void *ctx, struct tn_error *err)
{
    tn_db_run(d, NULL, "ROLLBACK", "");
    return tn_fail(err, TN_E_IO, "the disk is full");
}

static void test_an_end_for_all_is_told_to_all(void **state)
{
    ask_together(end_all);
    for (int i = 0; i < STEPS; i++) {
        const char *says = i == WRONG ? "the disk is full" : "made at the same time failed";
        assert_int_equal(askers[i].result, -1);
        assert_int_equal(askers[i].err.code, TN_E_IO);
        assert_non_null(strstr(askers[i].err.text, says));
    }
    assert_int_equal(words(), 0);
    ask_together(put);
    assert_int_equal(words(), STEPS);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_database, close_database)
    const struct CMUnitTest tests[] = {
        TEST(test_nobody_else_can_read_it),           TEST(test_whole_or_not_at_all),
        TEST(test_a_transaction_that_does_not_begin), TEST(test_a_failure_is_nobody_elses),
        TEST(test_an_end_for_all_is_told_to_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
