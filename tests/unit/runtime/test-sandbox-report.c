#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/sandbox-report.h"

static void same_text(const char *got, const char *wanted)
{
    if (wanted)
        assert_string_equal(got ? got : "(none)", wanted);
    else
        assert_null(got);
}

static void test_sentences(void **state)
{
    static const struct {
        const char *report, *other, *without, *shared;
    } cases[] = {
        {NULL, NULL, NULL, NULL},
        {NULL, "a", NULL, NULL},
        {"", "", NULL, NULL},
        {"a", NULL, "a", NULL},
        {"a", "a", NULL, "a"},
        {"a", "ab", "a", NULL},
        {"ab", "a", "ab", NULL},
        {"a; b", "a", "b", "a"},
        {"a; b", "b", "a", "b"},
        {"a", "a; b", NULL, "a"},
        {"a; b; c", "b; x", "a; c", "b"},
        {"a; b; c", "c; a", "b", "a; c"},
        {"a;b", "a", "a;b", NULL},
        {"; a; ; b; ", "a", "b", "a"},
    };

    for (size_t i = 0; i < TN_COUNT(cases); i++) {
        tn_autofree char *without = tn_report_without(cases[i].report, cases[i].other);
        tn_autofree char *shared = tn_report_shared(cases[i].report, cases[i].other);
        same_text(without, cases[i].without);
        same_text(shared, cases[i].shared);
    }
}

static void make(struct tn_observation *o, enum tn_observation_type type, const char *text)
{
    tn_observation_init(o, type);
    if (type == TN_OBSERVATION_RUN) {
        o->run.metadata.exit_code = 1;
        free(o->run.metadata.suffix);
        o->run.metadata.suffix = tn_strdup_or_null(text);
    } else {
        tn_observation_set_content(o, text ? text : "");
    }
}

static const char *text_of(const struct tn_observation *o)
{
    return o->type == TN_OBSERVATION_RUN ? o->run.metadata.suffix : o->content.data;
}

static void test_in_an_observation(void **state)
{
    static const struct {
        const char *before, *report, *after, *told;
    } cases[] = {
        {"x", NULL, "x", NULL},
        {"x", "", "x", NULL},
        {"x", "a", "x\n[The sandbox reports: a]", "a"},
        {"", "a; b", "\n[The sandbox reports: a; b]", "a; b"},
        {"x\n[The sandbox reports: a]", "a", "x\n[The sandbox reports: a]", "a"},
        {"x\n[The sandbox reports: a]", "a; b",
         "x\n[The sandbox reports: a]\n[The sandbox reports: b]", "b"},
        {"x\n[The sandbox reports: a] y", "a",
         "x\n[The sandbox reports: a] y\n[The sandbox reports: a]", "a"},
        {"\n[The sandbox reports: ]", "a]", "\n[The sandbox reports: ]\n[The sandbox reports: a]]",
         "a]"},
        {"\n[The sandbox reports: ", NULL, "\n[The sandbox reports: ", NULL},
        {"[The sandbox reports: a]", NULL, "[The sandbox reports: a]", NULL},
        {"]", NULL, "]", NULL},
    };
    static const enum tn_observation_type types[] = {TN_OBSERVATION_RUN, TN_OBSERVATION_ERROR};

    for (size_t i = 0; i < TN_COUNT(cases); i++)
        for (size_t k = 0; k < TN_COUNT(types); k++) {
            tn_autoobservation struct tn_observation o;
            make(&o, types[k], cases[i].before);
            bool changed = strcmp(cases[i].before, cases[i].after) != 0;
            assert_int_equal(tn_report_add(&o, cases[i].report), changed);
            assert_string_equal(text_of(&o), cases[i].after);
            tn_autofree char *told = tn_report_of(&o);
            same_text(told, cases[i].told);
            assert_false(tn_report_add(&o, cases[i].told)); /* nobody is told twice */
        }
}

static void test_where_it_is_due(void **state)
{
    static const struct {
        enum tn_observation_type type;
        int exit_code;
        bool due;
    } cases[] = {
        {TN_OBSERVATION_RUN, 0, false},   {TN_OBSERVATION_RUN, 1, true},
        {TN_OBSERVATION_RUN, -1, true},   {TN_OBSERVATION_ERROR, 0, true},
        {TN_OBSERVATION_READ, 0, false},  {TN_OBSERVATION_RUN_IPYTHON, 0, false},
        {TN_OBSERVATION_WRITE, 0, false},
    };

    for (size_t i = 0; i < TN_COUNT(cases); i++) {
        tn_autoobservation struct tn_observation o;
        tn_observation_init(&o, cases[i].type);
        if (cases[i].type == TN_OBSERVATION_RUN)
            o.run.metadata.exit_code = cases[i].exit_code;
        assert_int_equal(tn_report_is_due(&o), cases[i].due);
        assert_int_equal(tn_report_add(&o, "a"), cases[i].due);
        tn_autofree char *told = tn_report_of(&o);
        same_text(told, cases[i].due ? "a" : NULL);
    }
}

/* Content is any bytes. */
static void test_nul_bytes_stay(void **state)
{
    static const char text[] = "a\0b";
    tn_autobuf struct tn_buf content = TN_BUF_INIT(16);
    tn_autoobservation struct tn_observation o;

    tn_observation_init(&o, TN_OBSERVATION_ERROR);
    tn_buf_add(&content, text, 3);
    tn_observation_take_content(&o, &content);
    assert_true(tn_report_add(&o, "full"));
    assert_int_equal(o.content.len, 3 + strlen(TN_REPORT_BEGIN "full]"));
    assert_memory_equal(o.content.data, "a\0b" TN_REPORT_BEGIN "full]", o.content.len);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sentences),
        cmocka_unit_test(test_in_an_observation),
        cmocka_unit_test(test_where_it_is_due),
        cmocka_unit_test(test_nul_bytes_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
