#include "runtime/programs.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "base/clock.h"

enum { GIVEN_MAX = 4 };

static bool executable(const char *path)
{
    struct stat st;

    return !stat(path, &st) && S_ISREG(st.st_mode) && !access(path, X_OK);
}

/* Directory of this program, without the slash; on the heap, NULL when nobody knows. */
static char *own_directory(void)
{
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);

    if (n <= 0)
        return NULL;
    path[n] = '\0';
    *strrchr(path, '/') = '\0';
    return tn_strdup(path);
}

/* directory/name if that can be executed, else NULL. */
static char *program_in(const char *directory, size_t n, const char *name)
{
    tn_autofree char *path = tn_asprintf("%.*s/%s", (int)n, directory, name);

    return executable(path) ? TN_TAKE_PTR(path) : NULL;
}

static char *program_in_path(const char *name)
{
    const char *list = getenv("PATH");

    for (const char *p = list ? list : ""; *p;) {
        size_t n = strcspn(p, ":");
        char *found = n && *p == '/' ? program_in(p, n, name) : NULL;

        if (found)
            return found;
        p += n + (p[n] == ':');
    }
    return NULL;
}

char *tn_program_called(void)
{
    const char *slash = strrchr(program_invocation_name, '/');
    tn_autofree char *found = slash ? program_in_path(slash + 1) : NULL;
    struct stat there, here;
    bool same = found && !stat(found, &there) && !stat("/proc/self/exe", &here) &&
                there.st_dev == here.st_dev && there.st_ino == here.st_ino;

    return tn_strdup(same ? slash + 1 : program_invocation_name);
}

char *tn_program_find(const char *name, const char *given, struct tn_error *err)
{
    if (given) {
        char *path = executable(given) ? realpath(given, NULL) : NULL;
        if (!path)
            tn_fail(err, TN_E_NOT_FOUND, "%s: no program that can be executed", given);
        return path;
    }

    tn_autofree char *own = own_directory();
    tn_autofree char *lib = tn_asprintf("%s/../lib/tendon", own ? own : "");
    char *found = own ? program_in(own, strlen(own), name) : NULL;
    if (!found && own)
        found = program_in(lib, strlen(lib), name);
    if (!found)
        found = program_in_path(name);
    if (!found)
        tn_fail(err, TN_E_NOT_FOUND, "there is no %s in %s, in %s or in PATH", name,
                own ? own : "the directory of this program", own ? lib : "../lib/tendon");
    return found;
}

int tn_program_ask(const char *file, const char *const *argv, struct tn_buf *words,
                   int64_t deadline, struct tn_error *err)
{
    return tn_program_ask_with(file, argv, NULL, 0, words, deadline, err);
}

int tn_program_ask_with(const char *file, const char *const *argv, const struct tn_child_fd *given,
                        size_t count, struct tn_buf *words, int64_t deadline, struct tn_error *err)
{
    struct tn_child_fd fds[GIVEN_MAX + 2];
    struct tn_exit result;
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) < 0)
        return tn_fail_errno(err, errno, "pipe");
    tn_autofd int ours = ends[0], theirs = ends[1];
    assert(count <= GIVEN_MAX);
    fds[0] = (struct tn_child_fd){theirs, 1};
    fds[1] = (struct tn_child_fd){theirs, 2};
    for (size_t i = 0; i < count; i++)
        fds[2 + i] = given[i];
    tn_autochild struct tn_child *child =
        tn_child_start(&(struct tn_child_spec){.argv = argv,
                                               .file = file,
                                               .cwd = "/",
                                               .fds = fds,
                                               .fd_count = 2 + count,
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
