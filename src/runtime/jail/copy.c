#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>

#include "base/fs.h"
#include "runtime/jail/jail.h"

#define FROM_FD 3
#define TO_FD 4
#define REPORT_FD 5

#define WORDS_MAX 1024

static int empty_directory(int dir, struct tn_error *err)
{
    int again = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = again < 0 ? NULL : fdopendir(again);
    int r = 0;

    if (!list) {
        tn_close(again);
        return tn_fail_errno(err, errno, "copy");
    }
    for (struct dirent *e; r == 0 && (e = readdir(list));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            r = tn_fs_remove_tree(dir, e->d_name, 0, err);
    closedir(list);
    return r;
}

/* Everything that comes until the pipe is closed. */
static int read_all(int fd, struct tn_buf *out, int64_t deadline)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    for (;;) {
        char *to = tn_buf_reserve(out, WORDS_MAX / 2);
        if (!to)
            return 0;
        if (poll(&p, 1, tn_poll_ms(deadline)) <= 0)
            return -1;
        ssize_t n = read(fd, to, WORDS_MAX / 2);
        if (n <= 0)
            return 0;
        tn_buf_grew(out, (size_t)n);
    }
}

static int listen_to(struct tn_child *child, int out, int report, int64_t deadline,
                     struct tn_tree_count *count, struct tn_error *err)
{
    tn_autobuf struct tn_buf words = TN_BUF_INIT(WORDS_MAX), numbers = TN_BUF_INIT(WORDS_MAX);
    struct tn_exit result;
    unsigned long long files = 0, bytes = 0;

    if (read_all(report, &words, deadline) < 0 || read_all(out, &numbers, deadline) < 0 ||
        tn_child_wait(child, deadline, &result, NULL) < 0) {
        tn_child_signal(child, SIGKILL, NULL);
        tn_child_wait(child, tn_deadline_in(2.0), NULL, NULL);
        return tn_fail(err, TN_E_TIMEOUT, "the time for copying is over");
    }
    if (tn_exit_code(&result) != 0) {
        const char *text = strchr(tn_buf_str(&words), ' ');
        return tn_fail(err, TN_E_IO, "%s", text ? text + 1 : "copying failed");
    }
    sscanf(tn_buf_str(&numbers), "%llu %llu", &files, &bytes);
    *count = (struct tn_tree_count){.files = files, .bytes = bytes};
    return 0;
}

/* In a process that is root over what belongs to this user. */
static int copy_as_root(const struct jail_engine *e, int from, int to, int64_t deadline,
                        struct tn_tree_count *count, struct tn_error *err)
{
    char seconds[32];
    int out[2], report[2];

    snprintf(seconds, sizeof seconds, "%.3f", (double)(deadline - tn_now()) / 1e9);
    const char *const argv[] = {JAIL_PROGRAM, "--copy", "3", "4", "5", seconds, NULL};
    if (pipe2(out, O_CLOEXEC) < 0)
        return tn_fail_errno(err, errno, "pipe");
    tn_autofd int numbers = out[0], numbers_end = out[1];
    if (pipe2(report, O_CLOEXEC) < 0)
        return tn_fail_errno(err, errno, "pipe");
    tn_autofd int words = report[0], words_end = report[1];
    const struct tn_child_fd fds[] = {
        {from, FROM_FD}, {to, TO_FD}, {words_end, REPORT_FD}, {numbers_end, 1}};
    tn_autochild struct tn_child *child =
        tn_child_start(&(struct tn_child_spec){.argv = argv,
                                               .file = e->launcher,
                                               .fds = fds,
                                               .fd_count = TN_COUNT(fds),
                                               .death_signal = SIGKILL,
                                               .deadline = deadline},
                       err);
    if (!child)
        return -1;
    tn_close(TN_TAKE_FD(numbers_end));
    tn_close(TN_TAKE_FD(words_end));
    return listen_to(child, numbers, words, deadline, count, err);
}

int jail_copy(const struct jail_engine *e, int from, int to, int64_t deadline,
              struct tn_tree_count *count, struct tn_error *err)
{
    struct tn_error why = {0};

    if (tn_tree_copy(from, to, deadline, count, &why) == 0)
        return 0;
    if (why.sys != EACCES || geteuid() == 0) {
        if (err)
            *err = why;
        return -1;
    }
    if (empty_directory(to, err) < 0)
        return -1;
    return copy_as_root(e, from, to, deadline, count, err);
}
