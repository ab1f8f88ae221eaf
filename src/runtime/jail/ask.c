/* Programs of others that are asked something: what they print, and how they end. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>

#include "runtime/jail/jail.h"

int jail_ask_program(const char *file, const char *const *argv, struct tn_buf *words,
                     int64_t deadline, struct tn_error *err)
{
    struct tn_exit result;
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) < 0)
        return tn_fail_errno(err, errno, "pipe");
    tn_autofd int ours = ends[0], theirs = ends[1];
    const struct tn_child_fd fds[] = {{theirs, 1}, {theirs, 2}};
    tn_autochild struct tn_child *child =
        tn_child_start(&(struct tn_child_spec){.argv = argv,
                                               .file = file,
                                               .cwd = "/",
                                               .fds = fds,
                                               .fd_count = TN_COUNT(fds),
                                               .death_signal = SIGKILL},
                       err);
    if (!child)
        return -1;
    tn_close(TN_TAKE_FD(theirs));
    struct pollfd p = {.fd = ours, .events = POLLIN};
    for (ssize_t n = 1; n > 0;) {
        char *to = tn_buf_reserve(words, 4096);
        n = to && poll(&p, 1, tn_poll_ms(deadline)) > 0 ? read(ours, to, 4096) : 0;
        tn_buf_grew(words, n > 0 ? (size_t)n : 0);
    }
    if (tn_child_wait(child, deadline, &result, NULL) < 0) {
        tn_child_signal(child, SIGKILL, NULL);
        tn_child_wait(child, tn_deadline_in(1.0), NULL, NULL);
        return tn_fail(err, TN_E_TIMEOUT, "%s %s does not end", argv[0], argv[1]);
    }
    return tn_exit_code(&result);
}
