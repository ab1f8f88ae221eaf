#include <fcntl.h>
#include <poll.h>
#include <signal.h>

#include "base/child.h"

/* Reads both to their ends, at the latest until the deadline. */
static int read_both(const int *from, struct tn_buf *const *to, int64_t deadline)
{
    struct pollfd fds[] = {{.fd = from[0], .events = POLLIN}, {.fd = from[1], .events = POLLIN}};

    while (fds[0].fd >= 0 || fds[1].fd >= 0) {
        int ready = poll(fds, 2, tn_poll_ms(deadline));
        if (ready == 0)
            return -1;
        if (ready < 0)
            continue;
        for (int i = 0; i < 2; i++) {
            char piece[4096];
            ssize_t n = fds[i].revents ? read(fds[i].fd, piece, sizeof piece) : 1;
            if (fds[i].revents && n > 0)
                tn_buf_add(to[i], piece, (size_t)n);
            if (n <= 0)
                fds[i].fd = -1;
        }
    }
    return 0;
}

/* A child that ends what it was told, or is ended. */
static int see_out(struct tn_child *child, bool in_time, int64_t deadline, struct tn_error *err)
{
    struct tn_exit result = {.status = -1};

    if (in_time && tn_child_wait(child, deadline, &result, err) == 0)
        return tn_exit_code(&result);
    tn_child_signal_group(child, SIGKILL, NULL);
    tn_child_wait(child, tn_deadline_in(1), &result, NULL);
    return tn_fail(err, TN_E_TIMEOUT, "it did not end in time");
}

int tn_child_run(const char *const *argv, const char *const *env, const char *input,
                 struct tn_buf *out, struct tn_buf *complaints, int64_t deadline,
                 struct tn_error *err)
{
    int ends[3][2];
    tn_autofd int in_read = -1, in_write = -1, out_read = -1, out_write = -1, say_read = -1,
                  say_write = -1;
    int *const guards[3][2] = {
        {&in_read, &in_write}, {&out_read, &out_write}, {&say_read, &say_write}};

    for (int i = 0; i < 3; i++) {
        if (pipe2(ends[i], O_CLOEXEC) < 0)
            return tn_fail_errno(err, errno, "pipe");
        *guards[i][0] = ends[i][0];
        *guards[i][1] = ends[i][1];
    }
    const struct tn_child_fd fds[] = {{in_read, 0}, {out_write, 1}, {say_write, 2}};
    struct tn_child_spec spec = {.argv = argv,
                                 .env = env,
                                 .fds = fds,
                                 .fd_count = TN_COUNT(fds),
                                 .group = true,
                                 .deadline = deadline};
    tn_autochild struct tn_child *child = tn_child_start(&spec, err);
    if (!child)
        return -1;
    tn_close(TN_TAKE_FD(out_write));
    tn_close(TN_TAKE_FD(say_write));
    /* It fits in the pipe, of which this process has the reading end too: no SIGPIPE. */
    if (input && write(in_write, input, strlen(input)) < 0)
        return tn_fail_errno(err, errno, "pipe");
    tn_close(TN_TAKE_FD(in_read));
    tn_close(TN_TAKE_FD(in_write));
    const int from[] = {out_read, say_read};
    struct tn_buf *const to[] = {out, complaints};
    bool in_time = read_both(from, to, deadline) == 0;
    return see_out(child, in_time, deadline, err);
}
