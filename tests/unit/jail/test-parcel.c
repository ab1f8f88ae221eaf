#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "jail/parcel.h"

#define SOCKET 20 /* in the one who receives */

static ino_t inode_of(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 ? st.st_ino : 0;
}

/* In a process of its own, whose numbers are all free: what it finds under them. */
static int receive(int socket, const ino_t *expected, const int *numbers, size_t count)
{
    struct tn_error err = {0};

    if (dup2(socket, SOCKET) < 0)
        return 1;
    for (int fd = 3; fd < SOCKET; fd++)
        close(fd);
    close_range(SOCKET + 1, ~0U, 0);
    if (tn_parcel_receive(SOCKET, &err) != 1)
        return 2;
    for (size_t i = 0; i < count; i++)
        if (inode_of(numbers[i]) != expected[i] || !(fcntl(numbers[i], F_GETFD) & FD_CLOEXEC))
            return 3;
    int open_now = 0; /* nothing else is left over */
    for (int fd = 3; fd < 100; fd++)
        open_now += fcntl(fd, F_GETFD) >= 0;
    return open_now == (int)count + 1 ? 0 : 4;
}

static int in_child(int socket, const ino_t *expected, const int *numbers, size_t count)
{
    int status = -1;
    pid_t pid = fork();

    if (pid == 0)
        _exit(receive(socket, expected, numbers, count));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Each comes under its number, whatever numbers they happen to get on the way. */
static void test_numbers(void **state)
{
    static const int numbers[] = {5, 3, 4, 7, 6};
    ino_t expected[TN_COUNT(numbers)];
    struct tn_child_fd fds[TN_COUNT(numbers)];
    struct tn_error err;
    int pair[2], ends[2];

    assert_int_equal(tn_parcel_pair(pair, &err), 0);
    for (size_t i = 0; i < TN_COUNT(numbers); i++) {
        assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
        close(ends[1]);
        fds[i] = (struct tn_child_fd){.from = ends[0], .to = numbers[i]};
        expected[i] = inode_of(ends[0]);
    }
    assert_int_equal(tn_parcel_send(pair[0], fds, TN_COUNT(fds), &err), 0);
    assert_int_equal(in_child(pair[1], expected, numbers, TN_COUNT(numbers)), 0);
    for (size_t i = 0; i < TN_COUNT(numbers); i++)
        close(fds[i].from);
    close(pair[0]);
    close(pair[1]);
}

static void test_dismissed(void **state)
{
    struct tn_error err;
    int pair[2], number = 1;

    assert_int_equal(tn_parcel_pair(pair, &err), 0);
    assert_int_equal(send(pair[1], &number, sizeof number, 0), sizeof number);
    close(pair[0]); /* with something unread in it */
    assert_int_equal(tn_parcel_receive(pair[1], &err), 0);
    close(pair[1]);
}

/* Numbers that are the receiver's own, and packets that are no parcels. */
static void test_refused(void **state)
{
    static const int wrong[] = {0, 2, -1, SOCKET, SOCKET + 1};
    struct tn_error err;
    int pair[2];

    for (size_t i = 0; i < TN_COUNT(wrong); i++) {
        const struct tn_child_fd fds[] = {{.from = 0, .to = wrong[i]}};
        assert_int_equal(tn_parcel_pair(pair, &err), 0);
        assert_int_equal(tn_parcel_send(pair[0], fds, 1, &err), 0);
        assert_int_equal(in_child(pair[1], NULL, NULL, 0), 2);
        close(pair[0]);
        close(pair[1]);
    }
    assert_int_equal(tn_parcel_pair(pair, &err), 0);
    assert_int_equal(send(pair[0], "word", 4, 0), 4);
    assert_int_equal(tn_parcel_receive(pair[1], &err), -1);
    close(pair[0]);
    close(pair[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_dismissed),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
