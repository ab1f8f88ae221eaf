#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "base/child.h"
#include "base/proc.h"
#include "scratch.h"

#define MARK "TENDON_TEST_MARK=here"
#define SECONDS 20
#define LOOK_SECONDS 1.0

static const char *program; /* this one */

static bool has_mark(const struct tn_buf *env)
{
    for (size_t at = 0; at < env->len; at += strlen(env->data + at) + 1)
        if (strcmp(env->data + at, MARK) == 0)
            return true;
    return false;
}

static struct tn_child *start(const char *const *argv, const char *const *env)
{
    struct tn_error err;
    struct tn_child *c = tn_child_start(&(struct tn_child_spec){.argv = argv, .env = env}, &err);

    if (!c)
        fail_msg("%s", err.text);
    return c;
}

static void end(struct tn_child *c)
{
    tn_child_signal(c, SIGKILL, NULL);
    tn_child_wait(c, tn_deadline_in(SECONDS), NULL, NULL);
    tn_child_free(c);
}

static int be_another_program_again_and_again(const char *self)
{
    char *const argv[] = {(char *)(uintptr_t)self, (char *)(uintptr_t) "again", NULL};
    char *const env[] = {(char *)(uintptr_t)MARK, NULL};

    execve(self, argv, env);
    return 1;
}

static void test_in_the_middle_of_exec(void **state)
{
    const char *const argv[] = {program, "again", NULL}, *const env[] = {MARK, NULL};
    tn_autobuf struct tn_buf found = TN_BUF_INIT(1 << 16);
    struct tn_child *c = start(argv, env);
    int64_t deadline = tn_deadline_in(LOOK_SECONDS);

    for (int i = 0; tn_now() < deadline; i++) {
        assert_int_equal(tn_proc_environ(tn_child_pid(c), &found), 0);
        if (!has_mark(&found))
            fail_msg("look %d: %zu bytes, but not the mark", i, found.len);
    }
    end(c);
}

/* Whether a look takes less than the wait for an exec; on a busy machine one of several does. */
static bool is_quick(pid_t pid, struct tn_buf *found)
{
    for (int i = 0; i < 5; i++) {
        int64_t before = tn_now();
        tn_proc_environ(pid, found);
        if (tn_now() - before < 900 * TN_MILLI)
            return true;
    }
    return false;
}

static void test_empty_ones(void **state)
{
    const char *const argv[] = {"/bin/sleep", "60", NULL}, *const env[] = {NULL};
    tn_autobuf struct tn_buf found = TN_BUF_INIT(1 << 16);
    struct tn_child *c = start(argv, env);
    pid_t dead = fork();

    if (dead == 0)
        _exit(0);
    assert_int_equal(tn_proc_environ(tn_child_pid(c), &found), 0);
    assert_int_equal(found.len, 0);
    assert_int_equal(waitid(P_PID, (id_t)dead, &(siginfo_t){0}, WEXITED | WNOWAIT), 0);
    assert_true(is_quick(dead, &found)); /* a zombie: nothing, or not to be looked at */
    assert_int_equal(found.len, 0);
    assert_true(is_quick(tn_child_pid(c), &found));
    waitpid(dead, NULL, 0);
    assert_int_equal(tn_proc_environ(dead, &found), -1);
    end(c);
}

static void test_too_large(void **state)
{
    const char *const argv[] = {"/bin/sleep", "60", NULL}, *const env[] = {MARK, NULL};
    tn_autobuf struct tn_buf found = TN_BUF_INIT(4);
    struct tn_child *c = start(argv, env);

    assert_int_equal(tn_proc_environ(tn_child_pid(c), &found), -1);
    end(c);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "again") == 0)
        return be_another_program_again_and_again(argv[0]);
    program = argv[0];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_in_the_middle_of_exec),
        cmocka_unit_test(test_empty_ones),
        cmocka_unit_test(test_too_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
