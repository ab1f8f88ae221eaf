/* Writers are killed at random moments while others go on: what an append has acknowledged is in
 * the journal, in order, once, and whole. */
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "session.h"

enum { ROUNDS = 40, WRITERS = 2, MOST = 60000 };

/* Shared with the writers: how many appends each has seen succeed in this round. */
static _Atomic int64_t *acknowledged;

/* Events of random length; each says how long it is and who wrote it. */
static _Noreturn void write_for_ever(const char *dir, int writer, unsigned seed)
{
    static char json[MOST + 64];
    struct tn_journal *j = tn_journal_open(dir, 0, NULL);
    int64_t id;

    for (int64_t n = 0; j; n++) {
        int pad = rand_r(&seed) % 8 ? rand_r(&seed) % 300 : rand_r(&seed) % MOST;
        int head =
            snprintf(json, sizeof json, "{\"n\":%lld,\"pad\":%d,\"text\":\"", (long long)n, pad);
        memset(json + head, 'a' + writer, (size_t)pad);
        snprintf(json + head + pad, 3, "\"}");
        if (tn_journal_append(j, json, strlen(json), &id, NULL))
            break;
        atomic_fetch_add(&acknowledged[writer], 1);
    }
    _exit(1); /* only a signal ends it */
}

static void check_event(const struct tn_journal_event *e)
{
    tn_autojson struct tn_json *tree = NULL;
    size_t n;

    assert_int_equal(tn_json_parse(e->json, e->len, &tree, NULL), 0);
    assert_int_equal(tn_json_int(tn_json_get(tree, "id"), -1), e->id);
    assert_non_null(tn_json_str(tn_json_get(tree, "text"), &n));
    assert_int_equal(n, tn_json_int(tn_json_get(tree, "pad"), -1));
}

static void wait_until_written(int64_t count)
{
    struct timespec pause = tn_timespec(TN_MILLI / 4);

    for (int64_t deadline = tn_deadline_in(30); tn_now() < deadline;) {
        int64_t sum = 0;
        for (int i = 0; i < WRITERS; i++)
            sum += atomic_load(&acknowledged[i]);
        if (sum >= count)
            return;
        clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
    }
    fail_msg("the writers do not write");
}

static void test_killed_writers(void **state)
{
    autosession char *dir = make_session();
    unsigned seed = 1;
    int64_t total = 0, seen = 0;
    struct tn_journal_event e;
    struct tn_error err = {0};

    acknowledged = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(acknowledged != MAP_FAILED);
    /* reads along the whole time */
    tn_autojournalreader struct tn_journal_reader *live = open_reader(dir, 0);

    for (int round = 0; round < ROUNDS; round++) {
        pid_t writers[WRITERS];
        int status, found;

        for (int i = 0; i < WRITERS; i++) {
            atomic_store(&acknowledged[i], 0);
            unsigned start = (unsigned)rand_r(&seed);
            writers[i] = fork();
            assert_true(writers[i] >= 0);
            if (writers[i] == 0)
                write_for_ever(dir, i, start);
        }
        wait_until_written(rand_r(&seed) % 30);
        for (int i = 0; i < WRITERS; i++) {
            struct timespec pause = tn_timespec(rand_r(&seed) % 300000);
            clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
            kill(writers[i], SIGKILL);
            assert_int_equal(waitpid(writers[i], &status, 0), writers[i]);
            assert_true(WIFSIGNALED(status));
            total += atomic_load(&acknowledged[i]);
        }
        while ((found = tn_journal_next(live, &e, &err)) == 1) {
            assert_int_equal(e.id, seen);
            check_event(&e);
            seen++;
        }
        assert_int_equal(found, 0);
        assert_int_equal(tn_journal_damaged(live), 0);
        /* one event may be in the journal whose writer did not live to hear of it */
        total = total > seen ? total : seen;
        assert_int_equal(total, seen);
    }

    struct tn_journal *j = open_journal(dir);
    assert_int_equal(append(j, "{\"text\":\"\",\"pad\":0}"), seen);
    tn_journal_close(j);
    tn_autojournalreader struct tn_journal_reader *again = open_reader(dir, 0);
    for (int64_t id = 0; id <= seen; id++) {
        assert_int_equal(tn_journal_next(again, &e, &err), 1);
        assert_int_equal(e.id, id);
        check_event(&e);
    }
    assert_int_equal(tn_journal_next(again, &e, &err), 0);
    assert_int_equal(tn_journal_damaged(again), 0);
    munmap((void *)acknowledged, 4096);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_killed_writers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
