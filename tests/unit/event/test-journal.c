#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "event/checksum.h"
#include "session.h"

/* What the journal holds from an event on, as "id:json id:json". */
static char *contents(const char *directory, int64_t from, int64_t *damaged)
{
    tn_autojournalreader struct tn_journal_reader *r = open_reader(directory, from);
    struct tn_buf out = TN_BUF_INIT(1 << 20);
    struct tn_journal_event e;
    struct tn_error err = {0};
    int found;

    while ((found = tn_journal_next(r, &e, &err)) == 1)
        tn_buf_printf(&out, "%s%lld:%.*s", out.len ? " " : "", (long long)e.id, (int)e.len, e.json);
    if (found < 0)
        fail_msg("%s", err.text);
    if (damaged)
        *damaged = tn_journal_damaged(r);
    return tn_buf_take(&out);
}

static void check_contents(const char *directory, int64_t from, const char *expected)
{
    tn_autofree char *found = contents(directory, from, NULL);
    assert_string_equal(found, expected);
}

static void test_checksum(void **state)
{
    const char *text = "123456789 and some more, so that every path is taken";

    assert_int_equal(tn_crc32(0, "123456789", 9), 0xcbf43926);
    for (size_t i = 0; i <= strlen(text); i++)
        assert_int_equal(tn_crc32(tn_crc32(0, text, i), text + i, strlen(text) - i),
                         tn_crc32(0, text, strlen(text)));
}

static void test_append_and_read(void **state)
{
    autosession char *dir = make_session();
    struct tn_journal *j = open_journal(dir);
    struct tn_error err = {0};
    int64_t id;

    check_contents(dir, 0, "");
    assert_int_equal(append(j, "{\"a\":1}"), 0);
    assert_int_equal(append(j, "{}"), 1);
    assert_int_equal(append(j, "{\"b\":\"x\"}"), 2);
    assert_int_equal(tn_journal_append(j, "[]", 2, &id, &err), -1);
    assert_int_equal(tn_journal_append(j, "{\n}", 3, &id, &err), -1);
    check_contents(dir, 0, "0:{\"id\":0,\"a\":1} 1:{\"id\":1} 2:{\"id\":2,\"b\":\"x\"}");
    check_contents(dir, 2, "2:{\"id\":2,\"b\":\"x\"}");
    check_contents(dir, 3, "");
    tn_journal_close(j);

    j = open_journal(dir);
    assert_int_equal(tn_journal_next_id(j), 3);
    assert_int_equal(append(j, "{}"), 3);
    tn_journal_close(j);
}

/* docs/internals/events.md shows this line. */
static void test_bytes_on_disk(void **state)
{
    autosession char *dir = make_session();
    struct tn_journal *j = open_journal(dir);
    tn_autofree char *log = NULL;
    char expected[64];

    append(j, "{\"a\":1}");
    tn_journal_close(j);
    log = read_whole(dir, TN_JOURNAL_LOG, NULL);
    snprintf(expected, sizeof expected, "0000000e %08x 000000000000 {\"id\":0,\"a\":1}\n",
             (unsigned)tn_crc32(0, "000000000000 {\"id\":0,\"a\":1}", 27));
    assert_string_equal(log, expected);
}

static void test_missing_directory(void **state)
{
    struct tn_error err = {0};

    assert_null(tn_journal_reader_new("/nonexistent/session", 0, &err));
    assert_int_equal(err.code, TN_E_NOT_FOUND);

    assert_null(tn_journal_open("/nonexistent/session", TN_JOURNAL_EXISTING, &err));
    assert_int_equal(err.code, TN_E_NOT_FOUND);
    assert_int_equal(access("/nonexistent", F_OK), -1);
}

/* Every event that was there before is there after a cut at any byte, and nothing else. */
static void test_cut_at_every_byte(void **state)
{
    autosession char *dir = make_session();
    struct tn_journal *j = open_journal(dir);
    size_t ends[5] = {0}, n;

    for (int i = 1; i <= 4; i++) {
        append(j, "{\"text\":\"some words\"}");
        free(read_whole(dir, TN_JOURNAL_LOG, &ends[i]));
    }
    tn_journal_close(j);
    tn_autofree char *log = read_whole(dir, TN_JOURNAL_LOG, &n);

    for (size_t cut = 0; cut <= n; cut++) {
        tn_autofree char *expected = NULL, *found = NULL;
        int64_t whole = 0;

        write_whole(dir, TN_JOURNAL_LOG, log, cut);
        while (whole < 4 && ends[whole + 1] <= cut)
            whole++;
        expected = contents(dir, 0, NULL);
        j = open_journal(dir);
        assert_int_equal(tn_journal_next_id(j), whole);
        found = contents(dir, 0, NULL);
        assert_string_equal(found, expected);
        assert_int_equal(append(j, "{}"), whole);
        tn_journal_close(j);
        check_contents(dir, whole,
                       whole == 0   ? "0:{\"id\":0}"
                       : whole == 1 ? "1:{\"id\":1}"
                       : whole == 2 ? "2:{\"id\":2}"
                       : whole == 3 ? "3:{\"id\":3}"
                                    : "4:{\"id\":4}");
    }
}

/* A damaged line costs its own event and no other, and its id is not given again. */
static void test_any_damaged_byte(void **state)
{
    autosession char *dir = make_session();
    struct tn_journal *j = open_journal(dir);
    size_t n;

    for (int i = 0; i < 3; i++)
        append(j, "{\"t\":\"abc\"}");
    tn_journal_close(j);
    tn_autofree char *log = read_whole(dir, TN_JOURNAL_LOG, &n);

    for (size_t at = 0; at < n; at++) {
        tn_autofree char *found = NULL;
        int64_t damaged;
        char was = log[at];

        log[at] = was == '\n' ? 'x' : '\0';
        write_whole(dir, TN_JOURNAL_LOG, log, n);
        log[at] = was;
        found = contents(dir, 0, &damaged);
        j = open_journal(dir);
        /* without its line end the last line is half a line; others swallow the next one */
        int64_t lost = was != '\n' ? 1 : at == n - 1 ? 0 : 1;
        assert_int_equal(damaged, lost);
        assert_true(tn_journal_next_id(j) >= (at == n - 1 ? 2 : was == '\n' ? 2 : 3));
        assert_true(append(j, "{}") >= 2);
        tn_journal_close(j);
        if (at < n / 3 - 1)
            assert_non_null(strstr(found, "1:{\"id\":1,\"t\":\"abc\"} 2:{\"id\":2"));
        if (at >= n / 3)
            assert_non_null(strstr(found, "0:{\"id\":0,\"t\":\"abc\"}"));
    }
}

static void test_two_writers(void **state)
{
    autosession char *dir = make_session();
    struct tn_journal *a = open_journal(dir), *b = open_journal(dir);

    assert_int_equal(append(a, "{\"by\":\"a\"}"), 0);
    assert_int_equal(append(b, "{\"by\":\"b\"}"), 1);
    assert_int_equal(append(b, "{\"by\":\"b\"}"), 2);
    assert_int_equal(append(a, "{\"by\":\"a\"}"), 3);
    tn_journal_close(a);
    tn_journal_close(b);
    check_contents(dir, 2, "2:{\"id\":2,\"by\":\"b\"} 3:{\"id\":3,\"by\":\"a\"}");
}

/* Half a line of a writer that died is cut off by the one that is still there. */
static void test_writer_dies_beside_another(void **state)
{
    autosession char *dir = make_session();
    struct tn_journal *j = open_journal(dir);
    tn_autojournalreader struct tn_journal_reader *r = open_reader(dir, 0);
    tn_autofree char *path = path_in(dir, TN_JOURNAL_LOG);
    struct tn_journal_event e;

    append(j, "{\"n\":0}");
    tn_autofd int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    assert_int_equal(tn_fs_write(fd, "00000014 abcdef01 000000000001 {\"id\":1", 38, NULL), 0);
    assert_int_equal(tn_journal_next(r, &e, NULL), 1);
    assert_int_equal(tn_journal_next(r, &e, NULL), 0);
    assert_int_equal(append(j, "{\"n\":1}"), 1);
    assert_int_equal(tn_journal_next(r, &e, NULL), 1);
    assert_int_equal(e.id, 1);
    assert_int_equal(tn_journal_next(r, &e, NULL), 0);
    assert_int_equal(tn_journal_damaged(r), 0);
    tn_journal_close(j);
}

static void test_from_any_id(void **state)
{
    autosession char *dir = make_session();
    struct tn_journal *j = open_journal(dir);
    tn_autofree char *pad = tn_calloc(1, 200001);
    struct tn_journal_event e;

    /* lines of very different lengths, some longer than what is read at once */
    for (int i = 0; i < 300; i++) {
        int n = i % 50 == 7 ? 200000 : i * 37 % 1000;
        memset(pad, 'x', (size_t)n);
        pad[n] = '\0';
        tn_autofree char *json = tn_asprintf("{\"pad\":\"%s\"}", pad);
        append(j, json);
    }
    tn_journal_close(j);
    for (int64_t from = 0; from <= 300; from++) {
        tn_autojournalreader struct tn_journal_reader *r = open_reader(dir, from);
        int found = tn_journal_next(r, &e, NULL);
        assert_int_equal(found, from < 300);
        if (found)
            assert_int_equal(e.id, from);
        assert_int_equal(tn_journal_damaged(r), 0);
    }
}

static void test_newest(void **state)
{
    autosession char *dir = make_session();
    struct tn_journal *j = open_journal(dir);
    char event[700];
    struct tn_error err = {0};

    snprintf(event, sizeof event, "{\"a\":\"%0600d\"}", 0);
    assert_int_equal(tn_journal_newest(dir, &err), -1);
    for (int64_t i = 0; i < 500; i++) { /* several times what is read at once */
        assert_int_equal(append(j, event), i);
        if (i % 100 == 0)
            assert_int_equal(tn_journal_newest(dir, &err), i);
    }
    assert_int_equal(tn_journal_newest(dir, &err), 499);
    tn_journal_close(j);
    assert_int_equal(tn_journal_newest("/nosuch", &err), -2);
}

static void test_wait(void **state)
{
    autosession char *dir = make_session();
    tn_autojournalreader struct tn_journal_reader *r = open_reader(dir, 0);
    struct tn_journal_event e;
    struct tn_error err = {0};
    int pipes[2];

    assert_int_equal(tn_journal_next(r, &e, &err), 0);
    while (!tn_journal_wait(r, -1, tn_deadline_in(0.01), &err))
        ;
    assert_int_equal(err.code, TN_E_TIMEOUT);

    /* a descriptor of the caller's */
    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    close(pipes[1]);
    assert_int_equal(tn_journal_wait(r, pipes[0], TN_NEVER, &err), 0);
    close(pipes[0]);

    /* the first event makes the log */
    pid_t child = fork();
    if (child == 0) {
        struct tn_journal *j = tn_journal_open(dir, 0, NULL);
        int64_t id;
        _exit(j ? tn_journal_append(j, "{}", 2, &id, NULL) != 0 : 1);
    }
    int found;
    while ((found = tn_journal_next(r, &e, &err)) == 0)
        assert_int_equal(tn_journal_wait(r, -1, tn_deadline_in(20), &err), 0);
    assert_int_equal(found, 1);
    waitpid(child, NULL, 0);

    /* removed while somebody waits */
    remove_directory(dir);
    while (!tn_journal_wait(r, -1, tn_deadline_in(20), &err))
        ;
    assert_int_equal(err.code, TN_E_GONE);
}

static void test_removed_under_a_writer(void **state)
{
    autosession char *dir = make_session();
    struct tn_journal *j = open_journal(dir);
    struct tn_error err = {0};
    int64_t id;

    append(j, "{}");
    remove_directory(dir);
    assert_int_equal(tn_journal_append(j, "{}", 2, &id, &err), -1);
    assert_int_equal(err.code, TN_E_GONE);
    tn_journal_close(j);
}

/* A directory that OpenHands wrote, with one file that is none of its events. */
static void test_takes_over_openhands(void **state)
{
    autosession char *dir = make_session();
    tn_autofree char *events = path_in(dir, "events");
    static const char first[] = "{\"id\": 0,\n \"message\": \"a\"}", third[] = "{\"id\": 2}";

    assert_int_equal(mkdir(events, 0700), 0);
    write_whole(dir, "events/0.json", first, strlen(first));
    write_whole(dir, "events/1.json", "{\"id\":", 6);
    write_whole(dir, "events/2.json", third, strlen(third));
    struct tn_journal *j = open_journal(dir);
    assert_int_equal(append(j, "{}"), 3);
    tn_journal_close(j);
    check_contents(dir, 0, "0:{\"id\":0,\"message\":\"a\"} 2:{\"id\":2} 3:{\"id\":3}");
}

/* What does not fit leaves nothing behind. */
static void test_full_disk(void **state)
{
    autosession char *dir = make_session();
    struct tn_journal *j = open_journal(dir);
    tn_autofree char *pad = tn_calloc(1, 100001);
    struct tn_error err = {0};
    int64_t id;

    append(j, "{\"n\":0}");
    memset(pad, 'x', 100000);
    tn_autofree char *json = tn_asprintf("{\"pad\":\"%s\"}", pad);
    pid_t child = fork();
    if (child == 0) {
        struct rlimit small = {.rlim_cur = 50000, .rlim_max = 50000};
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &small);
        int failed = tn_journal_append(j, json, strlen(json), &id, &err);
        _exit(failed == -1 && err.sys == EFBIG && !tn_journal_append(j, "{}", 2, &id, &err) &&
                      id == 1
                  ? 0
                  : 1);
    }
    int status;
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    tn_journal_close(j);
    check_contents(dir, 0, "0:{\"id\":0,\"n\":0} 1:{\"id\":1}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_checksum),
        cmocka_unit_test(test_append_and_read),
        cmocka_unit_test(test_bytes_on_disk),
        cmocka_unit_test(test_missing_directory),
        cmocka_unit_test(test_cut_at_every_byte),
        cmocka_unit_test(test_any_damaged_byte),
        cmocka_unit_test(test_two_writers),
        cmocka_unit_test(test_writer_dies_beside_another),
        cmocka_unit_test(test_from_any_id),
        cmocka_unit_test(test_newest),
        cmocka_unit_test(test_wait),
        cmocka_unit_test(test_removed_under_a_writer),
        cmocka_unit_test(test_takes_over_openhands),
        cmocka_unit_test(test_full_disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
