#include "image/folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "base/guard.h"

#define MAX_DEPTH 64

static int copy_directory(int from, int to, int depth, struct tn_error *err);

static int copy_file(int from, int to, const char *name, struct tn_error *err)
{
    tn_autofd int in = openat(from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat st;

    if (in < 0 || fstat(in, &st) < 0)
        return tn_fail_errno(err, errno, "%s", name);
    if (!S_ISREG(st.st_mode))
        return 0; /* exchanged since we looked */
    tn_autofd int out = openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (out < 0)
        return tn_fail_errno(err, errno, "%s", name);
    const struct timespec times[] = {st.st_atim, st.st_mtim};
    if (tn_fs_copy(in, out, UINT64_MAX, err) < 0)
        return -1;
    if (fchmod(out, st.st_mode & 07777) < 0 || futimens(out, times) < 0)
        return tn_fail_errno(err, errno, "%s", name);
    return 0;
}

static int copy_link(int from, int to, const char *name, struct tn_error *err)
{
    char target[4096];
    ssize_t n = readlinkat(from, name, target, sizeof target - 1);

    if (n < 0)
        return tn_fail_errno(err, errno, "%s", name);
    target[n] = '\0';
    return symlinkat(target, to, name) < 0 ? tn_fail_errno(err, errno, "%s", name) : 0;
}

static int copy_below(int from, int to, const char *name, mode_t mode, int depth,
                      struct tn_error *err)
{
    if (depth == MAX_DEPTH)
        return tn_fail(err, TN_E_TOO_LARGE, "%s: more than %d directories deep", name, MAX_DEPTH);
    if (mkdirat(to, name, 0700) < 0 && errno != EEXIST)
        return tn_fail_errno(err, errno, "%s", name);
    tn_autofd int in = openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    tn_autofd int out = openat(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (in < 0 || out < 0)
        return tn_fail_errno(err, errno, "%s", name);
    if (copy_directory(in, out, depth + 1, err) < 0)
        return tn_error_context(err, "%s", name);
    return fchmod(out, mode & 07777) < 0 ? tn_fail_errno(err, errno, "%s", name) : 0;
}

static int copy_one(int from, int to, const char *name, int depth, struct tn_error *err)
{
    struct stat st, old;

    if (depth == 0 && strcmp(name, "Dockerfile") == 0)
        return 0;
    if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : tn_fail_errno(err, errno, "%s", name);
    bool directory = S_ISDIR(st.st_mode);
    if (!directory && !S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode))
        return 0;
    bool merge =
        directory && fstatat(to, name, &old, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(old.st_mode);
    if (!merge && tn_fs_remove_tree(to, name, 0, err) < 0)
        return -1;
    if (directory)
        return copy_below(from, to, name, st.st_mode, depth, err);
    return S_ISLNK(st.st_mode) ? copy_link(from, to, name, err) : copy_file(from, to, name, err);
}

static int copy_directory(int from, int to, int depth, struct tn_error *err)
{
    DIR *dir = NULL;
    int copy = fcntl(from, F_DUPFD_CLOEXEC, 0), r = 0;

    if (copy < 0 || !(dir = fdopendir(copy))) {
        tn_close(copy);
        return tn_fail_errno(err, errno, "read");
    }
    while (r == 0) {
        errno = 0;
        const struct dirent *e = readdir(dir);
        if (!e) {
            r = errno ? tn_fail_errno(err, errno, "read") : 0;
            break;
        }
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            r = copy_one(from, to, e->d_name, depth, err);
    }
    closedir(dir);
    return r;
}

/* A folder within what is copied to it would never be complete. */
static int copy_context(const char *directory, int to, const char *context, struct tn_error *err)
{
    tn_autofree char *target = realpath(directory, NULL), *source = realpath(context, NULL);
    size_t n = source ? strlen(source) : 0;

    if (!source || !target)
        return tn_fail_errno(err, errno, "%s", source ? directory : context);
    if (strncmp(target, source, n) == 0 &&
        (target[n] == '/' || target[n] == '\0' || strcmp(source, "/") == 0))
        return tn_fail(err, TN_E_INVALID, "%s lies in the build context %s: choose another place",
                       directory, context);
    tn_autofd int from = open(source, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (from < 0)
        return tn_fail_errno(err, errno, "%s", context);
    return copy_directory(from, to, 0, err) < 0 ? tn_error_context(err, "build context %s", context)
                                                : 0;
}

static int write_text(int fd, void *ctx, struct tn_error *err)
{
    const char *text = ctx;

    return tn_fs_write(fd, text, strlen(text), err);
}

int tn_folder_write(const char *directory, const char *dockerfile, const char *context,
                    struct tn_error *err)
{
    const struct tn_fs_replace replace = {.mode = 0644};
    bool made = mkdir(directory, 0777) == 0;

    if (!made && errno != EEXIST)
        return tn_fail_errno(err, errno, "%s", directory);
    tn_autofd int dir = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return tn_fail_errno(err, errno, "%s", directory);
    if (context && copy_context(directory, dir, context, err) < 0) {
        if (made)
            rmdir(directory); /* if nothing is in it yet */
        return -1;
    }
    /* Last: where there is one, everything it needs is there. */
    return tn_fs_replace(dir, "Dockerfile", &replace, write_text, (void *)(uintptr_t)dockerfile,
                         err);
}
