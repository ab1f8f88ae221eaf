#include "image/folder.h"

#include <fcntl.h>

#include "base/fs.h"
#include "base/guard.h"
#include "image/walk.h"

static int copy_file(const struct tn_walk *w, int to, const char *name, struct tn_error *err)
{
    const struct timespec times[] = {w->st.st_atim, w->st.st_mtim};
    tn_autofd int out = openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    if (out >= 0 && tn_fs_copy(w->file, out, UINT64_MAX, err) < 0)
        return tn_error_context(err, "%s", w->path);
    return out < 0 || fchmod(out, w->st.st_mode & 07777) < 0 || futimens(out, times) < 0
               ? tn_fail_errno(err, errno, "%s", w->path)
               : 0;
}

/* What is there under the same name makes way, but for a directory that is to be filled. */
static int copy_one(const struct tn_walk *w, int kind, int top, struct tn_error *err)
{
    const char *slash = strrchr(w->path, '/'), *name = slash ? slash + 1 : w->path;
    tn_autofree char *folder = slash ? tn_strndup(w->path, (size_t)(slash - w->path)) : NULL;
    tn_autofd int to =
        openat(top, folder ? folder : ".", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat old;
    int r;

    if (to < 0)
        return tn_fail_errno(err, errno, "%s", folder);
    if (kind == TN_WALK_LEFT) { /* its mode comes last: it may be one that nothing can be made in */
        r = fchmodat(to, name, w->st.st_mode & 07777, 0);
        return r < 0 ? tn_fail_errno(err, errno, "%s", w->path) : 0;
    }
    bool merge = kind == TN_WALK_DIRECTORY && fstatat(to, name, &old, AT_SYMLINK_NOFOLLOW) == 0 &&
                 S_ISDIR(old.st_mode);
    if (!merge && tn_fs_remove_tree(to, name, 0, err) < 0)
        return -1;
    if (kind == TN_WALK_FILE)
        return copy_file(w, to, name, err);
    r = kind == TN_WALK_LINK ? symlinkat(w->target, to, name) : merge ? 0 : mkdirat(to, name, 0700);
    return r < 0 ? tn_fail_errno(err, errno, "%s", w->path) : 0;
}

static int copy_all(const char *context, int to, struct tn_error *err)
{
    struct tn_walk w;
    int kind = tn_walk_init(&w, context, err) < 0 ? -1 : tn_walk_next(&w, err);

    while (kind > TN_WALK_END)
        kind = copy_one(&w, kind, to, err) < 0 ? -1 : tn_walk_next(&w, err);
    tn_walk_done(&w);
    return kind;
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
    return copy_all(source, to, err);
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
