#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "base/child.h"
#include "base/proc.h"
#include "scratch.h"

static int64_t soon(void)
{
    return tn_deadline_in(20);
}

/* A shell with the script, and the first byte it writes awaited: then it is set up. */
static struct tn_child *start_marked(const char *script, uint64_t mark, int *output)
{
    const char *const argv[] = {"/bin/sh", "-c", script, NULL};
    struct tn_error err;
    char byte;
    int ends[2];

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    struct tn_child_fd fds[] = {{.from = ends[1], .to = 1}};
    struct tn_child_spec spec = {
        .argv = argv, .fds = fds, .fd_count = 1, .session = true, .mark = mark};
    struct tn_child *c = tn_child_start(&spec, &err);
    if (!c)
        fail_msg("%s", err.text);
    close(ends[1]);
    assert_int_equal(read(ends[0], &byte, 1), 1);
    *output = ends[0];
    return c;
}

static struct tn_child *start_ready(const char *script, int *output)
{
    return start_marked(script, 0, output);
}

/* Everybody who held the pipe has ended. */
static void assert_all_gone(int output)
{
    char bytes[256];
    struct pollfd p = {.fd = output, .events = POLLIN};
    ssize_t n;
    do {
        assert_int_equal(poll(&p, 1, 20000), 1);
        n = read(output, bytes, sizeof bytes);
    } while (n > 0);
    assert_int_equal(n, 0);
    close(output);
}

static void finish(struct tn_child *c)
{
    assert_int_equal(tn_child_wait(c, soon(), NULL, NULL), 0);
    tn_child_free(c);
}

static void test_numbers(void **state)
{
    unsigned long long n[2] = {0};

    assert_int_equal(tn_proc_numbers(" S -1 18446744073709551615 7\n", 2, n, 2), 0);
    assert_true(n[0] == UINT64_MAX && n[1] == 7);
    assert_int_equal(tn_proc_numbers("5", 0, n, 1), 0);
    assert_true(n[0] == 5);
    assert_int_equal(tn_proc_numbers("5 6\n", 0, n, 0), 0);
    assert_int_equal(tn_proc_numbers("5 6\n", 1, n, 2), -1);
    assert_int_equal(tn_proc_numbers("5 -6", 1, n, 1), -1);
    assert_int_equal(tn_proc_numbers("", 0, n, 1), -1);
}

static void test_get(void **state)
{
    struct tn_proc me, none;
    assert_int_equal(tn_proc_get(getpid(), &me), 0);
    assert_int_equal(me.pid, getpid());
    assert_int_equal(me.parent, getppid());
    assert_true(me.start > 0);
    assert_int_equal(tn_proc_get(0x3ffffe, &none), -1);
}

static void test_age(void **state)
{
    struct tn_proc me;

    assert_int_equal(tn_proc_get(getpid(), &me), 0);
    double age = tn_proc_age(me.start);
    assert_true(age >= 0 && age < 600);
    assert_true(tn_proc_age(me.start) >= age);
}

/* A name with spaces, parentheses and digits must not shift the fields. */
static void test_get_with_a_nasty_name(void **state)
{
    int output;
    struct tn_child *c = start_ready("printf '%s' ') S 1 (' >/proc/$$/comm; echo; read x", &output);
    struct tn_proc p;
    assert_int_equal(tn_proc_get(tn_child_pid(c), &p), 0);
    assert_int_equal(p.parent, getpid());
    tn_child_signal(c, SIGKILL, NULL);
    finish(c);
    close(output);
}

static void test_descendants(void **state)
{
    int output;
    struct tn_proc *list;
    size_t count;
    struct tn_child *c = start_ready(
        "sleep 1000 & sh -c 'sleep 1000 & sh -c \"sleep 1000 & echo; wait\"; :' & wait", &output);
    assert_int_equal(tn_proc_descendants(tn_child_pid(c), &list, &count, NULL), 0);
    assert_int_equal(count, 5);
    for (size_t i = 0; i < count; i++) {
        bool known = list[i].parent == tn_child_pid(c);
        for (size_t k = 0; k < i; k++)
            known |= list[k].pid == list[i].parent;
        assert_true(known); /* parents come first */
    }
    assert_int_equal(tn_proc_kill(list, count, 0, soon(), NULL), 0);
    free(list);
    finish(c);
    assert_all_gone(output);
    assert_int_equal(tn_proc_descendants(getpid(), &list, &count, NULL), 0);
    assert_int_equal(count, 0);
    assert_null(list);
}

static void test_kill_asks_first(void **state)
{
    int output;
    struct tn_child *c =
        start_ready("trap 'exit 5' TERM; echo; while :; do kill -STOP $$; done", &output);
    struct tn_proc p;
    struct tn_exit result;
    assert_int_equal(tn_proc_get(tn_child_pid(c), &p), 0);
    assert_int_equal(tn_proc_kill(&p, 1, soon(), soon(), NULL), 0);
    assert_int_equal(tn_child_wait(c, soon(), &result, NULL), 0);
    assert_int_equal(tn_exit_code(&result), 5);
    finish(c);
    close(output);
}

static void test_kill_insists(void **state)
{
    int output;
    struct tn_child *c =
        start_ready("trap '' TERM; echo; while :; do kill -STOP $$; done", &output);
    struct tn_proc p;
    struct tn_exit result;
    assert_int_equal(tn_proc_get(tn_child_pid(c), &p), 0);
    assert_int_equal(tn_proc_kill(&p, 1, tn_now() + 20 * TN_MILLI, soon(), NULL), 0);
    assert_int_equal(tn_child_wait(c, soon(), &result, NULL), 0);
    assert_int_equal(tn_exit_code(&result), 128 + SIGKILL);
    finish(c);
    close(output);
}

static void test_kill_reaches_the_stopped(void **state)
{
    int output;
    struct tn_child *c = start_ready("trap 'exit 6' TERM; echo; kill -STOP $$", &output);
    struct tn_proc p;
    struct tn_exit result;
    assert_int_equal(tn_proc_get(tn_child_pid(c), &p), 0);
    assert_int_equal(tn_proc_kill(&p, 1, soon(), soon(), NULL), 0);
    assert_int_equal(tn_child_wait(c, soon(), &result, NULL), 0);
    assert_int_equal(tn_exit_code(&result), 6);
    finish(c);
    close(output);
}

/* The same number with another start time is somebody else. */
static void test_kill_spares_a_later_process(void **state)
{
    int output;
    struct tn_child *c = start_ready("echo; read x", &output);
    struct tn_proc p;
    assert_int_equal(tn_proc_get(tn_child_pid(c), &p), 0);
    p.start++;
    assert_int_equal(tn_proc_kill(&p, 1, 0, soon(), NULL), 0);
    p.start--;
    struct tn_proc now;
    assert_int_equal(tn_proc_get(p.pid, &now), 0);
    assert_int_equal(tn_proc_kill(&p, 1, 0, soon(), NULL), 0);
    finish(c);
    close(output);
}

static void test_kill_of_the_dead(void **state)
{
    int output;
    struct tn_child *c = start_ready("echo; read x", &output);
    struct tn_proc p;
    assert_int_equal(tn_proc_get(tn_child_pid(c), &p), 0);
    assert_int_equal(tn_proc_kill(&p, 1, 0, soon(), NULL), 0);
    assert_int_equal(tn_proc_kill(&p, 1, soon(), soon(), NULL), 0); /* a zombie */
    finish(c);
    assert_int_equal(tn_proc_kill(&p, 1, soon(), soon(), NULL), 0); /* nobody */
    close(output);
}

static void test_kill_tree(void **state)
{
    int output;
    struct tn_child *c = start_ready(
        "sh -c 'trap \"\" TERM; sleep 1000 & sh -c \"sleep 1000; :\" & echo; wait' & wait",
        &output);
    assert_int_equal(
        tn_proc_kill_tree(tn_child_pid(c), true, tn_now() + 20 * TN_MILLI, soon(), NULL), 0);
    finish(c);
    /* Who ignored the request outlived its parent, and was found all the same. */
    assert_all_gone(output);
}

/* Children faster than they can be listed: only stopping them first gets all. */
static void test_kill_tree_of_a_breeder(void **state)
{
    int output;
    struct tn_child *c =
        start_ready("breed() { while :; do sleep 1000 & [ $! -gt 0 ] && "
                    "sh -c 'sleep 1000 & sleep 1000' & n=$((n + 1)); "
                    "[ $n = 3 ] && echo; [ $n -gt 150 ] && wait; done; }; n=0; breed",
                    &output);
    assert_int_equal(tn_proc_kill_tree(tn_child_pid(c), true, 0, soon(), NULL), 0);
    finish(c);
    assert_all_gone(output);
}

static void test_kill_tree_without_its_root(void **state)
{
    int output;
    struct tn_child *c = start_ready("sleep 1000 & sleep 1000 & echo; wait; exit 8", &output);
    struct tn_exit result;
    assert_int_equal(tn_proc_kill_tree(tn_child_pid(c), false, soon(), soon(), NULL), 0);
    assert_int_equal(tn_child_wait(c, soon(), &result, NULL), 0);
    assert_int_equal(tn_exit_code(&result), 8);
    finish(c);
    assert_all_gone(output);
}

static void test_not_ours_is_reported(void **state)
{
    if (geteuid() != 0)
        skip();
    int output;
    struct tn_child *c = start_ready("echo; read x", &output);
    struct tn_proc p;
    struct tn_error err = {0};
    assert_int_equal(tn_proc_get(tn_child_pid(c), &p), 0);
    assert_int_equal(setresuid(12345, 12345, 0), 0);
    int result = tn_proc_kill(&p, 1, 0, soon(), &err);
    assert_int_equal(setresuid(0, 0, 0), 0);
    assert_int_equal(result, -1);
    assert_int_equal(err.code, TN_E_DENIED);
    tn_child_signal(c, SIGKILL, NULL);
    finish(c);
    close(output);
}

#ifdef SYS_access
#define ACCESS SYS_access
#else
#define ACCESS SYS_faccessat
#endif

/* This program again, on a kernel without pidfds and without lists of children. */
static int be_on_an_old_kernel(void)
{
    struct tn_proc *list;
    size_t count;
    int output;

    forbid(SYS_pidfd_open, 0, ENOSYS);
    forbid(ACCESS, 0, ENOENT);
    struct tn_child *c =
        start_ready("trap '' TERM; sh -c 'sleep 1000 & echo; wait' & wait", &output);
    if (tn_proc_descendants(tn_child_pid(c), &list, &count, NULL) < 0 || count != 2)
        return 2;
    free(list);
    if (tn_proc_kill_tree(tn_child_pid(c), true, tn_now() + 20 * TN_MILLI, soon(), NULL) < 0)
        return 3;
    finish(c);
    assert_all_gone(output);
    return 0;
}

static void test_old_kernels(void **state)
{
    char self[4096];
    struct tn_exit result;
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(n > 0);
    self[n] = '\0';
    const char *const argv[] = {self, "old", NULL};
    struct tn_child_spec spec = {.argv = argv};
    struct tn_child *c = tn_child_start(&spec, NULL);
    assert_non_null(c);
    assert_int_equal(tn_child_wait(c, soon(), &result, NULL), 0);
    assert_int_equal(tn_exit_code(&result), 0);
    tn_child_free(c);
}

static void test_stop_and_continue(void **state)
{
    int output;
    struct tn_child *c =
        start_ready("sleep 1000 & (sleep 1001 & sleep 1002) & echo x; wait", &output);
    struct tn_proc *list = NULL, me;
    struct tn_error err = {0};
    size_t n = 0;

    assert_int_equal(tn_proc_get(tn_child_pid(c), &me), 0);
    assert_int_equal(tn_proc_stop_tree(me.pid, soon(), &err), 0);
    assert_int_equal(tn_proc_stop_tree(me.pid, soon(), &err), 0);
    assert_int_equal(tn_proc_descendants(me.pid, &list, &n, &err), 0);
    assert_true(n >= 2);
    assert_int_equal(tn_proc_state(me.pid, me.start), 'T');
    for (size_t i = 0; i < n; i++)
        assert_int_equal(tn_proc_state(list[i].pid, list[i].start), 'T');
    assert_int_equal(tn_proc_state(me.pid, me.start + 1), 0); /* somebody else of that number */
    assert_int_equal(tn_proc_continue_tree(me.pid, &err), 0);
    assert_int_not_equal(tn_proc_state(me.pid, me.start), 'T');
    for (size_t i = 0; i < n; i++)
        assert_int_not_equal(tn_proc_state(list[i].pid, list[i].start), 'T');
    free(list);
    assert_int_equal(tn_proc_kill_tree(me.pid, true, 0, soon(), &err), 0);
    assert_all_gone(output);
    finish(c);
    assert_int_equal(tn_proc_state(me.pid, me.start), 0);
}

/* The parent sleeps in vfork until the child, which stops itself, has ended. */
static void test_stop_while_one_is_born(void **state)
{
    struct tn_error err = {0};
    struct tn_proc parent, *list = NULL;
    size_t n = 0;
    pid_t pid = fork();

    if (pid == 0) {
        /* As vfork does it, which a sanitizer makes a fork. */
        if (syscall(SYS_clone, CLONE_VFORK | SIGCHLD, 0, 0, 0, 0) == 0) {
            kill(getpid(), SIGSTOP);
            _exit(0);
        }
        _exit(7);
    }
    assert_int_equal(tn_proc_get(pid, &parent), 0);
    int64_t deadline = soon();
    /* By its own hand: it would stop once more after a signal that came before. */
    while (n == 0 || tn_proc_state(list[0].pid, list[0].start) != 'T') {
        assert_true(tn_now() < deadline);
        free(list);
        assert_int_equal(tn_proc_descendants(pid, &list, &n, &err), 0);
    }
    assert_int_equal(n, 1);
    assert_int_equal(tn_proc_stop_tree(pid, soon(), &err), 0);
    assert_int_equal(tn_proc_state(list[0].pid, list[0].start), 'T');
    assert_int_equal(tn_proc_state(pid, parent.start), 'D');
    assert_int_equal(tn_proc_continue_tree(pid, &err), 0);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    free(list);
}

/* One of another session, without an environment, whose parents have ended. */
#define STRAY "(setsid env -i sh -c 'echo; exec sleep 1000' &)"

static void test_kill_marked(void **state)
{
    uint64_t marks[] = {tn_proc_mark_new(), tn_proc_mark_new(), 0};
    int outputs[3];

    if (!marks[0])
        skip(); /* whoever runs the tests is limited already */
    assert_true(marks[0] != marks[1]);
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    for (int i = 0; i < 3; i++)
        finish(start_marked(STRAY, marks[i], &outputs[i]));
    tn_proc_kill_marked(marks[0], soon());
    assert_all_gone(outputs[0]);
    for (int i = 1; i < 3; i++) {
        struct pollfd alive = {.fd = outputs[i], .events = POLLIN};
        assert_int_equal(poll(&alive, 1, 0), 0);
    }
    assert_true(tn_proc_memory(getpid(), 0) > tn_proc_memory(1 << 22, marks[1]));
    assert_true(tn_proc_memory(1 << 22, marks[1]) > 0);
    assert_int_equal(tn_proc_memory(1 << 22, marks[0]), 0);
    tn_proc_kill_marked(marks[1], soon());
    assert_all_gone(outputs[1]);
    assert_int_equal(tn_proc_kill_tree(getpid(), false, 0, soon(), NULL), 0);
    assert_all_gone(outputs[2]);
    prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0);
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
}

static void test_bears(void **state)
{
    assert_true(tn_proc_bears(getpid(), "/"));       /* the root of some mount */
    assert_false(tn_proc_bears(getpid(), "/proc/")); /* where something is mounted */
    assert_false(tn_proc_bears(getpid(), " - proc "));
    assert_false(tn_proc_bears(getpid(), "0123456789abcdef0123456789abcdef"));
    assert_false(tn_proc_bears(0x7fffffff, "/"));
}

static void test_dying(void **state)
{
    int output;
    struct tn_child *c = start_ready("echo; exec sleep 60", &output);
    struct tn_proc child, self, another;

    assert_int_equal(tn_proc_get(tn_child_pid(c), &child), 0);
    assert_int_equal(tn_proc_get(getpid(), &self), 0);
    another = child;
    another.start++;
    assert_true(tn_proc_is_well(&child));
    assert_true(tn_proc_is_well(&self));
    assert_false(tn_proc_is_well(&another));
    kill(child.pid, SIGKILL);
    assert_false(tn_proc_is_well(&child)); /* from the first moment, whatever has happened by now */
    assert_all_gone(output);
    assert_false(tn_proc_is_well(&child)); /* not buried yet */
    tn_child_wait(c, soon(), NULL, NULL);
    assert_false(tn_proc_is_well(&child));
    tn_child_free(c);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "old") == 0)
        return be_on_an_old_kernel();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_get),
        cmocka_unit_test(test_age),
        cmocka_unit_test(test_stop_and_continue),
        cmocka_unit_test(test_stop_while_one_is_born),
        cmocka_unit_test(test_get_with_a_nasty_name),
        cmocka_unit_test(test_descendants),
        cmocka_unit_test(test_kill_asks_first),
        cmocka_unit_test(test_kill_insists),
        cmocka_unit_test(test_kill_reaches_the_stopped),
        cmocka_unit_test(test_kill_spares_a_later_process),
        cmocka_unit_test(test_kill_of_the_dead),
        cmocka_unit_test(test_kill_tree),
        cmocka_unit_test(test_kill_tree_of_a_breeder),
        cmocka_unit_test(test_kill_tree_without_its_root),
        cmocka_unit_test(test_not_ours_is_reported),
        cmocka_unit_test(test_old_kernels),
        cmocka_unit_test(test_kill_marked),
        cmocka_unit_test(test_bears),
        cmocka_unit_test(test_dying),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
