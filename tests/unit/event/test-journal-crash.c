/* Writers are killed at random moments while others go on: what an append has acknowledged is in
 * the journal, in order, once, and whole. */
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "session.h"

enum { ROUNDS = 40, WRITERS = 2, MOST = 60000 };

/* Events of random length, each of which says how long it is; one byte into the pipe for each that
 * an append has acknowledged. */
static _Noreturn void write_for_ever(const char *dir, int writer, unsigned seed, int acknowledge)
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
        if (tn_journal_append(j, json, strlen(json), &id, NULL) || write(acknowledge, "", 1) != 1)
            break;
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

/* Reads acknowledgements until there are `count`; -1: to the end. */
static int64_t read_acknowledgements(int fd, int64_t count)
{
    int64_t seen = 0;
    char bytes[4096];

    while (count < 0 || seen < count) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (poll(&p, 1, 30000) != 1)
            fail_msg("the writers do not write");
        ssize_t got = read(fd, bytes, sizeof bytes);
        assert_true(got >= 0);
        if (got == 0)
            break;
        seen += got;
    }
    return seen;
}

static void let_pass(int64_t nanoseconds)
{
    for (int64_t until = tn_now() + nanoseconds; tn_now() < until;)
        ;
}

static void test_killed_writers(void **state)
{
    autosession char *dir = make_session();
    unsigned seed = 1;
    int64_t total = 0, seen = 0;
    struct tn_journal_event e;
    struct tn_error err = {0};

    /* reads along the whole time */
    tn_autojournalreader struct tn_journal_reader *live = open_reader(dir, 0);

    for (int round = 0; round < ROUNDS; round++) {
        pid_t writers[WRITERS];
        int status, found, pipes[2];

        assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
        for (int i = 0; i < WRITERS; i++) {
            unsigned start = (unsigned)rand_r(&seed);
            writers[i] = fork();
            assert_true(writers[i] >= 0);
            if (writers[i] == 0)
                write_for_ever(dir, i, start, pipes[1]);
        }
        close(pipes[1]);
        total += read_acknowledgements(pipes[0], rand_r(&seed) % 30);
        for (int i = 0; i < WRITERS; i++) {
            let_pass(rand_r(&seed) % 300000);
            kill(writers[i], SIGKILL);
            assert_int_equal(waitpid(writers[i], &status, 0), writers[i]);
            assert_true(WIFSIGNALED(status));
        }
        total += read_acknowledgements(pipes[0], -1);
        close(pipes[0]);
        while ((found = tn_journal_next(live, &e, &err)) == 1) {
            assert_int_equal(e.id, seen);
            check_event(&e);
            seen++;
        }
        assert_int_equal(found, 0);
        assert_int_equal(tn_journal_damaged(live), 0);
        /* those who died may have written one more that nobody heard of */
        assert_true(total <= seen && seen <= total + WRITERS);
        total = seen;
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
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_killed_writers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
