#include "unit.h"

#include <pthread.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/thread.h"
#include "mcp/pipe.h"

enum { LINE_MAX = 1000, UNSENT_MAX = 1 << 20 };

struct fixture {
    int ours, theirs;
    struct tn_mcp_pipe *pipe;
    pthread_t thread;
    struct tn_buf lines;
    int result;
};

static void take_line(void *ctx, const char *text, size_t n)
{
    struct fixture *f = ctx;

    assert_true(!text || strlen(text) == n);
    tn_buf_printf(&f->lines, "[%s]", text ? text : "TOO LONG");
}

static void *run(void *arg)
{
    struct fixture *f = arg;
    f->result = tn_mcp_pipe_run(f->pipe, NULL);
    return NULL;
}

static void begin(struct fixture *f)
{
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    *f = (struct fixture){.ours = fds[0], .theirs = fds[1], .lines = TN_BUF_INIT(1 << 20)};
    f->pipe = tn_mcp_pipe_new(&(struct tn_mcp_pipe_options){
        .in = f->ours,
        .out = f->ours,
        .line_max = LINE_MAX,
        .unsent_max = UNSENT_MAX,
        .line = take_line,
        .ctx = f,
    });
    assert_int_equal(tn_thread_start(&f->thread, run, f), 0);
}

static void end(struct fixture *f)
{
    pthread_join(f->thread, NULL);
    tn_mcp_pipe_free(f->pipe);
    tn_buf_done(&f->lines);
    close(f->ours);
    tn_close(f->theirs);
}

static void test_lines(void **state)
{
    static const char input[] = "one\n\r\n\ntwo\r\nth";
    struct fixture f;

    begin(&f);
    for (size_t i = 0; i < sizeof input - 1; i++)
        assert_int_equal(write(f.theirs, input + i, 1), 1);
    assert_int_equal(write(f.theirs, "ree\nhalf", 8), 8);
    close(TN_TAKE_FD(f.theirs));
    pthread_join(f.thread, NULL);
    assert_int_equal(f.result, 0);
    assert_string_equal(tn_buf_str(&f.lines), "[one][two][three]");
    assert_int_equal(tn_thread_start(&f.thread, run, &f), 0); /* at its end at once */
    end(&f);
}

static void test_lines_too_long(void **state)
{
    char input[3 * LINE_MAX];
    struct fixture f;

    begin(&f);
    memset(input, 'x', sizeof input);
    input[LINE_MAX + 5] = '\n';
    assert_int_equal(write(f.theirs, input, sizeof input), sizeof input);
    assert_int_equal(write(f.theirs, "\nok\n", 4), 4);
    close(TN_TAKE_FD(f.theirs));
    pthread_join(f.thread, NULL);
    assert_string_equal(tn_buf_str(&f.lines), "[TOO LONG][TOO LONG][ok]");
    assert_int_equal(tn_thread_start(&f.thread, run, &f), 0);
    end(&f);
}

/* More than the socket holds is written by the thread that runs, in order. */
static void test_sending(void **state)
{
    char message[4096], got[4097];
    struct fixture f;

    begin(&f);
    for (int i = 0; i < 200; i++) {
        memset(message, 'a' + i % 26, sizeof message);
        assert_int_equal(
            tn_mcp_pipe_send(f.pipe, message, sizeof message, tn_deadline_in(30), NULL), 0);
    }
    for (int i = 0; i < 200; i++) {
        memset(message, 'a' + i % 26, sizeof message);
        for (size_t n = 0; n < sizeof got;) {
            ssize_t more = read(f.theirs, got + n, sizeof got - n);
            assert_true(more > 0);
            n += (size_t)more;
        }
        assert_memory_equal(got, message, sizeof message);
        assert_int_equal(got[sizeof message], '\n');
    }
    tn_mcp_pipe_stop(f.pipe);
    end(&f);
}

static void test_nobody_reads(void **state)
{
    tn_autofree char *big = tn_calloc(1, UNSENT_MAX);
    struct tn_error err;
    struct fixture f;

    begin(&f);
    memset(big, 'x', UNSENT_MAX);
    assert_int_equal(tn_mcp_pipe_send(f.pipe, big, UNSENT_MAX, 0, &err), -1);
    assert_int_equal(err.code, TN_E_TOO_LARGE);
    int result = 0;
    for (int i = 0; i < 100 && result == 0; i++)
        result = tn_mcp_pipe_send(f.pipe, big, UNSENT_MAX / 2, 0, &err);
    assert_int_equal(result, -1);
    assert_int_equal(err.code, TN_E_TIMEOUT);
    close(TN_TAKE_FD(f.theirs));
    pthread_join(f.thread, NULL);
    assert_int_equal(tn_thread_start(&f.thread, run, &f), 0);
    do
        result = tn_mcp_pipe_send(f.pipe, "x", 1, tn_deadline_in(30), &err);
    while (result == 0); /* may still be put in line behind what will never be written */
    assert_int_equal(err.code, TN_E_PEER);
    tn_mcp_pipe_stop(f.pipe);
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_lines_too_long),
        cmocka_unit_test(test_sending),
        cmocka_unit_test(test_nobody_reads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
