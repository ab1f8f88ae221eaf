#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "base/child.h"
#include "base/fs.h"
#include "base/proc.h"
#include "scratch.h"

#define ARGV(...) ((const char *const[]){__VA_ARGS__, NULL})
#define SH(script) ARGV("/bin/sh", "-c", script)

static int64_t soon(void)
{
    return tn_deadline_in(20);
}

static struct tn_child *start(const struct tn_child_spec *spec)
{
    struct tn_error err;
    struct tn_child *c = tn_child_start(spec, &err);
    if (!c)
        fail_msg("%s", err.text);
    return c;
}

static struct tn_exit finish(struct tn_child *c)
{
    struct tn_exit result;
    struct tn_error err;
    if (tn_child_wait(c, soon(), &result, &err) < 0)
        fail_msg("%s", err.text);
    return result;
}

/* Starts it with a pipe as standard output and returns all it wrote; the exit code must be 0. */
static char *output_of(struct tn_child_spec spec)
{
    struct tn_child_fd fds[8];
    tn_autobuf struct tn_buf out = TN_BUF_INIT(1 << 20);
    int ends[2];

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    if (spec.fd_count)
        memcpy(fds, spec.fds, spec.fd_count * sizeof *fds);
    fds[spec.fd_count++] = (struct tn_child_fd){.from = ends[1], .to = 1};
    spec.fds = fds;
    tn_autochild struct tn_child *c = start(&spec);
    close(ends[1]);
    assert_int_equal(tn_fs_read_fd(ends[0], &out, NULL), 0);
    close(ends[0]);
    struct tn_exit result = finish(c);
    assert_int_equal(tn_exit_code(&result), 0);
    return tn_buf_take(&out);
}

static void assert_output(const struct tn_child_spec *spec, const char *expected)
{
    tn_autofree char *out = output_of(*spec);
    assert_string_equal(out, expected);
}

static void assert_fails(const struct tn_child_spec *spec, enum tn_code code, const char *text)
{
    struct tn_error err = {0};
    assert_null(tn_child_start(spec, &err));
    assert_int_equal(err.code, code);
    if (!strstr(err.text, text))
        fail_msg("'%s' not in '%s'", text, err.text);
}

/* An abandoned start is buried in the background: that may take a moment. */
static void assert_no_children(void)
{
    siginfo_t info;
    int64_t deadline = soon();
    while (waitid(P_ALL, 0, &info, WEXITED | WNOWAIT) == 0) {
        assert_true(tn_now() < deadline);
        sched_yield();
    }
    assert_int_equal(errno, ECHILD);
}

/* --- what a child is like ------------------------------------------------------------------ */

static void test_exit_code_and_usage(void **state)
{
    struct tn_child_spec spec = {.argv = SH("exit 7")};
    tn_autochild struct tn_child *c = start(&spec);
    struct tn_exit result = finish(c);
    assert_true(WIFEXITED(result.status));
    assert_int_equal(tn_exit_code(&result), 7);
    assert_true(result.usage.ru_maxrss > 0);
    result = finish(c); /* again */
    assert_int_equal(tn_exit_code(&result), 7);
}

static void test_death_by_signal(void **state)
{
    struct tn_child_spec spec = {.argv = SH("kill -9 $$")};
    tn_autochild struct tn_child *c = start(&spec);
    struct tn_exit result = finish(c);
    assert_true(WIFSIGNALED(result.status));
    assert_int_equal(tn_exit_code(&result), 128 + SIGKILL);
}

static void test_failed_starts_name_the_step(void **state)
{
    struct tn_child_spec spec = {.argv = ARGV("/no/such/program")};
    assert_fails(&spec, TN_E_NOT_FOUND, "start /no/such/program: execute it: No such file");
    spec.argv = ARGV("/etc/passwd");
    assert_fails(&spec, TN_E_DENIED, "execute it: Permission denied");
    spec.argv = ARGV("no-such-program-anywhere");
    spec.env = ARGV("PATH=/usr/bin:/bin");
    assert_fails(&spec, TN_E_NOT_FOUND, "execute it");
    spec.argv = ARGV("true");
    spec.cwd = "/no/such/directory";
    assert_fails(&spec, TN_E_NOT_FOUND, "enter its directory /no/such/directory");
    spec.cwd = NULL;
    spec.fds = (struct tn_child_fd[]){{.from = 999, .to = 1}};
    spec.fd_count = 1;
    assert_fails(&spec, TN_E_IO, "connect its descriptors");
    spec.fds = (struct tn_child_fd[]){{.from = 0, .to = -5}};
    assert_fails(&spec, TN_E_INVALID, "makes no sense");
    spec.fd_count = 0;
    spec.terminal = true; /* but standard error is /dev/null */
    assert_fails(&spec, TN_E_IO, "take the controlling terminal");
    spec.terminal = false;
    spec.argv = (const char *const[]){NULL};
    assert_fails(&spec, TN_E_INVALID, "no program named");
}

static void test_environment_is_exact(void **state)
{
    struct tn_child_spec spec = {.argv = ARGV("/usr/bin/env"), .env = ARGV("A=1", "B=two words")};
    assert_output(&spec, "A=1\nB=two words\n");
    setenv("TN_TEST_INHERITED", "yes", 1);
    spec = (struct tn_child_spec){.argv = SH("echo $TN_TEST_INHERITED")};
    assert_output(&spec, "yes\n");
}

static void test_path_of_the_new_environment(void **state)
{
    struct tn_child_spec spec = {.argv = ARGV("sh", "-c", "echo $0"), .env = ARGV("PATH=/no:/bin")};
    assert_output(&spec, "sh\n");
    spec.env = ARGV("PATH=/no:/etc");
    assert_fails(&spec, TN_E_NOT_FOUND, "execute it");
    spec.env = ARGV("NOTHING=1"); /* without PATH: the usual places */
    assert_output(&spec, "sh\n");
    spec.file = "/bin/sh";
    spec.argv = ARGV("-other-name", "-c", "echo $0");
    assert_output(&spec, "-other-name\n");
}

static void test_cwd(void **state)
{
    struct tn_child_spec spec = {.argv = ARGV("/bin/pwd"), .cwd = "/usr/lib"};
    assert_output(&spec, "/usr/lib\n");
}

static void test_only_mapped_descriptors(void **state)
{
    int leak = open("/dev/null", O_RDONLY); /* without O_CLOEXEC, as foreign code may do */
    struct tn_child_spec spec = {.argv = SH("for fd in /proc/self/fd/*; do readlink $fd; done; :")};
    spec.fds = (struct tn_child_fd[]){{.from = leak, .to = 9}};
    tn_autofree char *without = output_of(spec);
    assert_null(strstr(without, "passwd"));
    int other = open("/etc/passwd", O_RDONLY);
    tn_autofree char *out = output_of(spec);
    assert_null(strstr(out, "passwd"));
    spec.fd_count = 1;
    spec.argv = SH("test -e /proc/self/fd/9 && ! test -e /proc/self/fd/5");
    tn_autofree char *mapped = output_of(spec);
    assert_string_equal(mapped, "");
    close(leak);
    close(other);
}

static void test_descriptors_may_swap(void **state)
{
    int a[2], b[2];
    char text[8] = "";

    assert_int_equal(pipe2(a, O_CLOEXEC), 0);
    assert_int_equal(pipe2(b, O_CLOEXEC), 0);
    /* each end takes the number that the other has here */
    struct tn_child_fd fds[] = {{.from = a[1], .to = b[1]}, {.from = b[1], .to = a[1]}};
    tn_autofree char *script = tn_asprintf("echo A >&%d; echo B >&%d", b[1], a[1]);
    struct tn_child_spec spec = {.argv = SH(script), .fds = fds, .fd_count = 2};
    tn_autochild struct tn_child *c = start(&spec);
    finish(c);
    assert_int_equal(read(a[0], text, sizeof text), 2);
    assert_memory_equal(text, "A\n", 2);
    assert_int_equal(read(b[0], text, sizeof text), 2);
    assert_memory_equal(text, "B\n", 2);
    for (int i = 0; i < 2; i++) {
        close(a[i]);
        close(b[i]);
    }
}

static void test_standard_descriptors_are_never_missing(void **state)
{
    struct tn_child_spec spec = {.argv = SH("readlink /proc/self/fd/0 /proc/self/fd/2")};
    assert_output(&spec, "/dev/null\n/dev/null\n");
}

static void test_signals_are_default(void **state)
{
    sigset_t set, old;
    sigfillset(&set);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGUSR1, SIG_IGN);
    pthread_sigmask(SIG_BLOCK, &set, &old);
    struct tn_child_spec spec = {.argv = ARGV("/bin/cat", "/proc/self/status")};
    tn_autofree char *out = output_of(spec);
    assert_non_null(strstr(out, "SigBlk:\t0000000000000000\n"));
    assert_non_null(strstr(out, "SigIgn:\t0000000000000000\n"));
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    signal(SIGUSR1, SIG_DFL);
}

static void test_session_and_group(void **state)
{
    static const char script[] =
        "read pid comm state ppid pgrp session rest </proc/self/stat; "
        "[ $pgrp = $$ ] && echo group; [ $session = $$ ] && echo session; :";
    struct tn_child_spec spec = {.argv = SH(script)};
    assert_output(&spec, "");
    spec.group = true;
    assert_output(&spec, "group\n");
    spec.group = false;
    spec.session = true;
    assert_output(&spec, "group\nsession\n");
}

static void test_controlling_terminal(void **state)
{
    char name[64];
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(master >= 0);
    assert_int_equal(grantpt(master), 0);
    assert_int_equal(unlockpt(master), 0);
    assert_int_equal(ptsname_r(master, name, sizeof name), 0);
    int slave = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(slave >= 0);
    struct tn_child_spec spec = {
        .argv = SH("echo hello >/dev/tty && tty"),
        .fds = (struct tn_child_fd[]){{.from = slave, .to = 0}, {.from = slave, .to = 2}},
        .fd_count = 2,
        .terminal = true,
    };
    tn_autofree char *out = output_of(spec);
    assert_int_equal(strncmp(out, name, strlen(name)), 0);
    char text[16];
    assert_int_equal(read(master, text, sizeof text), 7);
    assert_memory_equal(text, "hello\r\n", 7);
    close(slave);
    close(master);
}

static void test_user(void **state)
{
    if (geteuid() != 0)
        skip();
    static const gid_t groups[] = {23456, 34567};
    struct tn_child_user user = {.uid = 12345, .gid = 23456, .groups = groups, .group_count = 2};
    struct tn_child_spec spec = {
        .argv = ARGV("/bin/grep", "-E", "^(Uid|Gid|Groups)", "/proc/self/status"), .user = &user};
    assert_output(&spec, "Uid:\t12345\t12345\t12345\t12345\nGid:\t23456\t23456\t23456\t23456\n"
                         "Groups:\t23456 34567 \n");
    assert_int_equal(getuid(), 0);

    /* The directory is entered with the new rights, not with ours. */
    char dir[] = "/tmp/tn-child-XXXXXX";
    assert_non_null(mkdtemp(dir));
    spec.cwd = dir;
    assert_fails(&spec, TN_E_DENIED, "enter its directory");
    rmdir(dir);
}

/* --- waiting and signals ------------------------------------------------------------------- */

static void test_wait_has_a_deadline(void **state)
{
    struct tn_error err;
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    struct tn_child_spec spec = {.argv = ARGV("/bin/cat"),
                                 .fds = (struct tn_child_fd[]){{.from = ends[0], .to = 0}},
                                 .fd_count = 1};
    tn_autochild struct tn_child *c = start(&spec);
    assert_int_equal(tn_child_wait(c, 0, NULL, &err), -1);
    assert_int_equal(err.code, TN_E_TIMEOUT);
    int64_t before = tn_now();
    assert_int_equal(tn_child_wait(c, before + 30 * TN_MILLI, NULL, &err), -1);
    assert_true(tn_now() - before >= 30 * TN_MILLI);
    close(ends[1]);
    struct tn_exit result = finish(c);
    assert_int_equal(tn_exit_code(&result), 0);
    close(ends[0]);
}

static void test_signal(void **state)
{
    struct tn_error err;
    struct tn_child_spec spec = {.argv = SH("kill -STOP $$; exit 3")};
    tn_autochild struct tn_child *c = start(&spec);
    assert_int_equal(tn_child_signal(c, SIGTERM, NULL), 0);
    assert_int_equal(tn_child_signal(c, SIGCONT, NULL), 0);
    struct tn_exit result = finish(c);
    assert_int_equal(tn_exit_code(&result), 128 + SIGTERM);
    assert_int_equal(tn_child_signal(c, SIGTERM, &err), -1);
    assert_int_equal(err.code, TN_E_GONE);
    assert_int_equal(tn_child_signal_group(c, SIGTERM, &err), -1);
}

static void test_signal_to_the_group(void **state)
{
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    struct tn_child_spec spec = {.argv = SH("sleep 1000 & echo; wait"),
                                 .fds = (struct tn_child_fd[]){{.from = ends[1], .to = 1}},
                                 .fd_count = 1,
                                 .group = true};
    tn_autochild struct tn_child *c = start(&spec);
    close(ends[1]);
    char byte;
    assert_int_equal(read(ends[0], &byte, 1), 1);
    assert_int_equal(tn_child_signal_group(c, SIGKILL, NULL), 0);
    struct tn_exit result = finish(c);
    assert_int_equal(tn_exit_code(&result), 128 + SIGKILL);
    assert_int_equal(read(ends[0], &byte, 1), 0); /* the grandchild is gone as well */
    close(ends[0]);
}

static void test_pidfd_becomes_readable(void **state)
{
    struct tn_child_spec spec = {.argv = SH("kill -STOP $$")};
    tn_autochild struct tn_child *c = start(&spec);
    if (tn_child_pidfd(c) < 0)
        skip();
    struct pollfd p = {.fd = tn_child_pidfd(c), .events = POLLIN};
    assert_int_equal(poll(&p, 1, 0), 0);
    tn_child_signal(c, SIGKILL, NULL);
    assert_int_equal(poll(&p, 1, 20000), 1);
    finish(c);
}

static void test_start_has_a_deadline(void **state)
{
    struct tn_error err = {0};
    struct tn_child_spec spec = {.argv = ARGV("/bin/true"), .deadline = 1};
    struct tn_child *c = tn_child_start(&spec, &err);
    if (c) /* fast enough to beat a deadline in the past */
        finish(c);
    else
        assert_int_equal(err.code, TN_E_TIMEOUT);
    tn_child_free(c);
}

struct cat {
    struct tn_child *child;
    int in[2], out[2];
};

static void *start_cat(void *ctx)
{
    struct cat *cat = ctx;
    struct tn_child_fd fds[] = {{.from = cat->in[0], .to = 0}, {.from = cat->out[1], .to = 1}};
    cat->child = start(&(struct tn_child_spec){
        .argv = ARGV("/bin/cat"), .death_signal = SIGKILL, .fds = fds, .fd_count = 2});
    return NULL;
}

static void test_outlives_the_thread_that_started_it(void **state)
{
    struct cat cat;
    pthread_t thread;
    char text[4] = "";

    assert_int_equal(pipe2(cat.in, O_CLOEXEC), 0);
    assert_int_equal(pipe2(cat.out, O_CLOEXEC), 0);
    assert_int_equal(pthread_create(&thread, NULL, start_cat, &cat), 0);
    pthread_join(thread, NULL);
    close(cat.in[0]);
    close(cat.out[1]);
    assert_int_equal(write(cat.in[1], "hi", 2), 2);
    assert_int_equal(read(cat.out[0], text, 2), 2);
    assert_string_equal(text, "hi");
    close(cat.in[1]);
    struct tn_exit result = finish(cat.child);
    assert_int_equal(tn_exit_code(&result), 0);
    close(cat.out[0]);
    tn_child_free(cat.child);
}

/* This program again, as a process that starts a child tied to it and dies. */
static int be_a_parent_that_dies(void)
{
    struct tn_child_spec spec = {
        .argv = SH("kill -STOP $$"),
        .death_signal = SIGKILL,
        .fds = (struct tn_child_fd[]){{.from = 1, .to = 1}},
        .fd_count = 1,
    };
    return tn_child_start(&spec, NULL) ? 0 : 1;
}

static void test_dies_with_its_parent(void **state)
{
    struct tn_child_spec spec = {.argv = ARGV("/proc/self/exe", "die")};
    char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(n > 0);
    self[n] = '\0';
    spec.file = self;
    /* Ends only when the grandchild, which stopped itself, has been killed: it holds the pipe. */
    assert_output(&spec, "");
}

/* This program again, on a kernel that knows neither close_range nor pidfds. */
static int be_on_an_old_kernel(void)
{
    int leak = open("/etc/passwd", O_RDONLY), ends[2];
    forbid(SYS_close_range, 0, ENOSYS);
    forbid(SYS_pidfd_open, 0, ENOSYS);
    struct tn_child_spec spec = {.argv = SH("for fd in /proc/self/fd/*; do readlink $fd; done; :")};
    tn_autofree char *out = output_of(spec);
    if (strstr(out, "passwd") || !strstr(out, "/dev/null"))
        return 1;
    close(leak);
    if (pipe2(ends, O_CLOEXEC) < 0)
        return 2;
    struct tn_child_fd fds[] = {{.from = ends[0], .to = 0}};
    spec = (struct tn_child_spec){.argv = ARGV("/bin/cat"), .fds = fds, .fd_count = 1};
    tn_autochild struct tn_child *c = start(&spec);
    if (tn_child_pidfd(c) >= 0 || tn_child_wait(c, tn_now() + 20 * TN_MILLI, NULL, NULL) == 0)
        return 3;
    close(ends[1]);
    struct tn_exit result = finish(c);
    return tn_exit_code(&result);
}

/* The handle is of who started it: that one has ended when the program says anything. */
static void test_orphan(void **state)
{
    int ends[2], told[2];
    char text[64] = "";

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(pipe2(told, O_CLOEXEC), 0);
    const struct tn_child_fd fds[] = {{.from = told[0], .to = 0}, {.from = ends[1], .to = 1}};
    struct tn_child_spec spec = {
        .argv = ARGV("/bin/sh", "-c", "read x; cut -d ' ' -f 1,4 /proc/$$/stat"),
        .fds = fds,
        .fd_count = TN_COUNT(fds),
        .orphan = true};
    tn_autochild struct tn_child *c = start(&spec);
    struct tn_exit result = finish(c);
    assert_int_equal(tn_exit_code(&result), 0);
    close(told[0]);
    close(ends[1]);
    assert_no_children();
    assert_int_equal(write(told[1], "\n", 1), 1);
    assert_true(read(ends[0], text, sizeof text - 1) > 0);
    char *rest;
    long self = strtol(text, &rest, 10), parent = strtol(rest, NULL, 10);
    assert_int_not_equal(parent, getpid());
    assert_int_not_equal(parent, tn_child_pid(c));
    assert_int_not_equal(self, tn_child_pid(c));
    close(told[1]);
    close(ends[0]);
}

static void test_orphan_that_cannot_be_started(void **state)
{
    struct tn_child_spec spec = {.argv = ARGV("/bin/true"), .cwd = "/nowhere", .orphan = true};
    struct tn_error err;

    assert_null(tn_child_start(&spec, &err));
    assert_non_null(strstr(err.text, "enter its directory /nowhere"));
    assert_no_children();
}

/* Its starter may be killed while it still reads what to become: that is kept, and is no leak. */
static void test_orphan_that_is_given_up(void **state)
{
    struct tn_child_spec spec = {.argv = ARGV("/bin/true"), .orphan = true, .deadline = 1};

    for (int i = 0; i < 100; i++) {
        tn_autochild struct tn_child *c = tn_child_start(&spec, NULL);
        if (c) /* fast enough to beat a deadline in the past */
            finish(c);
    }
    spec.deadline = soon();
    tn_autochild struct tn_child *c = start(&spec);
    struct tn_exit result = finish(c);
    assert_int_equal(tn_exit_code(&result), 0);
}

/* It has none of the threads that start processes. */
static int start_in_a_fork(void)
{
    for (int i = 0; i < 3; i++) {
        tn_autochild struct tn_child *c =
            tn_child_start(&(struct tn_child_spec){.argv = SH("exit 7")}, NULL);
        struct tn_exit result;
        if (!c || tn_child_wait(c, soon(), &result, NULL) < 0 || tn_exit_code(&result) != 7)
            return 1;
    }
    return 0;
}

static void test_fork(void **state)
{
#if defined(__SANITIZE_THREAD__)
    print_message("ThreadSanitizer allows no threads in a fork of a process that has some\n");
    skip();
#endif
    for (int i = 0; i < 5; i++) {
        tn_autochild struct tn_child *c = start(&(struct tn_child_spec){.argv = SH("exit 0")});
        pid_t pid = fork();
        if (pid == 0)
            _exit(start_in_a_fork());
        tn_autofd int end = (int)syscall(SYS_pidfd_open, pid, 0);
        struct pollfd p = {.fd = end, .events = POLLIN};
        int status = -1, ended = poll(&p, 1, tn_poll_ms(soon()));
        if (ended == 0)
            kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(ended, 1);
        assert_int_equal(status, 0);
        finish(c);
    }
}

static void test_old_kernels(void **state)
{
    struct tn_child_spec spec = {.argv = ARGV("/proc/self/exe", "old")};
    char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(n > 0);
    self[n] = '\0';
    spec.file = self;
    assert_output(&spec, "");
}

struct many {
    int failures;
};

static void *start_many(void *ctx)
{
    struct many *m = ctx;
    for (int i = 0; i < 20; i++) {
        char number[8];
        snprintf(number, sizeof number, "%d", i);
        struct tn_child_spec spec = {.argv = ARGV("/bin/sh", "-c", "exit $0", number)};
        struct tn_error err;
        struct tn_exit result;
        tn_autochild struct tn_child *c = tn_child_start(&spec, &err);
        m->failures +=
            !c || tn_child_wait(c, soon(), &result, &err) < 0 || tn_exit_code(&result) != i;
    }
    return NULL;
}

static void test_many_threads(void **state)
{
    pthread_t threads[6];
    struct many many[6] = {{0}};
    for (size_t i = 0; i < TN_COUNT(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, start_many, &many[i]), 0);
    for (size_t i = 0; i < TN_COUNT(threads); i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(many[i].failures, 0);
    }
    assert_no_children();
}

/* --- the reaper ---------------------------------------------------------------------------- */

static int reaper = -1;

static int start_reaper(void **state)
{
    struct tn_error err;
    reaper = tn_reaper_start(true, &err);
    return reaper < 0 ? -1 : 0;
}

static int stop_reaper(void **state)
{
    tn_reaper_stop();
    return 0;
}

struct joined {
    pthread_t thread;
    struct many many;
    int done[2];
};

static void *start_many_and_tell(void *ctx)
{
    struct joined *j = ctx;
    start_many(&j->many);
    close(j->done[1]);
    return NULL;
}

/* The main thread collects while others start and wait: also those that exit at once. */
static void test_reaper_serves_other_threads(void **state)
{
    struct joined joined[4];
    for (size_t i = 0; i < TN_COUNT(joined); i++) {
        joined[i].many.failures = 0;
        assert_int_equal(pipe2(joined[i].done, O_CLOEXEC), 0);
        assert_int_equal(pthread_create(&joined[i].thread, NULL, start_many_and_tell, &joined[i]),
                         0);
    }
    for (size_t i = 0; i < TN_COUNT(joined); i++) {
        struct pollfd p[] = {{.fd = reaper, .events = POLLIN},
                             {.fd = joined[i].done[0], .events = POLLIN}};
        while (!p[1].revents) {
            assert_true(poll(p, 2, 20000) > 0);
            tn_reaper_collect();
        }
        pthread_join(joined[i].thread, NULL);
        close(joined[i].done[0]);
        assert_int_equal(joined[i].many.failures, 0);
    }
    tn_reaper_collect();
    assert_no_children();
}

static void note_exit(struct tn_child *child, const struct tn_exit *result, void *ctx)
{
    *(int *)ctx = tn_exit_code(result);
    if (tn_exit_code(result) == 9)
        tn_child_free(child); /* allowed here */
}

static void collect_until(const int *flag, int value)
{
    struct pollfd p = {.fd = reaper, .events = POLLIN};
    while (*flag != value) {
        assert_true(poll(&p, 1, 20000) > 0);
        tn_reaper_collect();
    }
}

static void test_callback(void **state)
{
    int code = -1;
    struct tn_child_spec spec = {.argv = SH("exit 4"), .on_exit = note_exit, .ctx = &code};
    struct tn_child *c = start(&spec);
    assert_int_equal(code, -1);
    collect_until(&code, 4);
    assert_int_equal(tn_child_wait(c, 0, NULL, NULL), 0);
    tn_child_free(c);
    spec.argv = SH("exit 9");
    start(&spec);
    collect_until(&code, 9);
}

static void test_no_callback_after_free(void **state)
{
    int code = -1;
    struct tn_child_spec spec = {.argv = ARGV("/bin/true"), .on_exit = note_exit, .ctx = &code};
    struct tn_child *c = start(&spec);
    pid_t pid = tn_child_pid(c);
    tn_child_free(c);
    struct pollfd p = {.fd = reaper, .events = POLLIN};
    while (kill(pid, 0) == 0) {
        assert_true(poll(&p, 1, 20000) > 0);
        tn_reaper_collect();
    }
    assert_int_equal(code, -1);
}

static void test_orphans_are_adopted_and_reaped(void **state)
{
    int hold[2];
    assert_int_equal(pipe2(hold, O_CLOEXEC), 0);
    /* the grandchild reads from the pipe until we close it; its parent leaves at once */
    struct tn_child_spec spec = {.argv = SH("cat <&7 >/dev/null 2>&1 & echo $!"),
                                 .fds = (struct tn_child_fd[]){{.from = hold[0], .to = 7}},
                                 .fd_count = 1};
    tn_autofree char *out = output_of(spec);
    pid_t orphan = (pid_t)strtol(out, NULL, 10);
    struct tn_proc info;
    assert_int_equal(tn_proc_get(orphan, &info), 0);
    assert_int_equal(info.parent, getpid());
    close(hold[1]);
    struct pollfd p = {.fd = reaper, .events = POLLIN};
    while (kill(orphan, 0) == 0) {
        assert_true(poll(&p, 1, 20000) > 0);
        tn_reaper_collect();
    }
    close(hold[0]);
    assert_no_children();
}

#define EVERYWHERE                                                                                 \
    cmocka_unit_test(test_exit_code_and_usage), cmocka_unit_test(test_death_by_signal),            \
        cmocka_unit_test(test_failed_starts_name_the_step),                                        \
        cmocka_unit_test(test_only_mapped_descriptors),                                            \
        cmocka_unit_test(test_wait_has_a_deadline), cmocka_unit_test(test_signal),                 \
        cmocka_unit_test(test_signal_to_the_group), cmocka_unit_test(test_pidfd_becomes_readable), \
        cmocka_unit_test(test_start_has_a_deadline),                                               \
        cmocka_unit_test(test_outlives_the_thread_that_started_it),                                \
        cmocka_unit_test(test_dies_with_its_parent)

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "die") == 0)
        return be_a_parent_that_dies();
    if (argc > 1 && strcmp(argv[1], "old") == 0)
        return be_on_an_old_kernel();
    const struct CMUnitTest alone[] = {
        EVERYWHERE,
        cmocka_unit_test(test_environment_is_exact),
        cmocka_unit_test(test_path_of_the_new_environment),
        cmocka_unit_test(test_cwd),
        cmocka_unit_test(test_descriptors_may_swap),
        cmocka_unit_test(test_standard_descriptors_are_never_missing),
        cmocka_unit_test(test_signals_are_default),
        cmocka_unit_test(test_session_and_group),
        cmocka_unit_test(test_controlling_terminal),
        cmocka_unit_test(test_user),
        cmocka_unit_test(test_many_threads),
        cmocka_unit_test(test_orphan),
        cmocka_unit_test(test_orphan_that_cannot_be_started),
        cmocka_unit_test(test_orphan_that_is_given_up),
        cmocka_unit_test(test_fork),
        cmocka_unit_test(test_old_kernels),
    };
    const struct CMUnitTest reaping[] = {
        EVERYWHERE,
        cmocka_unit_test(test_reaper_serves_other_threads),
        cmocka_unit_test(test_callback),
        cmocka_unit_test(test_no_callback_after_free),
        cmocka_unit_test(test_orphans_are_adopted_and_reaped),
    };
    return cmocka_run_group_tests_name("alone", alone, NULL, NULL) +
           cmocka_run_group_tests_name("with the reaper", reaping, start_reaper, stop_reaper);
}
