/* Analyzers that are programs: the example, and some that misbehave. */
#include <sys/stat.h>

#include "helpers.h"

struct place {
    char path[64];
    struct tn_security_settings settings;
};

static int start(void **state)
{
    static struct place p;

    p = (struct place){.path = "/tmp/tn-analyzer-XXXXXX"};
    assert_non_null(mkdtemp(p.path));
    settings_of(&p.settings);
    p.settings.analyzer_seconds = 20;
    setenv("TENDON_ANALYZER_PATH", p.path, 1);
    assert_int_equal(tn_field_from_text(tn_fields_find(&tn_security_fields, "analyzer_path"),
                                        &p.settings, p.path, NULL),
                     0);
    *state = &p;
    return 0;
}

static int stop(void **state)
{
    struct place *p = *state;
    tn_autofree char *command = tn_asprintf("%s/tendon-analyzer-it", p->path);
    tn_autofree char *note = tn_asprintf("%s/note", p->path);

    unlink(command);
    unlink(note);
    rmdir(p->path);
    settings_done(&p->settings);
    return 0;
}

/* The program tendon-analyzer-it, with that text for a shell. */
static void write_program(const struct place *p, const char *text)
{
    tn_autofree char *path = tn_asprintf("%s/tendon-analyzer-it", p->path);
    tn_autofile FILE *f = fopen(path, "we");

    assert_non_null(f);
    fprintf(f, "#!/bin/sh\nnote=%s/note\n%s\n", p->path, text);
    assert_int_equal(fchmod(fileno(f), 0755), 0);
}

/* One that is introduced, and then does that with each question. */
#define INTRODUCED                                                                      \
    "read q; echo '{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"protocol\":1}}'\nid=2\n" \
    "while read q; do\n"
#define ANSWER(findings) \
    "echo '{\"jsonrpc\":\"2.0\",\"id\":'$id',\"result\":{\"findings\":" findings "}}'"
#define NEXT "\nid=$((id+1)); done"

static struct tn_judge *judge_of(struct place *p, const char *name)
{
    tn_autofree char *copy = tn_strdup(name);
    char *names[] = {copy, NULL};
    struct tn_security_settings s = p->settings;
    struct tn_error err = {0};

    s.analyzers = (struct tn_str_list){.items = names, .count = 1};
    struct tn_judge *j = tn_judge_new(&s, &err);
    if (!j)
        fail_msg("%s", err.text);
    return j;
}

static void ask(struct tn_judge *j, const char *command, struct tn_verdict *v)
{
    tn_autoaction struct tn_action a;

    tn_action_init_run(&a, command, 10);
    tn_judge_action(j, &(struct tn_case){.action = &a, .cwd = "/w"}, tn_deadline_in(30), v);
}

static void test_example(void **state)
{
    struct place *p = *state;
    static const struct {
        const char *command, *rule;
        enum tn_decision decision;
    } rows[] = {{"ls", "", TN_ALLOW},
                {"mkfs /dev/sda", "mkfs", TN_BLOCK},
                {"shutdown now", "shutdown", TN_ASK}};

    assert_int_equal(tn_field_from_text(tn_fields_find(&tn_security_fields, "analyzer_path"),
                                        &p->settings, TN_SOURCE_ROOT "/examples", NULL),
                     0);
    struct tn_judge *j = judge_of(p, "example");
    for (size_t i = 0; i < TN_COUNT(rows); i++) {
        tn_autoverdict struct tn_verdict v = {0};
        ask(j, rows[i].command, &v);
        if (v.decision != rows[i].decision)
            fail_msg("%s: %s", rows[i].command, v.count ? v.findings[0].text : "allowed");
        assert_string_equal(v.count ? v.findings[0].rule : "", rows[i].rule);
        if (v.count)
            assert_string_equal(v.findings[0].analyzer, "example");
    }
    tn_judge_free(j);
}

static void test_misbehaviour_asks(void **state)
{
    struct place *p = *state;
    static const char *const programs[] = {
        "exit 3",
        "echo hello; cat >/dev/null",
        "read q; echo '{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"protocol\":9}}'; cat",
        INTRODUCED "exit 1" NEXT,
        INTRODUCED ANSWER("7") NEXT,
        INTRODUCED ANSWER("[{\"risk\":\"fine\"}]") NEXT,
        INTRODUCED ANSWER("[{\"text\":\"no risk\"}]") NEXT,
        INTRODUCED ANSWER("[7]") NEXT,
        INTRODUCED "echo '{\"jsonrpc\":\"2.0\",\"id\":'$id',\"error\":{\"message\":\"no\"}}'" NEXT,
        INTRODUCED "echo '{\"jsonrpc\":\"2.0\",\"id\":99,\"result\":{\"findings\":[]}}'" NEXT,
    };

    for (size_t i = 0; i < TN_COUNT(programs); i++) {
        tn_autoverdict struct tn_verdict v = {0};
        write_program(p, programs[i]);
        struct tn_judge *j = judge_of(p, "it");
        ask(j, "ls", &v);
        if (v.risk != TN_RISK_UNKNOWN || v.decision != TN_ASK)
            fail_msg("program %zu was believed", i);
        tn_judge_free(j);
    }
}

static void test_silence_ends_by_its_deadline(void **state)
{
    struct place *p = *state;
    tn_autoverdict struct tn_verdict v = {0};
    int64_t before = tn_now();

    p->settings.analyzer_seconds = 0.5;
    write_program(p, "cat >/dev/null");
    struct tn_judge *j = judge_of(p, "it");
    ask(j, "ls", &v);
    assert_int_equal(v.decision, TN_ASK);
    assert_non_null(strstr(v.findings[0].text, "in time"));
    tn_judge_free(j);
    assert_true(tn_now() - before < 10 * TN_SECOND);
}

/* It breaks with its first question, and the second one has a fresh one. */
static void test_broken_one_is_started_again(void **state)
{
    struct place *p = *state;

    write_program(p, INTRODUCED "[ -e $note ] || { touch $note; exit 1; }\n" ANSWER("[]") NEXT);
    struct tn_judge *j = judge_of(p, "it");
    for (int i = 0; i < 3; i++) {
        tn_autoverdict struct tn_verdict v = {0};
        ask(j, "ls", &v);
        assert_int_equal(v.decision, i ? TN_ALLOW : TN_ASK);
    }
    tn_judge_free(j);
}

/* It sees what was meant for it, and no secret. */
static void test_environment(void **state)
{
    struct place *p = *state;
    tn_autoverdict struct tn_verdict v = {0};

    setenv("SECRET_TOKEN", "canary", 1);
    setenv("TENDON_ANALYZER_MODE", "strict", 1);
    write_program(p, INTRODUCED "[ \"$TENDON_ANALYZER_MODE\" = strict ] || exit 1\n"
                                "env | grep -q canary && exit 2\n" ANSWER("[]") NEXT);
    struct tn_judge *j = judge_of(p, "it");
    ask(j, "ls", &v);
    assert_int_equal(v.decision, TN_ALLOW);
    tn_judge_free(j);
    unsetenv("SECRET_TOKEN");
    unsetenv("TENDON_ANALYZER_MODE");
}

static void test_names(void **state)
{
    struct place *p = *state;
    struct tn_error err = {0};

    write_program(p, "exit 0");
    assert_int_equal(tn_judge_check_name(&p->settings, "it", &err), 0);
    assert_int_equal(tn_judge_check_name(&p->settings, "../it", &err), -1);
    assert_int_equal(tn_judge_check_name(&p->settings, "itt", &err), -1);
    assert_non_null(strstr(err.text, "did you mean it?"));
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_example),
        TEST(test_misbehaviour_asks),
        TEST(test_silence_ends_by_its_deadline),
        TEST(test_broken_one_is_started_again),
        TEST(test_environment),
        TEST(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
