#include "cli/program.h"

#include <limits.h>
#include <signal.h>

#include "base/child.h"
#include "base/fs.h"

#define CHECK_SECONDS 30.0
#define DELETED " (deleted)"

struct own_program {
    char *path;
    char **words; /* of its command line, with room for one more; NULL at the end */
    size_t count;
};

static int read_path(struct own_program *p, struct tn_error *err)
{
    char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    size_t tail = sizeof DELETED - 1;

    if (n < 0)
        return tn_fail_errno(err, errno, "/proc/self/exe");
    path[n] = '\0';
    if ((size_t)n > tail && strcmp(path + n - tail, DELETED) == 0)
        path[(size_t)n - tail] = '\0'; /* its successor has the name by now */
    p->path = tn_strdup(path);
    return 0;
}

static int read_words(struct own_program *p, struct tn_error *err)
{
    tn_autobuf struct tn_buf line = TN_BUF_INIT(8u << 20);
    tn_autofd int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return tn_fail_errno(err, errno, "/proc/self/cmdline");
    if (tn_fs_read_fd(fd, &line, err) < 0)
        return -1;
    for (size_t at = 0; at < line.len; at += strlen(line.data + at) + 1)
        p->count++;
    p->words = tn_calloc(p->count + 2, sizeof *p->words);
    for (size_t at = 0, i = 0; at < line.len; at += strlen(line.data + at) + 1)
        p->words[i++] = tn_strdup(line.data + at);
    return 0;
}

struct own_program *own_program_here(struct tn_error *err)
{
    struct own_program *p = tn_calloc(1, sizeof *p);

    if (read_path(p, err) == 0 && read_words(p, err) == 0)
        return p;
    own_program_free(p);
    return NULL;
}

void own_program_free(struct own_program *p)
{
    if (!p)
        return;
    for (size_t i = 0; i < p->count; i++)
        free(p->words[i]);
    free(p->words);
    free(p->path);
    free(p);
}

int own_program_check(const struct own_program *p, struct tn_error *err)
{
    const struct tn_child_fd fds[] = {{.from = STDERR_FILENO, .to = STDERR_FILENO}};
    int64_t deadline = tn_deadline_in(CHECK_SECONDS);
    char check[] = "--check";
    struct tn_exit result;

    p->words[p->count] = check;
    tn_autochild struct tn_child *child =
        tn_child_start(&(struct tn_child_spec){.argv = (const char *const *)p->words,
                                               .file = p->path,
                                               .fds = fds,
                                               .fd_count = TN_COUNT(fds),
                                               .death_signal = SIGKILL,
                                               .deadline = deadline},
                       err);
    p->words[p->count] = NULL;
    if (!child)
        return -1;
    if (tn_child_wait(child, deadline, &result, err) < 0) {
        tn_child_signal(child, SIGKILL, NULL);
        return -1;
    }
    if (tn_exit_code(&result) != 0)
        return tn_fail(err, TN_E_INVALID, "%s --check ended with status %d", p->path,
                       tn_exit_code(&result));
    return 0;
}

void own_program_exec(const struct own_program *p, struct tn_error *err)
{
    execv(p->path, p->words);
    tn_fail_errno(err, errno, "%s", p->path);
}
