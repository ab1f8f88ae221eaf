/* Sessions on something that executes nothing: what is sent, and what becomes of strange answers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/session.h"

/* What the next actions are answered with; the last answer is kept for all further ones. */
struct answer {
    enum tn_observation_type type;
    const char *content;
    int64_t exit_code;
    const char *suffix;
    enum tn_code failure; /* not TN_OK: no observation */
};

struct fake {
    const struct answer *answers;
    size_t count, next;
    struct tn_buf commands; /* each with a line end */
    struct tn_buf told;     /* statuses and notes */
    int under_way;
};

static int execute(void *ctx, const struct tn_action *action, struct tn_observation *o,
                   struct tn_error *err)
{
    struct fake *f = ctx;
    const struct answer *a = &f->answers[f->next < f->count ? f->next++ : f->count - 1];

    assert_int_equal(f->under_way++, 0);
    assert_true(action->timeout.set);
    if (action->type == TN_ACTION_RUN) {
        assert_true(action->run.hidden || action->thought);
        tn_buf_printf(&f->commands, "%s\n", action->run.command);
    }
    f->under_way--;
    if (a->failure)
        return tn_fail(err, a->failure, "%s", a->content);
    tn_observation_init(o, a->type);
    tn_observation_set_content(o, a->content);
    if (a->type == TN_OBSERVATION_RUN) {
        o->run.metadata.exit_code = a->exit_code;
        free(o->run.metadata.suffix);
        o->run.metadata.suffix = tn_strdup(a->suffix ? a->suffix : "");
    }
    return 0;
}

static void status(const char *level, enum tn_runtime_status s, const char *message, void *ctx)
{
    tn_buf_printf(&((struct fake *)ctx)->told, "%s %s %s\n", level, tn_runtime_status_name(s),
                  message);
}

static void note(const char *text, void *ctx)
{
    tn_buf_printf(&((struct fake *)ctx)->told, "note %s\n", text);
}

struct fixture {
    struct tn_config config;
    struct fake fake;
    struct tn_session *session;
};

static struct fixture *make(const struct answer *answers, size_t count)
{
    static const struct tn_git_token token = {TN_GIT_GITHUB, "ghp-s3cret", NULL};
    struct fixture *f = tn_calloc(1, sizeof *f);
    struct tn_error err = {0};

    tn_config_init(&f->config);
    f->fake = (struct fake){.answers = answers,
                            .count = count,
                            .commands = TN_BUF_INIT(1 << 20),
                            .told = TN_BUF_INIT(1 << 20)};
    const struct tn_session_options options = {
        .config = &f->config,
        .execute = execute,
        .execute_ctx = &f->fake,
        .tokens = &token,
        .token_count = 1,
        .status = status,
        .note = note,
        .ctx = &f->fake,
    };
    f->session = tn_session_new(&options, &err);
    assert_non_null(f->session);
    return f;
}
#define MAKE(...)                              \
    make((const struct answer[]){__VA_ARGS__}, \
         sizeof((const struct answer[]){__VA_ARGS__}) / sizeof(struct answer))

static void done(struct fixture *f)
{
    tn_session_free(f->session);
    tn_config_done(&f->config);
    tn_buf_done(&f->fake.commands);
    tn_buf_done(&f->fake.told);
    free(f);
}

#define RUN TN_OBSERVATION_RUN

static void test_setup_is_one_call(void **state)
{
    struct fixture *f = MAKE({RUN, "tendon-setup: env=0 persist=0 directory=0 git=0", 0, "x", 0});
    struct tn_error err = {0};

    assert_int_equal(tn_session_setup(f->session, &err), 0);
    assert_int_equal(f->fake.next, 1);
    assert_string_equal(tn_buf_str(&f->fake.told), "info RUNTIME_STARTED \ninfo READY \n");
    assert_int_equal(tn_session_status(f->session), TN_RUNTIME_READY);
    assert_non_null(strstr(f->fake.commands.data, "export GITHUB_TOKEN='ghp-s3cret' && "));
    assert_non_null(strstr(f->fake.commands.data, "mkdir -p -- '/workspace'"));
    assert_non_null(strstr(f->fake.commands.data, "git config --global user.name 'openhands'"));
    /* Braces around it: one command for any server. */
    assert_int_equal(f->fake.commands.data[0], '{');
    done(f);
}

static void test_parts_that_fail(void **state)
{
    struct fixture *f =
        MAKE({RUN, "noise\ntendon-setup: env=0 persist=1 directory=1 git=1", 1, "x", 0},
             {RUN, "tendon-setup: env=1", 1, "x", 0}, {RUN, "", 0, "x", 0});
    struct tn_error err = {0};

    assert_int_equal(tn_session_setup(f->session, &err), 0);
    assert_non_null(strstr(f->fake.told.data, "note shells to come"));
    assert_non_null(strstr(f->fake.told.data, "note the workspace /workspace"));
    assert_non_null(strstr(f->fake.told.data, "note git's identity"));
    assert_int_equal(tn_session_setup(f->session, &err), -1);
    assert_string_equal(err.text, "set-up: the shell could not set the variables");
    assert_int_equal(tn_session_setup(f->session, &err), -1); /* it says nothing: nothing is set */
    done(f);
}

static void test_command_that_does_not_end(void **state)
{
    struct fixture *f = MAKE({RUN, "", -1, "\n[The command timed out", 0}, {RUN, "", 130, "x", 0});
    struct tn_error err = {0};

    assert_int_equal(tn_session_setup(f->session, &err), -1);
    assert_int_equal(err.code, TN_E_TIMEOUT);
    assert_non_null(strstr(f->fake.commands.data, "\nC-c\n")); /* the shell is free again */
    done(f);
}

static void test_command_that_was_not_run(void **state)
{
    struct fixture *f =
        MAKE({RUN, "no shell yet", -1, "", 0},
             {RUN, "", -1, "\n[Your command \"export A=ghp-s3cret\" is NOT executed. The ...]", 0});
    struct tn_error err = {0};

    for (int i = 0; i < 2; i++) {
        assert_int_equal(tn_session_setup(f->session, &err), -1);
        assert_int_equal(err.code, TN_E_CONFLICT);
        assert_null(strstr(err.text, "s3cret"));
    }
    assert_null(strstr(f->fake.commands.data, "C-c")); /* what runs there is not ours */
    done(f);
}

static void test_strange_answers(void **state)
{
    struct fixture *f =
        MAKE({TN_OBSERVATION_ERROR, "no shell", 0, NULL, 0}, {RUN, "not base64!", 0, "x", 0},
             {RUN, "QUJD", 0, "x", 0}, {RUN, "Lm5v", 0, "x", 0}, {RUN, "", 127, "x", 0},
             {RUN, "no colon", 0, "x", 0}, {RUN, "AA:!!", 0, "x", 0}, {RUN, "", 0, "x", 0});
    tn_autobuf struct tn_buf json = TN_BUF_INIT(1 << 16);
    tn_automicroagents struct tn_microagents list = {0};
    struct tn_error err = {0};

    assert_int_equal(tn_session_setup(f->session, &err), -1);
    assert_int_equal(err.code, TN_E_PEER);
    assert_int_equal(tn_session_git_changes(f->session, NULL, &json, &err), -1);
    /* "ABC" is a directory without an end: no changes. */
    assert_int_equal(tn_session_git_changes(f->session, NULL, &json, &err), 0);
    assert_string_equal(tn_buf_str(&json), "[]");
    assert_int_equal(tn_session_microagents(f->session, NULL, "", &list, &err), 0);
    assert_int_equal(list.count, 0);
    assert_int_equal(tn_session_git_changes(f->session, NULL, &json, &err), -1);
    assert_int_equal(err.code, TN_E_UNSUPPORTED);
    tn_buf_reset(&json);
    assert_int_equal(tn_session_git_diff(f->session, "f", NULL, &json, &err), -1);
    tn_buf_reset(&json);
    assert_int_equal(tn_session_git_diff(f->session, "f", NULL, &json, &err), -1);
    assert_null(tn_session_git_branch(f->session, NULL, &err));
    done(f);
}

static void test_failures_give_observations(void **state)
{
    static const struct {
        enum tn_code code;
        enum tn_runtime_status status;
        const char *content;
    } cases[] = {
        {TN_E_PEER, TN_RUNTIME_ERROR_RUNTIME_DISCONNECTED,
         "AgentRuntimeDisconnectedError: lost ***"},
        {TN_E_TIMEOUT, TN_RUNTIME_ERROR, "AgentRuntimeTimeoutError: lost ***"},
        {TN_E_IO, TN_RUNTIME_ERROR, "AgentRuntimeError: lost ***"},
    };

    for (size_t i = 0; i < TN_COUNT(cases); i++) {
        struct fixture *f = MAKE({RUN, "lost ghp-s3cret", 0, "x", cases[i].code});
        tn_autoaction struct tn_action action;
        tn_autoobservation struct tn_observation o;
        struct tn_error err = {0};
        tn_action_init(&action, TN_ACTION_RUN);
        action.run.command = tn_strdup("x");
        assert_int_equal(tn_session_run_action(f->session, &action, &o, &err), -1);
        assert_int_equal(o.type, TN_OBSERVATION_ERROR);
        assert_string_equal(o.content.data, cases[i].content);
        assert_int_equal(err.code, cases[i].code);
        assert_int_equal(tn_session_status(f->session), cases[i].status);
        assert_true(action.timeout.set && action.timeout.value == 120);
        assert_null(strstr(f->fake.told.data, "s3cret"));
        done(f);
    }
}

static void test_refresh_that_fails(void **state)
{
    struct tn_error err = {0};

    unsetenv("WEB_HOST");
    assert_null(tn_session_refresh_token(TN_GIT_GITHUB, "s", NULL, &err));
    assert_int_equal(err.code, TN_E_UNSUPPORTED);
    setenv("WEB_HOST", "127.0.0.1:1", 1); /* nobody listens there */
    setenv("SESSION_API_KEY", "k3y-s3cret", 1);
    assert_null(tn_session_refresh_token(TN_GIT_GITHUB, "s", NULL, &err));
    assert_int_equal(err.code, TN_E_PEER);
    assert_null(strstr(err.text, "s3cret"));
    unsetenv("WEB_HOST");
    unsetenv("SESSION_API_KEY");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_setup_is_one_call),
        cmocka_unit_test(test_parts_that_fail),
        cmocka_unit_test(test_command_that_does_not_end),
        cmocka_unit_test(test_command_that_was_not_run),
        cmocka_unit_test(test_strange_answers),
        cmocka_unit_test(test_failures_give_observations),
        cmocka_unit_test(test_refresh_that_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
