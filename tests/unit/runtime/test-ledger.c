/* What a ledger knows of actions and their idempotency keys. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>

#include "base/fs.h"
#include "runtime/ledger.h"

static char directory[] = "/tmp/tendon-ledger-XXXXXX";
static struct tn_config config;

static struct tn_ledger *open_ledger(const char *where)
{
    struct tn_ledger *l = tn_ledger_new();
    const struct tn_sandbox_journal of = {.directory = where, .key = "hand-key", .config = &config};

    tn_ledger_open(l, &of);
    return l;
}

static int set_up(void **state)
{
    return mkdtemp(directory) ? 0 : -1;
}

static int tear_down(void **state)
{
    tn_autofd int tmp = open("/tmp", O_DIRECTORY | O_CLOEXEC);

    return tn_fs_remove_tree(tmp, strrchr(directory, '/') + 1, 0, NULL);
}

static struct tn_noted begin(struct tn_ledger *l, bool hidden, const char *key, int64_t start)
{
    tn_autoaction struct tn_action a;

    tn_action_init_run(&a, "echo hand-key", 1);
    a.run.hidden = hidden;
    return tn_ledger_begin(l, &a, key, start);
}

static char *report(void *ctx)
{
    return tn_strdup(ctx);
}

/* Ends it with a failure; whether the observation was changed. */
static bool end(struct tn_ledger *l, const struct tn_noted *noted, const char *news,
                const char *expected)
{
    tn_autoaction struct tn_action a;
    tn_autoobservation struct tn_observation o;

    tn_action_init_run(&a, "false", 1);
    tn_observation_init_error(&o, NULL, "it failed");
    bool changed = tn_ledger_end(l, &a, noted, news ? report : NULL, (char *)(uintptr_t)news, &o);
    assert_string_equal(o.content.data, expected);
    return changed;
}

static void test_a_key_is_noted_once(void **state)
{
    struct tn_ledger *l = open_ledger(directory);

    assert_true(tn_ledger_is_open(l));
    struct tn_noted first = begin(l, false, "k1", 4), other = begin(l, false, "k2", 4);
    assert_false(first.known);
    assert_int_not_equal(first.id, other.id);
    struct tn_noted again = begin(l, false, "k1", 5);
    assert_true(again.known);
    assert_false(again.answered);
    assert_int_equal(again.id, first.id);
    assert_int_equal(again.start, 4); /* of the first time */
    assert_int_not_equal(begin(l, false, NULL, TN_START_UNKNOWN).id, first.id);

    assert_true(end(l, &first, "out of memory", "it failed\n[The sandbox reports: out of memory]"));
    again = begin(l, false, "k1", 5);
    assert_true(again.answered);
    /* whoever asks again is told the same, whatever there is to report now */
    end(l, &again, "too many processes", "it failed\n[The sandbox reports: out of memory]");
    tn_ledger_free(l);
}

static void test_another_process_reads_it(void **state)
{
    tn_autobuf struct tn_buf answer = TN_BUF_INIT(1 << 20);
    struct tn_ledger *l = open_ledger(directory);
    struct tn_noted noted = begin(l, false, "k1", 9), open = begin(l, false, "k2", 9);

    assert_true(noted.known && noted.answered && noted.start == 4);
    assert_true(open.known && !open.answered);
    end(l, &noted, "too many processes", "it failed\n[The sandbox reports: out of memory]");
    assert_int_equal(tn_ledger_answer(l, &noted, &answer), 0);
    assert_non_null(strstr(tn_buf_str(&answer), "out of memory"));
    assert_int_equal(tn_ledger_answer(l, &open, &answer), -1);
    tn_ledger_free(l);
}

static void test_what_nobody_could_say_is_no_answer(void **state)
{
    tn_autobuf struct tn_buf answer = TN_BUF_INIT(1 << 20);
    tn_autoaction struct tn_action a;
    struct tn_ledger *l = open_ledger(directory);
    struct tn_noted noted = begin(l, false, "k3", 1);

    tn_action_init_run(&a, "true", 1);
    tn_ledger_fail(l, &a, &noted, "no answer in time");
    assert_false(begin(l, false, "k3", 1).answered);
    assert_int_equal(tn_ledger_answer(l, &noted, &answer), -1);
    tn_ledger_free(l);
}

static void test_hidden_actions_have_keys_and_no_line(void **state)
{
    tn_autobuf struct tn_buf answer = TN_BUF_INIT(1 << 20);
    struct tn_ledger *l = open_ledger(directory);
    struct tn_noted noted = begin(l, true, "hidden", 2);

    assert_int_equal(noted.id, -1);
    end(l, &noted, NULL, "it failed");
    noted = begin(l, true, "hidden", 3);
    assert_true(noted.known && noted.answered && noted.start == 2);
    assert_int_equal(tn_ledger_answer(l, &noted, &answer), -1);
    tn_ledger_free(l);
}

static void test_without_a_journal_keys_are_known(void **state)
{
    tn_autobuf struct tn_buf shown = TN_BUF_INIT(1 << 10);
    struct tn_ledger *l = open_ledger("/nonexistent/directory");

    assert_false(tn_ledger_is_open(l));
    assert_false(begin(l, false, "k", 1).known);
    assert_true(begin(l, false, "k", 1).known);
    assert_int_equal(tn_ledger_show(l, "text", &shown), -1);
    tn_ledger_free(l);
}

static void test_secrets_are_hidden(void **state)
{
    const struct tn_secret more = {.name = "token", .value = "abc123secret"};
    tn_autobuf struct tn_buf shown = TN_BUF_INIT(1 << 10);
    struct tn_ledger *l = open_ledger(directory);

    assert_int_equal(tn_ledger_hide(l, &more, 1, NULL), 0);
    assert_int_equal(tn_ledger_show(l, "hand-key and abc123secret", &shown), 0);
    assert_null(strstr(tn_buf_str(&shown), "hand-key"));
    assert_null(strstr(tn_buf_str(&shown), "abc123secret"));
    tn_ledger_free(l);
}

static void test_the_oldest_keys_go_first(void **state)
{
    struct tn_ledger *l = tn_ledger_new();
    char key[16];

    for (int i = 0; i <= 4096; i++) {
        snprintf(key, sizeof key, "ring%d", i);
        assert_false(begin(l, false, key, 1).known);
    }
    assert_true(begin(l, false, "ring1", 1).known);
    assert_false(begin(l, false, "ring0", 1).known);
    tn_ledger_free(l);
}

static struct tn_noted begin_command(struct tn_ledger *l, const char *command, double seconds,
                                     const char *key)
{
    tn_autoaction struct tn_action a;

    tn_action_init_run(&a, command, seconds);
    return tn_ledger_begin(l, &a, key, 1);
}

static void test_a_key_of_another_action(void **state)
{
    struct tn_ledger *l = open_ledger(directory);

    assert_false(tn_ledger_knows(l, "mine"));
    assert_false(begin_command(l, "echo one", 1, "mine").known);
    assert_true(tn_ledger_knows(l, "mine"));
    struct tn_noted again = begin_command(l, "echo one", 2, "mine");
    assert_true(again.known && !again.other);
    assert_true(begin_command(l, "echo two", 1, "mine").other);
    tn_ledger_free(l);
    l = open_ledger(directory); /* of another process */
    assert_true(begin_command(l, "echo two", 1, "mine").other);
    again = begin_command(l, "echo one", 1, "mine");
    assert_true(again.known && !again.other);
    tn_ledger_free(l);
}

static void test_it_catches_up_with_others(void **state)
{
    struct tn_ledger *l = open_ledger(directory), *others = open_ledger(directory);

    assert_false(tn_ledger_knows(l, "theirs"));
    struct tn_noted noted = begin(others, false, "theirs", 1);
    assert_false(tn_ledger_knows(l, "theirs"));
    tn_ledger_catch_up(l);
    assert_true(tn_ledger_knows(l, "theirs"));
    end(others, &noted, NULL, "it failed");
    assert_false(begin(l, false, "theirs", 1).answered);
    tn_ledger_catch_up(l);
    assert_true(begin(l, false, "theirs", 1).answered);
    tn_ledger_free(l);
    tn_ledger_free(others);
}

static void test_a_key_is_claimed_by_one(void **state)
{
    struct tn_ledger *l = open_ledger(directory);

    assert_int_equal(tn_ledger_claim(l, "claimed"), TN_CLAIM_MINE);
    assert_int_equal(tn_ledger_claim(l, "claimed"), TN_CLAIM_OTHERS);
    assert_int_equal(tn_ledger_claim(l, "another"), TN_CLAIM_MINE);
    assert_false(tn_ledger_knows(l, "claimed"));
    tn_ledger_unclaim(l, "claimed"); /* nothing was noted: it is free */
    assert_int_equal(tn_ledger_claim(l, "claimed"), TN_CLAIM_MINE);
    assert_false(begin(l, false, "claimed", 1).known);
    tn_ledger_unclaim(l, "claimed");
    assert_int_equal(tn_ledger_claim(l, "claimed"), TN_CLAIM_KNOWN);
    tn_ledger_unclaim(l, "another");
    tn_ledger_unclaim(l, "nobodys");
    tn_ledger_free(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_key_is_noted_once),
        cmocka_unit_test(test_another_process_reads_it),
        cmocka_unit_test(test_what_nobody_could_say_is_no_answer),
        cmocka_unit_test(test_hidden_actions_have_keys_and_no_line),
        cmocka_unit_test(test_without_a_journal_keys_are_known),
        cmocka_unit_test(test_secrets_are_hidden),
        cmocka_unit_test(test_the_oldest_keys_go_first),
        cmocka_unit_test(test_a_key_of_another_action),
        cmocka_unit_test(test_it_catches_up_with_others),
        cmocka_unit_test(test_a_key_is_claimed_by_one),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
