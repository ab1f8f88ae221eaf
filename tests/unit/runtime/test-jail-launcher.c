/* Launchers, with a stand-in: this program does as one when it is called like one. */
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/thread.h"
#include "jail/parcel.h"
#include "runtime/jail/jail.h"

#define REFUSAL "{\"error\": \"no such thing\", \"step\": \"plan\", \"code\": \"unsupported\"}\n"
#define SECONDS 20

static char *directory;
static struct jail_engine engine;

/* --- the stand-in -------------------------------------------------------------------------- */

/* Does what its plan calls the host: is silent, as is its child; or refuses. */
static int obey(void)
{
    tn_autobuf struct tn_buf plan = TN_BUF_INIT(1 << 20);

    if (tn_fs_read_fd(3, &plan, NULL) < 0)
        return 1;
    if (strstr(tn_buf_str(&plan), "silent")) {
        fork();
        for (;;)
            pause();
    }
    return write(4, REFUSAL, strlen(REFUSAL)) < 0;
}

static int be_a_launcher(int socket)
{
    struct tn_proc self;

    if (tn_proc_get(getpid(), &self) < 0 || send(socket, &self, sizeof self, MSG_NOSIGNAL) < 0 ||
        tn_parcel_receive(socket, NULL) != 1)
        return 0;
    return obey();
}

static int be_a_nursery(int socket)
{
    signal(SIGCHLD, SIG_IGN);
    while (tn_parcel_receive(socket, NULL) == 1) {
        if (fork() == 0) {
            close(socket);
            return be_a_launcher(TN_PARCEL_FD);
        }
        close(TN_PARCEL_FD);
    }
    return 0;
}

/* --- tests --------------------------------------------------------------------------------- */

static int start(const char *hostname, struct jail_launcher *l, struct tn_error *err)
{
    const struct tn_subject subject = {.id = "box", .directory = directory};
    tn_autoplan struct tn_jail_plan plan;

    tn_jail_plan_init(&plan);
    plan.hostname = tn_strdup(hostname);
    return jail_launcher_start(&engine, &subject, &plan, -1, -1, -1, l, tn_deadline_in(SECONDS),
                               err);
}

static void assert_nobody_is_left(void)
{
    const struct tn_subject subject = {.id = "box", .directory = directory};

    /* Launchers and their children have it open. */
    assert_int_equal(jail_await_start(&subject, tn_deadline_in(SECONDS), NULL), 0);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* and nobody waits to be buried */
    assert_int_equal(errno, ECHILD);
}

static void assert_refusal(struct jail_launcher *l)
{
    jail_autoref struct jail_ref ref = {0};
    tn_autoplace struct tn_place place = {0};
    struct tn_error err;

    assert_int_equal(jail_launcher_finish(l, &ref, &place, tn_deadline_in(SECONDS), &err), -1);
    assert_string_equal(err.text, "no such thing");
    assert_int_equal(err.code, TN_E_UNSUPPORTED);
    jail_launcher_done(l);
    assert_nobody_is_left();
}

/* It comes while others do something else. */
static void expect_one(void)
{
    struct timespec until = tn_timespec(tn_deadline_in(SECONDS));

    jail_launcher_expect(&engine);
    pthread_mutex_lock(&engine.early_lock);
    while (engine.early_comes)
        assert_int_equal(pthread_cond_timedwait(&engine.early_came, &engine.early_lock, &until), 0);
    pthread_mutex_unlock(&engine.early_lock);
}

static void test_needed(void **state)
{
    struct jail_launcher l = JAIL_LAUNCHER_NONE;
    struct tn_error err;

    assert_int_equal(start("refuse", &l, &err), 0); /* there is none yet */
    assert_refusal(&l);
    expect_one();
    int early = engine.early.socket;
    assert_true(early >= 0);
    expect_one(); /* is enough */
    assert_int_equal(engine.early.socket, early);
    assert_int_equal(start("refuse", &l, &err), 0);
    assert_int_equal(l.socket, early);
    assert_int_equal(engine.early.socket, -1);
    assert_refusal(&l);
}

static struct tn_proc process_of(const struct jail_launcher *l)
{
    struct tn_proc it;

    assert_int_equal(recv(l->socket, &it, sizeof it, MSG_PEEK), sizeof it);
    return it;
}

static void await_end(const struct tn_proc *p)
{
    tn_autofd int fd = (int)syscall(SYS_pidfd_open, p->pid, 0);
    struct pollfd end = {.fd = fd, .events = POLLIN};

    if (tn_proc_lives(p->pid, p->start))
        assert_int_equal(poll(&end, 1, SECONDS * 1000), 1);
}

static void test_not_needed(void **state)
{
    expect_one();
    struct tn_proc launcher = process_of(&engine.early);
    jail_launcher_expect_none(&engine);
    await_end(&launcher);
    assert_nobody_is_left();
    jail_launcher_expect(&engine);
    jail_launcher_expect_none(&engine); /* before it has come */
    assert_int_equal(engine.early.socket, -1);
    assert_nobody_is_left();
}

/* Who needs it does not start another one. */
static void test_needed_before_it_has_come(void **state)
{
    struct jail_launcher l = JAIL_LAUNCHER_NONE;
    struct tn_error err;

    jail_launcher_expect(&engine);
    assert_int_equal(start("refuse", &l, &err), 0);
    assert_int_equal(engine.early.socket, -1);
    assert_refusal(&l);
    assert_false(engine.early_comes);
    assert_int_equal(engine.early.socket, -1);
}

static void test_dead_before_it_was_needed(void **state)
{
    struct jail_launcher l = JAIL_LAUNCHER_NONE;
    struct tn_error err;

    expect_one();
    struct tn_proc launcher = process_of(&engine.early);
    kill(launcher.pid, SIGKILL);
    struct pollfd end = {.fd =
                             engine.early.socket}; /* who has forked it may have it a bit longer */
    assert_int_equal(poll(&end, 1, SECONDS * 1000), 1);
    assert_int_equal(start("refuse", &l, &err), 0);
    assert_refusal(&l);
}

static void test_unheard(void **state)
{
    struct jail_launcher l = JAIL_LAUNCHER_NONE;
    jail_autoref struct jail_ref ref = {0};
    tn_autoplace struct tn_place place = {0};
    struct tn_error err;

    assert_int_equal(start("silent", &l, &err), 0);
    process_of(&l);
    assert_int_equal(jail_launcher_finish(&l, &ref, &place, tn_deadline_in(0.1), &err), -1);
    assert_int_equal(err.code, TN_E_TIMEOUT);
    jail_launcher_done(&l);
    assert_nobody_is_left();
    assert_int_equal(engine.turns.inside, 0);
}

static struct tn_proc expect_another(void)
{
    jail_launcher_expect_none(&engine);
    expect_one();
    return process_of(&engine.early);
}

/* Every launcher but the first is forked by one process, which is replaced when it dies, or when we
 * are somebody else. */
static void test_nursery(void **state)
{
    jail_nursery_done(&engine.nursery);
    jail_nursery_init(&engine.nursery);
    expect_another();
    assert_int_equal(engine.nursery.socket, -1);
    struct tn_proc second = expect_another();
    pid_t nursery = second.parent;
    struct tn_proc third = expect_another();
    assert_int_equal(third.parent, nursery);
    engine.nursery.user.uid++;
    struct tn_proc fourth = expect_another();
    assert_int_not_equal(fourth.parent, nursery);
    struct tn_proc other = {.pid = fourth.parent};
    assert_int_equal(tn_proc_get(other.pid, &other), 0);
    kill(other.pid, SIGKILL);
    await_end(&other);
    struct tn_proc fifth = expect_another();
    assert_int_not_equal(fifth.parent, other.pid);
    struct jail_launcher l = JAIL_LAUNCHER_NONE;
    struct tn_error err;
    assert_int_equal(start("refuse", &l, &err), 0);
    assert_refusal(&l);
}

static struct tn_proc parent_of(const struct tn_proc *p)
{
    struct tn_proc it;

    assert_int_equal(tn_proc_get(p->parent, &it), 0);
    return it;
}

static void assert_started_without_it(void)
{
    struct jail_launcher l = JAIL_LAUNCHER_NONE;
    struct tn_error err;

    if (start("refuse", &l, &err) < 0)
        fail_msg("%s", err.text);
    assert_refusal(&l);
}

/* What was asked of it, and it has not done yet, others do. */
static void test_nursery_that_does_nothing(void **state)
{
    expect_another();
    struct tn_proc launcher = expect_another(), nursery = parent_of(&launcher);

    jail_launcher_expect_none(&engine);
    kill(nursery.pid, SIGSTOP);
    jail_launcher_expect(&engine);
    kill(nursery.pid, SIGKILL);
    assert_started_without_it();
    await_end(&nursery);

    launcher = expect_another();
    nursery = parent_of(&launcher);
    jail_launcher_expect_none(&engine);
    kill(nursery.pid, SIGSTOP);
    jail_launcher_expect(&engine);
    assert_started_without_it();
    launcher = expect_another();
    assert_int_not_equal(launcher.parent, nursery.pid);
    kill(nursery.pid, SIGCONT); /* and it ends */
    await_end(&nursery);
}

/* A launcher that waits is of whom we were when it was started. */
static void test_another_user(void **state)
{
    struct tn_proc launcher = expect_another();

    engine.early.user.gid++;
    assert_started_without_it();
    await_end(&launcher);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--parcel") == 0)
        return be_a_launcher((int)strtol(argv[2], NULL, 10));
    if (argc == 3 && strcmp(argv[1], "--nursery") == 0)
        return be_a_nursery((int)strtol(argv[2], NULL, 10));
    char name[] = "/tmp/tendon-test-XXXXXX";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_needed),
        cmocka_unit_test(test_not_needed),
        cmocka_unit_test(test_needed_before_it_has_come),
        cmocka_unit_test(test_dead_before_it_was_needed),
        cmocka_unit_test(test_unheard),
        cmocka_unit_test(test_nursery),
        cmocka_unit_test(test_nursery_that_does_nothing),
        cmocka_unit_test(test_another_user),
    };

    directory = mkdtemp(name);
    engine.launcher = realpath("/proc/self/exe", NULL);
    engine.early = JAIL_LAUNCHER_NONE;
    pthread_mutex_init(&engine.early_lock, NULL);
    tn_cond_init(&engine.early_came);
    jail_turns_init(&engine.turns);
    jail_nursery_init(&engine.nursery);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    jail_nursery_done(&engine.nursery);
    jail_turns_done(&engine.turns);
    pthread_cond_destroy(&engine.early_came);
    pthread_mutex_destroy(&engine.early_lock);
    free(engine.launcher);
    tn_autofd int above = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    tn_fs_remove_tree(above, directory + strlen("/tmp/"), 0, NULL);
    return failed;
}
