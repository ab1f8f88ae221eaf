#include "base/fd-pass.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>
/* cmocka.h comes last */
#include <cmocka.h>

static int start(void **state)
{
    static int ends[2];

    *state = ends;
    return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends);
}

static int stop(void **state)
{
    const int *ends = *state;

    close(ends[0]);
    close(ends[1]);
    return 0;
}

/* The number that the next descriptor gets: all below are open. */
static int next_number(void)
{
    int fd = dup(STDIN_FILENO);

    close(fd);
    return fd;
}

static void test_one_comes_close_on_exec(void **state)
{
    const int *ends = *state;
    char byte = 0;
    int pipe_ends[2], got;
    size_t count = 1;

    assert_int_equal(pipe(pipe_ends), 0);
    assert_int_equal(tn_fd_send(ends[0], "c", 1, &pipe_ends[1], 1, 0), 1);
    close(pipe_ends[1]);
    assert_int_equal(tn_fd_receive(ends[1], &byte, 1, &got, &count, 0), 1);
    assert_int_equal(byte, 'c');
    assert_int_equal(count, 1);
    assert_int_equal(fcntl(got, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    assert_int_equal(write(got, "x", 1), 1);
    assert_int_equal(read(pipe_ends[0], &byte, 1), 1);
    close(got);
    close(pipe_ends[0]);
}

static void test_none_comes_with_bytes_alone(void **state)
{
    const int *ends = *state;
    char text[8];
    int got[2] = {7, 7}, none = -1;
    size_t count = 2;

    assert_int_equal(tn_fd_receive(ends[1], text, sizeof text, got, &count, MSG_DONTWAIT), -1);
    assert_int_equal(errno, EAGAIN);
    assert_int_equal(got[0], -1);
    count = 2;
    assert_int_equal(tn_fd_send(ends[0], "bytes", 5, &none, 0, 0), 5);
    assert_int_equal(tn_fd_receive(ends[1], text, sizeof text, got, &count, 0), 5);
    assert_int_equal(count, 0);
    assert_int_equal(got[1], -1);
}

static void test_what_does_not_fit_is_closed(void **state)
{
    const int *ends = *state;
    int many[TN_FD_PASS_MAX + 1], got, first = next_number();
    size_t count = 1;
    char byte;

    for (size_t i = 0; i < TN_FD_PASS_MAX + 1; i++)
        many[i] = STDIN_FILENO;
    assert_int_equal(tn_fd_send(ends[0], "c", 1, many, TN_FD_PASS_MAX, 0), 1);
    assert_int_equal(tn_fd_receive(ends[1], &byte, 1, &got, &count, 0), 1);
    assert_int_equal(count, 1);
    close(got);
    assert_int_equal(next_number(), first);
    /* half a packet is none */
    count = 1;
    assert_int_equal(tn_fd_send(ends[0], "two", 3, many, 1, 0), 3);
    assert_int_equal(tn_fd_receive(ends[1], &byte, 1, &got, &count, 0), -1);
    assert_int_equal(errno, EMSGSIZE);
    assert_int_equal(got, -1);
    assert_int_equal(next_number(), first);
    assert_int_equal(tn_fd_send(ends[0], "c", 1, many, TN_FD_PASS_MAX + 1, 0), -1);
    assert_int_equal(errno, EINVAL);
}

static void test_the_other_end_is_gone(void **state)
{
    int *ends = *state, got;
    size_t count = 1;
    char byte;

    close(ends[0]);
    assert_int_equal(tn_fd_receive(ends[1], &byte, 1, &got, &count, 0), 0);
    assert_int_equal(tn_fd_send(ends[1], "c", 1, NULL, 0, 0), -1);
    assert_int_equal(errno, EPIPE);
    ends[0] = dup(STDIN_FILENO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_one_comes_close_on_exec, start, stop),
        cmocka_unit_test_setup_teardown(test_none_comes_with_bytes_alone, start, stop),
        cmocka_unit_test_setup_teardown(test_what_does_not_fit_is_closed, start, stop),
        cmocka_unit_test_setup_teardown(test_the_other_end_is_gone, start, stop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
