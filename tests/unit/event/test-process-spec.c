#include "event/process-spec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka.h comes last */
#include <cmocka.h>

static struct tn_json *json(const char *text)
{
    struct tn_json *tree = NULL;

    assert_int_equal(tn_json_parse(text, strlen(text), &tree, NULL), 0);
    return tree;
}

/* An action as it comes over the wire; -1, 0 or 1, and the error. */
static int read_action(const char *text, struct tn_process_spec *spec, struct tn_error *err)
{
    tn_autojson struct tn_json *tree = json(text);
    tn_autoaction struct tn_action action;

    assert_int_equal(tn_action_from_json(tree, &action, err), 0);
    return tn_action_process(&action, spec, err);
}

static void test_command_lines(void **state)
{
    static const struct {
        const char *spec, *command;
    } rows[] = {
        {"{\"args\":[\"ls\"]}", "ls"},
        {"{\"args\":[\"/bin/sh\",\"-c\",\"echo $X; rm *\"]}", "/bin/sh -c 'echo $X; rm *'"},
        {"{\"args\":[\"a\",\"\",\"it's\",\"'\"]}", "a '' 'it'\\''s' ''\\'''"},
        {"{\"args\":[\"x y\"],\"env\":{\"A\":\"1\",\"B.c\":\"q r\"}}", "env A=1 'B.c=q r' 'x y'"},
        {"{\"args\":[\"~/x\",\"a=b\",\"\\u00e9\"]}", "'~/x' a=b '\xc3\xa9'"},
    };

    for (size_t i = 0; i < TN_COUNT(rows); i++) {
        tn_autobuf struct tn_buf command = TN_BUF_INIT(4096);
        tn_autojson struct tn_json *tree = json(rows[i].spec);
        tn_autoprocess struct tn_process_spec spec;
        assert_int_equal(tn_process_spec_from_json(tree, &spec, NULL), 0);
        tn_process_spec_command(&spec, &command);
        assert_string_equal(tn_buf_str(&command), rows[i].command);
    }
}

static void test_there_and_back(void **state)
{
    tn_autojson struct tn_json *tree =
        json("{\"args\":[\"/bin/sh\",\"-c\",\"exit 3\"],\"env\":{\"A\":\"it's\"},\"cwd\":\"/tmp\","
             "\"tag\":\"t\",\"stdin\":true,\"seconds\":1.5}");
    tn_autoprocess struct tn_process_spec spec, back = {0};
    tn_autobuf struct tn_buf text = TN_BUF_INIT(64 << 10);
    struct tn_jw w = tn_jw(&text);
    struct tn_error err = {0};
    struct tn_action action;

    assert_int_equal(tn_process_spec_from_json(tree, &spec, &err), 0);
    assert_int_equal(tn_action_init_process(&action, &spec, 5, &err), 0);
    tn_action_to_json(&action, &w);
    tn_action_done(&action);
    assert_int_equal(read_action(tn_buf_str(&text), &back, &err), 1);
    assert_int_equal(back.args.count, 3);
    assert_string_equal(back.cwd, "/tmp");
    assert_string_equal(tn_json_get_str(back.env, "A", ""), "it's");
    assert_true(back.input && !back.pty && back.seconds == 1.5 && !back.user);
}

static void test_what_runs_is_what_is_shown(void **state)
{
    tn_autoprocess struct tn_process_spec spec = {0};
    struct tn_error err = {0};

    assert_int_equal(read_action("{\"action\":\"run\",\"args\":{\"command\":\"ls\"}}", &spec, &err),
                     0);
    assert_int_equal(read_action("{\"action\":\"run\",\"args\":{\"command\":\"ls\",\"process\":{"
                                 "\"args\":[\"rm\",\"-rf\",\"x\"]}}}",
                                 &spec, &err),
                     -1);
    assert_string_equal(err.text,
                        "process: the command is not that of the process: expected rm -rf x");
    assert_int_equal(read_action("{\"action\":\"run\",\"args\":{\"command\":\"ls\",\"process\":{"
                                 "\"args\":[\"ls\"],\"env\":{\"LD_PRELOAD\":\"x\"}}}}",
                                 &spec, &err),
                     -1);
    assert_int_equal(read_action("{\"action\":\"run\",\"args\":{\"command\":\"ls\",\"is_input\":"
                                 "true,\"process\":{\"args\":[\"ls\"]}}}",
                                 &spec, &err),
                     -1);
}

static void test_nonsense(void **state)
{
    static const char *const rows[] = {
        "{}",
        "{\"args\":[]}",
        "{\"args\":[\"\"]}",
        "{\"args\":[\"a=b\"]}",
        "{\"args\":[\"a\\u0000b\"]}",
        "{\"args\":\"ls\"}",
        "{\"args\":[\"a\"],\"env\":{\"\":\"x\"}}",
        "{\"args\":[\"a\"],\"env\":{\"-i\":\"x\"}}",
        "{\"args\":[\"a\"],\"env\":{\"A=B\":\"x\"}}",
        "{\"args\":[\"a\"],\"env\":{\"A\":1}}",
        "{\"args\":[\"a\"],\"env\":{\"A\":\"a\\u0000\"}}",
        "{\"args\":[\"a\"],\"env\":{\"TENDON_HAND\":\"x\"}}",
        "{\"args\":[\"a\"],\"columns\":-1}",
        "{\"args\":[\"a\"],\"rows\":100000}",
        "{\"args\":[\"a\"],\"seconds\":-1}",
    };

    for (size_t i = 0; i < TN_COUNT(rows); i++) {
        tn_autojson struct tn_json *tree = json(rows[i]);
        struct tn_process_spec spec;
        struct tn_error err = {0};
        assert_int_equal(tn_process_spec_from_json(tree, &spec, &err), -1);
        assert_true(*err.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_command_lines),
        cmocka_unit_test(test_there_and_back),
        cmocka_unit_test(test_what_runs_is_what_is_shown),
        cmocka_unit_test(test_nonsense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
