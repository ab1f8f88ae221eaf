#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>

#include "base/again.h"
#include "base/clock.h"
#include "base/file-lock.h"
#include "base/proc.h"

struct lockable {
    char path[64];
    int fd;
};

static void make(struct lockable *l)
{
    snprintf(l->path, sizeof l->path, "/tmp/tendon-test-lock-XXXXXX");
    l->fd = mkostemp(l->path, O_CLOEXEC);
    assert_true(l->fd >= 0);
}

static void end(struct lockable *l)
{
    close(l->fd);
    unlink(l->path);
}

/* A process that holds the lock until something can be read from `until`. */
static pid_t start_holder(const char *path, int until)
{
    int ready[2];
    char byte;

    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (flock(fd, LOCK_EX) || write(ready[1], "", 1) != 1)
            _exit(1);
        _exit(read(until, &byte, 1) != 1);
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return child;
}

static int end_holder(pid_t child)
{
    int status;

    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void test_nobody_else(void **state)
{
    struct lockable l;

    make(&l);
    int held = tn_file_lock(l.fd, 0, NULL);
    assert_int_equal(held, l.fd);
    tn_file_unlock(l.fd, held);
    end(&l);
}

static void test_deadline(void **state)
{
    struct tn_error err = {0};
    struct lockable l;
    int until[2];

    make(&l);
    assert_int_equal(pipe2(until, O_CLOEXEC), 0);
    pid_t child = start_holder(l.path, until[0]);
    assert_int_equal(tn_file_lock(l.fd, tn_deadline_in(0.01), &err), -1);
    assert_int_equal(err.code, TN_E_TIMEOUT);

    /* who gave up does not get it later: it is free for the next one */
    assert_int_equal(write(until[1], "", 1), 1);
    assert_int_equal(end_holder(child), 0);
    int held = tn_file_lock(l.fd, tn_deadline_in(60), &err);
    assert_true(held >= 0);
    tn_file_unlock(l.fd, held);
    close(until[0]);
    close(until[1]);
    end(&l);
}

static void test_wait(void **state)
{
    struct tn_error err = {0};
    struct lockable l;
    int until[2];

    make(&l);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(pipe2(until, O_CLOEXEC), 0);
        pid_t child = start_holder(l.path, until[0]);
        if (i % 2) /* it dies, or it ends */
            assert_int_equal(kill(child, SIGKILL), 0);
        else
            assert_int_equal(write(until[1], "", 1), 1);
        int held = tn_file_lock(l.fd, tn_deadline_in(60), &err);
        assert_true(held >= 0);

        /* it is ours, whichever descriptor holds it */
        int other = open(l.path, O_RDONLY | O_CLOEXEC);
        assert_int_equal(tn_file_lock(other, tn_deadline_in(0.001), &err), -1);
        tn_file_unlock(l.fd, held);
        int again = tn_file_lock(other, tn_deadline_in(60), &err);
        assert_true(again >= 0);
        tn_file_unlock(other, again);
        close(other);
        end_holder(child);
        close(until[0]);
        close(until[1]);
    }
    end(&l);
}

/* Gives the byte free without a sign, once the first thread waits for it. */
static void *open_byte(void *arg)
{
    struct flock range = {.l_type = F_UNLCK, .l_whence = SEEK_SET, .l_start = 7, .l_len = 1};
    int64_t deadline = tn_deadline_in(20);
    struct tn_proc me;

    if (tn_proc_get(getpid(), &me) < 0)
        return arg;
    while (tn_proc_state(me.pid, me.start) != 'S' && tn_look_again_in(1, deadline))
        ;
    return fcntl(*(int *)arg, F_OFD_SETLK, &range) < 0 ? arg : NULL;
}

/* The sign may come before the lock falls. */
static void test_byte_without_a_sign(void **state)
{
    struct tn_error err = {0};
    struct lockable l;
    pthread_t thread;
    void *failed;

    make(&l);
    int first = open(l.path, O_RDWR | O_CLOEXEC), second = open(l.path, O_RDWR | O_CLOEXEC);
    assert_int_equal(tn_byte_lock(first, 7, 0, &err), 0);
    assert_int_equal(tn_byte_lock(second, 8, 0, &err), 0);
    assert_int_equal(tn_byte_lock(second, 7, 0, &err), -1);
    assert_int_equal(tn_byte_lock(second, 7, tn_deadline_in(0.01), &err), -1);
    assert_int_equal(err.code, TN_E_BUSY);
    assert_int_equal(pthread_create(&thread, NULL, open_byte, &first), 0);
    assert_int_equal(tn_byte_lock(second, 7, tn_deadline_in(60), &err), 0);
    assert_int_equal(pthread_join(thread, &failed), 0);
    assert_null(failed);
    close(first);
    close(second);
    end(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nobody_else),
        cmocka_unit_test(test_deadline),
        cmocka_unit_test(test_wait),
        cmocka_unit_test(test_byte_without_a_sign),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
