#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "event/journal.h"
#include "event/stream.h"
#include "runtime/replay-compare.h"
#include "runtime/replay-diff.h"
#include "runtime/replay.h"

/* --- recordings ------------------------------------------------------------------------------- */

static void load(const char *text, struct tn_recording *r)
{
    struct tn_error err = {0};
    if (tn_recording_parse(text, strlen(text), r, &err))
        fail_msg("%s: %s", text, err.text);
}

#define RUN(id, command) \
    "{\"id\":" #id ",\"action\":\"run\",\"args\":{\"command\":\"" command "\"}}"
#define ANSWER(cause, content)                                                             \
    "{\"id\":90,\"cause\":" #cause ",\"observation\":\"run\",\"content\":\"" content "\"," \
    "\"extras\":{\"command\":\"x\",\"metadata\":{\"exit_code\":0}}}"
#define BARE_RUN "{\"action\":\"run\",\"args\":{\"command\":\"a\"}}"
#define BARE_ANSWER "{\"observation\":\"run\",\"content\":\"b\",\"extras\":{\"command\":\"a\"}}"
#define THINK "{\"id\":5,\"action\":\"think\",\"args\":{\"thought\":\"hm\"}}"

/* The same session in every form there is. */
static void test_forms_of_recordings(void **state)
{
    static const char *const forms[] = {
        "[" RUN(0, "a") "," ANSWER(0, "b") "," THINK "," RUN(2, "c") "," ANSWER(2, "d") "]",
        "[[" RUN(0, "a") "," ANSWER(0, "b") "],[" RUN(2, "c") "," ANSWER(2, "d") "]]",
        "{\"history\":[" RUN(0, "a") "," ANSWER(0, "b") "," RUN(2, "c") "," ANSWER(2, "d") "]}",
        "{\"trajectory\":[" RUN(0, "a") "," ANSWER(0, "b") "," RUN(2, "c") "," ANSWER(2, "d") "]}",
        RUN(0, "a") "\n" ANSWER(0, "b") "\n\n" RUN(2, "c") "\r\n" ANSWER(2, "d"),
        /* answers out of order */
        "[" RUN(0, "a") "," RUN(2, "c") "," ANSWER(2, "d") "," ANSWER(0, "b") "]",
    };

    for (size_t i = 0; i < TN_COUNT(forms); i++) {
        tn_autorecording struct tn_recording r;
        load(forms[i], &r);
        assert_int_equal(r.step_count, 2);
        assert_string_equal(tn_json_get_str(r.steps[0].observation, "content", ""), "b");
        assert_string_equal(tn_json_get_str(r.steps[1].observation, "content", ""), "d");
    }
}

static void test_recording_without_ids(void **state)
{
    tn_autorecording struct tn_recording r;

    load("[" BARE_RUN "," BARE_RUN "," BARE_ANSWER "," THINK "]", &r);
    assert_int_equal(r.event_count, 4);
    assert_int_equal(r.step_count, 2);
    assert_null(r.steps[0].observation);
    assert_non_null(r.steps[1].observation);
}

static void test_no_recordings(void **state)
{
    static const char *const wrong[] = {"", "[]", "{}", "12", "[1,2]", "{\"a\":1}\nx", "nonsense"};
    struct tn_recording r;
    struct tn_error err = {0};

    for (size_t i = 0; i < TN_COUNT(wrong); i++)
        assert_int_equal(tn_recording_parse(wrong[i], strlen(wrong[i]), &r, &err), -1);
    assert_int_equal(tn_recording_load("/nonexistent", &r, &err), -1);
    assert_int_equal(err.code, TN_E_NOT_FOUND);
}

static void check_loaded(const char *path)
{
    tn_autorecording struct tn_recording r = {0};
    struct tn_error err = {0};

    if (tn_recording_load(path, &r, &err))
        fail_msg("%s", err.text);
    assert_int_equal(r.step_count, 12);
    for (size_t i = 0; i < 12; i++) {
        char expected[16];
        snprintf(expected, sizeof expected, "%zu", i);
        assert_string_equal(tn_json_get_str(r.steps[i].observation, "content", ""), expected);
    }
}

/* Our own journal, and OpenHands' layout of the same events, whose names do not sort by number. */
static void test_directories(void **state)
{
    char directory[] = "/tmp/tendon-test-replay-XXXXXX", path[64];
    struct tn_stream_options options = {.directory = mkdtemp(directory)};
    struct tn_stream *s = tn_stream_open(&options, NULL);
    int64_t id;

    assert_non_null(s);
    for (int i = 0; i < 12; i++) {
        tn_autoaction struct tn_action a;
        tn_autoobservation struct tn_observation o;
        char content[16];
        tn_action_init(&a, TN_ACTION_RUN);
        a.run.command = tn_strdup("x");
        tn_observation_init(&o, TN_OBSERVATION_RUN);
        snprintf(content, sizeof content, "%d", i);
        tn_observation_set_content(&o, content);
        assert_int_equal(tn_stream_add_action(s, &a, TN_SOURCE_AGENT, &id, NULL), 0);
        assert_int_equal(tn_stream_add_observation(s, &o, TN_SOURCE_AGENT, id, NULL, NULL), 0);
    }
    tn_stream_close(s);
    check_loaded(directory);
    snprintf(path, sizeof path, "%s/" TN_JOURNAL_LOG, directory);
    check_loaded(path);
    assert_int_equal(unlink(path), 0);
    check_loaded(directory);

    tn_autofd int parent = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(tn_fs_remove_tree(parent, directory + 5, 0, NULL), 0);
}

/* --- comparing -------------------------------------------------------------------------------- */

static void test_what_differs_every_time(void **state)
{
    static const struct {
        const char *in, *out;
    } cases[] = {
        {"at 2026-11-15T05:16:50.123+01:00 and 2026-11-15 05:16:50", "at <time> and <time>"},
        {"Sun Nov 15 05:16:50 UTC 2026", "<time>"},
        {"-rw-r--r-- 1 u u 12 Nov  5 05:16 file", "-rw-r--r-- 1 u u 12 <time> file"},
        {"real\t0m0.005s\nuser\t1m2.345s", "real\t<duration>\nuser\t<duration>"},
        {"2 passed in 0.12s", "2 passed in <duration>"},
        {"took 35 ms, 1.5 seconds", "took <duration>, <duration>"},
        {"[1] 4711\n[2]+ 12\nfoo", "[1] <pid>\n[2]+ <pid>\nfoo"},
        {"pid 123 PID=77", "pid <pid> PID=<pid>"},
        {"/tmp/tmp.AbCdEf1234/x /tmp/tmpab_12cd", "/tmp/<temporary>/x /tmp/<temporary>"},
        {"<object at 0x7f12ab34cd56>", "<object at <address>>"},
        /* what matters stays */
        {"exit 3, 12 files, /tmp/mine, v1.2.3, port 8080, 5s, 0x10, array[3] 7 items",
         "exit 3, 12 files, /tmp/mine, v1.2.3, port 8080, 5s, 0x10, array[3] 7 items"},
        {"", ""},
    };
    struct compare *c = compare_new();

    for (size_t i = 0; i < TN_COUNT(cases); i++) {
        tn_autobuf struct tn_buf out = TN_BUF_INIT(1 << 16);
        assert_int_equal(compare_normalise(c, cases[i].in, strlen(cases[i].in), &out), 0);
        assert_string_equal(tn_buf_str(&out), cases[i].out);
    }
    compare_free(c);
}

static void check_diff(const char *a, const char *b, const char *expected)
{
    tn_autobuf struct tn_buf one = TN_BUF_INIT(1 << 16), two = TN_BUF_INIT(1 << 16),
                             out = TN_BUF_INIT(1 << 16);

    tn_buf_puts(&one, a);
    tn_buf_puts(&two, b);
    assert_int_equal(replay_diff(&one, &two, &out), 0);
    assert_string_equal(tn_buf_str(&out), expected);
}

static void test_diff(void **state)
{
    check_diff("a\nb\n", "a\nb\n", "");
    check_diff("", "", "");
    check_diff("a\n", "b\n", "--- recorded\n+++ replayed\n@@ -1,1 +1,1 @@\n-a\n+b\n");
    check_diff("", "b\n", "--- recorded\n+++ replayed\n@@ -0,0 +1,1 @@\n+b\n");
    check_diff("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\nX\n6\n7\n8\n9\n",
               "--- recorded\n+++ replayed\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+X\n 6\n 7\n 8\n");
    /* far apart: two hunks; near: one */
    check_diff("A\n2\n3\n4\n5\n6\n7\n8\n9\nB\n", "a\n2\n3\n4\n5\n6\n7\n8\n9\nb\n",
               "--- recorded\n+++ replayed\n@@ -1,4 +1,4 @@\n-A\n+a\n 2\n 3\n 4\n"
               "@@ -7,4 +7,4 @@\n 7\n 8\n 9\n-B\n+b\n");
    check_diff("A\n2\n3\n4\nB\n", "a\n2\n3\n4\nb\n",
               "--- recorded\n+++ replayed\n@@ -1,5 +1,5 @@\n-A\n+a\n 2\n 3\n 4\n-B\n+b\n");
}

/* --- the whole -------------------------------------------------------------------------------- */

/* A sandbox that answers each command with the next line of a list. */
struct actor {
    const char *const *answers; /* NULL: no answer at all */
    size_t count, asked;
    int64_t exit_code;
    const char *directory;
    double timeout;
    bool had_id;
};

static int act(void *ctx, const struct tn_action *action, struct tn_observation *observation,
               struct tn_error *err)
{
    struct actor *a = ctx;
    const char *answer = a->asked < a->count ? a->answers[a->asked] : NULL;

    a->asked++;
    a->timeout = action->timeout.value;
    a->had_id = action->event.id.set;
    if (!answer)
        return tn_fail(err, TN_E_PEER, "gone");
    tn_observation_init(observation, TN_OBSERVATION_RUN);
    tn_observation_set_content(observation, answer);
    observation->run.command = tn_strdup("x");
    observation->run.metadata.exit_code = a->exit_code;
    observation->run.metadata.pid = 4711;
    observation->run.metadata.working_dir = tn_strdup_or_null(a->directory);
    return 0;
}

static int collect(const struct tn_replay_step *step, void *ctx)
{
    tn_buf_printf(ctx, "%zu/%zu %lld %s %s %s%s\n", step->number, step->count, (long long)step->id,
                  step->name, tn_replay_outcome_words[step->outcome], step->reason, step->diff);
    return 0;
}

static void replay(const char *text, struct actor *actor, const char *expected)
{
    tn_autorecording struct tn_recording r;
    tn_autobuf struct tn_buf out = TN_BUF_INIT(1 << 16);
    struct tn_replay how = {
        .execute = act, .execute_ctx = actor, .step = collect, .step_ctx = &out, .timeout = 7};
    struct tn_replay_summary summary;
    struct tn_error err = {0};

    load(text, &r);
    if (tn_replay(&r, &how, &summary, &err))
        tn_buf_printf(&out, "%s\n", err.text);
    assert_string_equal(tn_buf_str(&out), expected);
}

static void test_same(void **state)
{
    static const char *const answers[] = {"b\n", "took 3 ms"};
    struct actor actor = {.answers = answers, .count = 2};

    replay("[" RUN(0, "a") "," ANSWER(0, "b") "," RUN(2, "c") "," ANSWER(2, "took 5 ms") "]",
           &actor, "1/2 0 run same \n2/2 2 run same \n");
    assert_true(actor.timeout == 7);
    assert_false(actor.had_id);
}

static void test_different(void **state)
{
    static const char *const answers[] = {"c"};
    struct actor actor = {.answers = answers, .count = 1, .exit_code = 1};

    replay("[" RUN(0, "a") "," ANSWER(0, "b") "]", &actor,
           "1/1 0 run different --- recorded\n+++ replayed\n@@ -1,5 +1,5 @@\n observation: run\n"
           " command: x\n-metadata.exit_code: 0\n+metadata.exit_code: 1\n hidden: false\n-b\n+c\n"
           "\n");
}

static void test_another_directory(void **state)
{
    static const char *const answers[] = {"/srv/s1", "/srv/s1/src and /srv/s10"};
    struct actor actor = {.answers = answers, .count = 2, .directory = "/srv/s1"};

    replay("[" RUN(0, "pwd") ",{\"cause\":0,\"observation\":\"run\",\"content\":\"/workspace\","
                             "\"extras\":{\"command\":\"x\",\"metadata\":{\"exit_code\":0,"
                             "\"working_dir\":\"/workspace\"}}}," RUN(2, "ls") "," ANSWER(
                                 2, "/workspace/src and /srv/s10") "]",
           &actor, "1/2 0 run same \n2/2 2 run same \n");
}

static void test_skipped_and_unanswered(void **state)
{
    static const char *const answers[] = {"x"};
    struct actor actor = {.answers = answers, .count = 1};

    replay("[{\"action\":\"run\",\"args\":{\"command\":\"a\",\"confirmation_state\":\"rejected\"}},"
           "{\"action\":\"edit\",\"args\":{\"path\":\"/a\","
           "\"confirmation_state\":\"awaiting_confirmation\"}},"
           "{\"action\":\"run\",\"args\":{\"command\":\"echo <secret_hidden>\"}},"
           "{\"action\":\"call_tool_mcp\",\"args\":{\"name\":\"x\",\"arguments\":"
           "{\"a\":[{\"<secret_hidden>\":1}]}}},"
           "{\"action\":\"read\",\"args\":{}}," RUN(7, "a") "]",
           &actor,
           "1/6 -1 run skipped it was rejected\n"
           "2/6 -1 edit skipped it was waiting for a confirmation\n"
           "3/6 -1 run skipped a secret in it was hidden\n"
           "4/6 -1 call_tool_mcp skipped a secret in it was hidden\n"
           "5/6 -1 read skipped action read: args: path is required\n"
           "6/6 7 run unanswered \n");
    assert_int_equal(actor.asked, 1);
}

static void test_sandbox_dies(void **state)
{
    static const char *const answers[] = {"b"};
    struct actor actor = {.answers = answers, .count = 1};

    replay("[" RUN(0, "a") "," ANSWER(0, "b") "," RUN(2, "c") "," RUN(4, "d") "]", &actor,
           "1/3 0 run same \naction 2 (run): gone\n");
    assert_int_equal(actor.asked, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms_of_recordings),
        cmocka_unit_test(test_recording_without_ids),
        cmocka_unit_test(test_no_recordings),
        cmocka_unit_test(test_directories),
        cmocka_unit_test(test_what_differs_every_time),
        cmocka_unit_test(test_diff),
        cmocka_unit_test(test_same),
        cmocka_unit_test(test_different),
        cmocka_unit_test(test_another_directory),
        cmocka_unit_test(test_skipped_and_unanswered),
        cmocka_unit_test(test_sandbox_dies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
