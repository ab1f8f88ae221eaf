/* Several analyzers, one verdict: the worst holds, and what fails asks. */
#include <pthread.h>
#include <stdatomic.h>

#include "helpers.h"

/* --- analyzers that say what a test wants ----------------------------------------------------- */

enum { SAYS_NOTHING = 10, FAILS = 11 };

struct fake {
    int says; /* a risk, or one of the above */
    atomic_int asked;
    pthread_barrier_t *meets; /* waits for another one there; or NULL */
    enum tn_code code;
};

static struct fake one, two, three;

static void *open_one(const struct tn_security_settings *s, struct tn_error *err)
{
    (void)s, (void)err;
    return &one;
}

static void *open_two(const struct tn_security_settings *s, struct tn_error *err)
{
    (void)s, (void)err;
    return &two;
}

static void *open_three(const struct tn_security_settings *s, struct tn_error *err)
{
    (void)s, (void)err;
    return &three;
}

static void close_fake(void *self)
{
    (void)self;
}

static int judge_fake(void *self, const struct tn_case *c, int64_t deadline, struct tn_verdict *out,
                      struct tn_error *err)
{
    struct fake *f = self;

    (void)c, (void)deadline;
    f->asked++;
    if (f->meets)
        pthread_barrier_wait(f->meets);
    if (f->says == FAILS)
        return tn_fail(err, f->code ? f->code : TN_E_PEER, "nobody answers");
    if (f->says != SAYS_NOTHING)
        tn_verdict_add(out, "fake", "a-rule", "args.command: x", (enum tn_risk)f->says, "why not");
    return 0;
}

#define FAKE(function, is_slow, events)                                              \
    {                                                                                \
        .name = #function, .about = "for tests", .slow = is_slow, .history = events, \
        .open = function, .close = close_fake, .judge = judge_fake                   \
    }
static const struct tn_analyzer quick = FAKE(open_one, NULL, 0);
static const struct tn_analyzer slow = FAKE(open_two, tn_analyzer_is_slow, 20);
static const struct tn_analyzer slow_too = FAKE(open_three, tn_analyzer_is_slow, 5);

static struct tn_judge *judge_with(const struct tn_analyzer *a, const struct tn_analyzer *b,
                                   const struct tn_analyzer *c)
{
    const struct tn_analyzer *const all[] = {a, b, c};
    struct tn_security_settings s = {0};

    settings_of(&s);
    struct tn_judge *j = tn_judge_new(&s, NULL);
    assert_non_null(j);
    for (size_t i = 0; i < TN_COUNT(all); i++)
        if (all[i])
            assert_int_equal(tn_judge_add(j, all[i], &s, NULL), 0);
    settings_done(&s);
    one = two = three = (struct fake){.says = SAYS_NOTHING};
    return j;
}

static void ask(struct tn_judge *j, const struct tn_thresholds *t, struct tn_verdict *v)
{
    tn_autoaction struct tn_action a;

    tn_action_init_run(&a, "ls", 10);
    tn_judge_action(j, &(struct tn_case){.action = &a, .thresholds = t}, tn_deadline_in(10), v);
}

/* --- tests ------------------------------------------------------------------------------------ */

/* Every answer of an analyzer, every threshold that its risk may have, every mode. */
static void test_risk_threshold_mode(void **state)
{
    static const int answers[] = {TN_RISK_UNKNOWN, TN_RISK_LOW, TN_RISK_MEDIUM,
                                  TN_RISK_HIGH,    FAILS,       SAYS_NOTHING};
    static const enum tn_decision expected[][3] = {
        /*                  never     risky     always   (of a threshold) */
        [TN_ALLOW] = {TN_ALLOW, TN_ALLOW, TN_ASK},
        [TN_ASK] = {TN_BLOCK, TN_ASK, TN_ASK},
        [TN_BLOCK] = {TN_BLOCK, TN_BLOCK, TN_BLOCK},
    };

    for (size_t i = 0; i < TN_COUNT(answers); i++)
        for (int threshold = TN_ALLOW; threshold <= TN_BLOCK; threshold++)
            for (int mode = TN_CONFIRM_NEVER; mode <= TN_CONFIRM_ALWAYS; mode++) {
                struct tn_judge *j = judge_with(&quick, NULL, NULL);
                struct tn_thresholds t = {.mode = (enum tn_confirmation_mode)mode};
                enum tn_decision *rows[] = {&t.unknown, &t.low,     &t.medium,
                                            &t.high,    &t.unknown, &t.low};
                tn_autoverdict struct tn_verdict v = {0};

                *rows[i] = (enum tn_decision)threshold;
                one.says = answers[i];
                ask(j, &t, &v);
                /* a failure never allows, whatever unknown risks do */
                int least = answers[i] == FAILS && threshold == TN_ALLOW ? TN_ASK : threshold;
                if (v.decision != expected[least][mode])
                    fail_msg("answer %d, threshold %d, mode %d: decision %d", answers[i], threshold,
                             mode, v.decision);
                tn_judge_free(j);
            }
}

static void test_defaults_of_settings(void **state)
{
    static const struct {
        bool openhands;
        int says;
        enum tn_decision decision;
    } rows[] = {
        {false, TN_RISK_LOW, TN_ALLOW},  {false, TN_RISK_MEDIUM, TN_ASK},
        {false, TN_RISK_HIGH, TN_BLOCK}, {false, TN_RISK_UNKNOWN, TN_ASK},
        {true, TN_RISK_LOW, TN_ALLOW},   {true, TN_RISK_MEDIUM, TN_ASK},
        {true, TN_RISK_HIGH, TN_ASK},    {true, TN_RISK_UNKNOWN, TN_ASK},
    };

    for (size_t i = 0; i < TN_COUNT(rows); i++) {
        struct tn_security_settings s = {0};
        settings_of(&s);
        s.confirmation_mode = rows[i].openhands;
        struct tn_thresholds t = tn_security_thresholds(&s);
        assert_int_equal(tn_thresholds_decide(&t, rows[i].says), rows[i].decision);
        settings_done(&s);
    }
}

static void test_worst_wins(void **state)
{
    static const struct {
        int a, b, c;
        enum tn_risk risk;
        enum tn_decision decision;
    } rows[] = {
        {SAYS_NOTHING, SAYS_NOTHING, SAYS_NOTHING, TN_RISK_LOW, TN_ALLOW},
        {TN_RISK_LOW, TN_RISK_LOW, FAILS, TN_RISK_UNKNOWN, TN_ASK},
        {TN_RISK_LOW, TN_RISK_MEDIUM, FAILS, TN_RISK_MEDIUM, TN_ASK},
        {TN_RISK_LOW, TN_RISK_HIGH, FAILS, TN_RISK_HIGH, TN_BLOCK},
        {TN_RISK_HIGH, TN_RISK_LOW, TN_RISK_LOW, TN_RISK_HIGH, TN_BLOCK},
        {FAILS, FAILS, TN_RISK_LOW, TN_RISK_UNKNOWN, TN_ASK},
    };

    for (size_t i = 0; i < TN_COUNT(rows); i++) {
        struct tn_judge *j = judge_with(&quick, &slow, &slow_too);
        tn_autoverdict struct tn_verdict v = {0};
        one.says = rows[i].a;
        two.says = rows[i].b;
        three.says = rows[i].c;
        ask(j, NULL, &v);
        assert_int_equal(v.risk, rows[i].risk);
        assert_int_equal(v.decision, rows[i].decision);
        tn_judge_free(j);
    }
}

/* What is blocked already is shown to nobody else. */
static void test_blocked_is_not_told(void **state)
{
    struct tn_judge *j = judge_with(&quick, &slow, NULL);
    tn_autoverdict struct tn_verdict v = {0};

    one.says = TN_RISK_HIGH;
    ask(j, NULL, &v);
    assert_int_equal(v.decision, TN_BLOCK);
    assert_int_equal(two.asked, 0);
    tn_judge_free(j);
}

/* Each of two slow ones waits for the other: one after the other would never end. */
static void test_slow_ones_run_at_the_same_time(void **state)
{
    struct tn_judge *j = judge_with(&slow, &slow_too, NULL);
    tn_autoverdict struct tn_verdict v = {0};
    pthread_barrier_t barrier;

    assert_int_equal(tn_judge_history(j), 20);
    pthread_barrier_init(&barrier, NULL, 2);
    two.meets = three.meets = &barrier;
    ask(j, NULL, &v);
    assert_int_equal(v.decision, TN_ALLOW);
    pthread_barrier_destroy(&barrier);
    tn_judge_free(j);
}

static void test_breaker(void **state)
{
    struct tn_judge *j = judge_with(&slow, NULL, NULL);

    two.says = FAILS;
    for (int i = 0; i < 10; i++) {
        tn_autoverdict struct tn_verdict v = {0};
        ask(j, NULL, &v);
        assert_int_equal(v.decision, TN_ASK);
        assert_int_equal(v.risk, TN_RISK_UNKNOWN);
        assert_non_null(strstr(v.findings[0].text, "nobody answers"));
    }
    assert_int_equal(two.asked, 3);
    tn_judge_free(j);

    /* One that cannot judge this very action is asked about the next. */
    j = judge_with(&slow, NULL, NULL);
    two = (struct fake){.says = FAILS, .code = TN_E_TOO_LARGE};
    for (int i = 0; i < 10; i++) {
        tn_autoverdict struct tn_verdict v = {0};
        ask(j, NULL, &v);
        assert_int_equal(v.decision, TN_ASK);
    }
    assert_int_equal(two.asked, 10);
    tn_judge_free(j);

    /* So is a part of this process that one action takes too long. */
    j = judge_with(&quick, NULL, NULL);
    one = (struct fake){.says = FAILS, .code = TN_E_TIMEOUT};
    for (int i = 0; i < 10; i++) {
        tn_autoverdict struct tn_verdict v = {0};
        ask(j, NULL, &v);
        assert_int_equal(v.decision, TN_ASK);
    }
    assert_int_equal(one.asked, 10);
    tn_judge_free(j);
}

/* OpenHands' mode without an analyzer: everything that can be carried out is asked. */
static void test_nobody_judges(void **state)
{
    struct tn_judge *j = judge_with(NULL, NULL, NULL);
    tn_autoverdict struct tn_verdict v = {0};
    tn_autoaction struct tn_action think;

    ask(j, NULL, &v);
    assert_int_equal(v.risk, TN_RISK_UNKNOWN);
    assert_int_equal(v.decision, TN_ASK);
    tn_verdict_done(&v);
    tn_action_init(&think, TN_ACTION_THINK);
    tn_judge_action(j, &(struct tn_case){.action = &think}, TN_NEVER, &v);
    assert_int_equal(v.decision, TN_ALLOW);
    tn_judge_free(j);
}

/* Rows that somebody has of his own lie over those of the settings, either way. */
/* No rule allows it: only who says that it is harmless lets it through. */
static void test_a_connection_needs_a_word(void **state)
{
    static const struct {
        int one, two;
        enum tn_decision decision;
    } rows[] = {
        {SAYS_NOTHING, SAYS_NOTHING, TN_ASK},   {TN_RISK_LOW, SAYS_NOTHING, TN_ALLOW},
        {SAYS_NOTHING, TN_RISK_LOW, TN_ALLOW},  {TN_RISK_LOW, TN_RISK_HIGH, TN_BLOCK},
        {TN_RISK_LOW, TN_RISK_MEDIUM, TN_ASK},  {TN_RISK_LOW, FAILS, TN_ASK},
        {TN_RISK_HIGH, SAYS_NOTHING, TN_BLOCK},
    };

    for (size_t i = 0; i < TN_COUNT(rows); i++) {
        struct tn_judge *j = judge_with(&quick, &slow, NULL);
        tn_autoaction struct tn_action a;
        tn_autoverdict struct tn_verdict v = {0};

        tn_action_init(&a, TN_ACTION_NETWORK);
        a.network.host = tn_strdup("a.test");
        a.network.port = 443;
        one.says = rows[i].one;
        two.says = rows[i].two;
        tn_judge_action(j, &(struct tn_case){.action = &a}, tn_deadline_in(10), &v);
        if (v.decision != rows[i].decision)
            fail_msg("row %zu: decision %d", i, v.decision);
        tn_judge_free(j);
    }
}

static void test_own_thresholds(void **state)
{
    const struct tn_thresholds usual = {TN_ALLOW, TN_ASK, TN_BLOCK, TN_ASK, TN_CONFIRM_RISKY, ""};
    struct tn_thresholds own = {0};

    tn_fields_defaults(&tn_thresholds_fields, &own);
    struct tn_thresholds t = tn_thresholds_over(&usual, &own);
    assert_memory_equal(&t, &usual, sizeof t);
    own.medium = TN_BLOCK;
    own.high = TN_ASK;
    own.mode = TN_CONFIRM_NEVER;
    t = tn_thresholds_over(&usual, &own);
    assert_int_equal(tn_thresholds_decide(&t, TN_RISK_LOW), TN_ALLOW);
    assert_int_equal(t.medium, TN_BLOCK);
    assert_int_equal(t.high, TN_ASK);
    assert_int_equal(tn_thresholds_decide(&t, TN_RISK_HIGH), TN_BLOCK); /* nobody to ask */
}

/* The service has analyzers, and none of those that a key wants. */
static void test_chosen_ones_that_are_gone(void **state)
{
    struct tn_judge *j = judge_with(&quick, NULL, NULL);
    struct tn_thresholds t = {.analyzers = "another"};
    tn_autoverdict struct tn_verdict asks = {0}, blocks = {0};

    t.mode = TN_CONFIRM_RISKY;
    ask(j, &t, &asks);
    assert_int_equal(asks.decision, TN_ASK);
    t.mode = TN_CONFIRM_NEVER; /* nobody to ask */
    ask(j, &t, &blocks);
    assert_int_equal(blocks.decision, TN_BLOCK);
    assert_int_equal(one.asked, 0);
    tn_judge_free(j);
}

static void test_names(void **state)
{
    struct tn_security_settings s = {0};
    struct tn_error err = {0};
    char word[] = "lmm", *names[] = {word, NULL};

    settings_of(&s);
    assert_false(tn_security_on(&s));
    s.analyzers = (struct tn_str_list){.items = names, .count = 1};
    assert_true(tn_security_on(&s));
    assert_null(tn_judge_new(&s, &err));
    assert_string_equal(
        err.text,
        "there is no analyzer 'lmm', and no program tendon-analyzer-lmm; did you mean llm?");
    s.analyzers = (struct tn_str_list){0};
    settings_done(&s);
}

/* The rating of an action of every type that can be carried out. */
static void test_llm_takes_the_rating(void **state)
{
    static const struct {
        int64_t rating;
        enum tn_risk risk;
    } rows[] = {{-1, TN_RISK_UNKNOWN}, {0, TN_RISK_LOW},      {1, TN_RISK_MEDIUM},
                {2, TN_RISK_HIGH},     {17, TN_RISK_UNKNOWN}, {-9, TN_RISK_UNKNOWN}};
    struct tn_judge *j = judge_with(&tn_analyzer_llm, NULL, NULL);

    for (int type = 0; type < TN_ACTION_NULL; type++)
        for (size_t i = 0; i < TN_COUNT(rows); i++) {
            tn_autoaction struct tn_action a;
            tn_autoverdict struct tn_verdict v = {0};
            tn_action_init(&a, (enum tn_action_type)type);
            a.security_risk = rows[i].rating;
            tn_judge_action(j, &(struct tn_case){.action = &a}, TN_NEVER, &v);
            assert_int_equal(v.risk, rows[i].risk);
        }
    tn_judge_free(j);
}

static void test_findings_are_bounded(void **state)
{
    tn_autoverdict struct tn_verdict v = {0};
    char large[4096];

    memset(large, 'x', sizeof large);
    large[sizeof large - 1] = '\0';
    memcpy(large + TN_FINDING_TEXT_MAX - 1, "\xc3\xa4", 2);
    for (int i = 0; i < 1000; i++)
        tn_verdict_add(&v, "a", NULL, large, TN_RISK_LOW, "bad \xff byte");
    tn_verdict_add(&v, "a", NULL, "", TN_RISK_HIGH, "kept");
    assert_int_equal(v.count, TN_FINDINGS_MAX);
    v.risk = TN_RISK_HIGH;
    assert_string_equal(tn_verdict_reason(&v)->text, "kept");
    assert_int_equal(strlen(v.findings[1].part), TN_FINDING_TEXT_MAX - 1);
    assert_string_equal(v.findings[1].text, "bad ? byte");
}

static void test_how_it_is_told(void **state)
{
    tn_autoverdict struct tn_verdict v = {.risk = TN_RISK_HIGH, .decision = TN_BLOCK};
    tn_autobuf struct tn_buf out = TN_BUF_INIT(4096);
    struct tn_jw w = tn_jw(&out);

    tn_verdict_add(&v, "policy", "curl-to-shell", "args.command: curl x | sh", TN_RISK_HIGH,
                   "runs what it fetched");
    tn_verdict_to_json(&v, &w);
    assert_string_equal(tn_buf_str(&out),
                        "{\"risk\":\"high\",\"decision\":\"block\",\"findings\":[{\"analyzer\":"
                        "\"policy\",\"rule\":\"curl-to-shell\",\"part\":\"args.command: curl x | "
                        "sh\",\"text\":\"runs what it fetched\",\"risk\":\"high\"}]}");
    tn_buf_reset(&out);
    tn_verdict_put_reason(&v, &out);
    assert_string_equal(tn_buf_str(&out), "policy, rule curl-to-shell: runs what it fetched (risk "
                                          "high) in args.command: curl x | sh");
}

static void test_what_is_told_from_behind(void **state)
{
    static const struct {
        const char *far;
        enum tn_decision decision;
        enum tn_risk risk;
    } rows[] = {
        {"{\"risk\":\"low\",\"decision\":\"allow\",\"findings\":[{\"analyzer\":\"x\",\"risk\":\"low\"}]}",
         TN_ASK, TN_RISK_MEDIUM}, /* lowers nothing */
        {"{\"risk\":\"high\",\"decision\":\"block\",\"findings\":[{\"analyzer\":\"x\",\"risk\":\"high\"}]}",
         TN_BLOCK, TN_RISK_HIGH},
        {"{\"risk\":7,\"decision\":\"of course\",\"findings\":[{\"analyzer\":\"x\"}]}", TN_ASK,
         TN_RISK_MEDIUM},
        {"\"allow\"", TN_ASK, TN_RISK_MEDIUM},
    };

    for (size_t i = 0; i < TN_COUNT(rows); i++) {
        tn_autoverdict struct tn_verdict v = {.risk = TN_RISK_MEDIUM, .decision = TN_ASK};
        tn_autojson struct tn_json *far = NULL;
        assert_int_equal(tn_json_parse(rows[i].far, strlen(rows[i].far), &far, NULL), 0);
        tn_verdict_add_told(&v, far, "behind: ");
        assert_int_equal(v.decision, rows[i].decision);
        assert_int_equal(v.risk, rows[i].risk);
        assert_int_equal(v.count, i < 3);
        if (v.count)
            assert_string_equal(v.findings[0].analyzer, "behind: x");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_told_from_behind),
        cmocka_unit_test(test_risk_threshold_mode),
        cmocka_unit_test(test_defaults_of_settings),
        cmocka_unit_test(test_worst_wins),
        cmocka_unit_test(test_blocked_is_not_told),
        cmocka_unit_test(test_slow_ones_run_at_the_same_time),
        cmocka_unit_test(test_breaker),
        cmocka_unit_test(test_nobody_judges),
        cmocka_unit_test(test_own_thresholds),
        cmocka_unit_test(test_chosen_ones_that_are_gone),
        cmocka_unit_test(test_a_connection_needs_a_word),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_llm_takes_the_rating),
        cmocka_unit_test(test_findings_are_bounded),
        cmocka_unit_test(test_how_it_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
