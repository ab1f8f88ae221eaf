#include "image/walk.h"

#include <fcntl.h>

#include "base/guard.h"

static int enter(struct tn_walk *w, int parent, const char *name, size_t path_len,
                 struct tn_error *err)
{
    tn_autofd int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0)
        return tn_fail_errno(err, errno, "build context %s", name);
    if (w->depth + 1 == TN_WALK_DEPTH)
        return tn_fail(err, TN_E_TOO_LARGE, "build context: more than %d directories deep at %s",
                       TN_WALK_DEPTH, w->path);
    DIR *dir = fdopendir(fd);
    if (!dir)
        return tn_fail_errno(err, errno, "build context %s", name);
    (void)TN_TAKE_FD(fd);
    w->depth++;
    w->levels[w->depth].dir = dir;
    w->levels[w->depth].path_len = path_len;
    w->levels[w->depth].st = w->st;
    return TN_WALK_DIRECTORY;
}

int tn_walk_init(struct tn_walk *w, const char *directory, struct tn_error *err)
{
    tn_autofree char *real = directory ? realpath(directory, NULL) : NULL;

    w->file = w->depth = -1;
    w->path[0] = '\0';
    w->st = (struct stat){0};
    if (!directory)
        return 0;
    if (!real)
        return tn_fail_errno(err, errno, "build context %s", directory);
    return enter(w, AT_FDCWD, real, 0, err) < 0 ? -1 : 0;
}

void tn_walk_done(struct tn_walk *w)
{
    for (; w->depth >= 0; w->depth--)
        closedir(w->levels[w->depth].dir);
    tn_close(TN_TAKE_FD(w->file));
}

static int read_target(struct tn_walk *w, int dir, const char *name, struct tn_error *err)
{
    ssize_t n = readlinkat(dir, name, w->target, sizeof w->target - 1);

    if (n < 0)
        return tn_fail_errno(err, errno, "build context %s", w->path);
    w->target[n] = '\0';
    return TN_WALK_LINK;
}

static int open_file(struct tn_walk *w, int dir, const char *name, struct tn_error *err)
{
    w->file = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (w->file < 0 || fstat(w->file, &w->st) < 0)
        return tn_fail_errno(err, errno, "build context %s", w->path);
    return S_ISREG(w->st.st_mode) ? TN_WALK_FILE : TN_WALK_END; /* exchanged since we looked */
}

/* TN_WALK_END: it is left out. */
static int look_at(struct tn_walk *w, const char *name, struct tn_error *err)
{
    size_t n = w->levels[w->depth].path_len;
    int dir = dirfd(w->levels[w->depth].dir);

    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
        (w->depth == 0 && strcmp(name, "Dockerfile") == 0))
        return TN_WALK_END;
    if (fstatat(dir, name, &w->st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? TN_WALK_END : tn_fail_errno(err, errno, "build context %s", name);
    n += (size_t)snprintf(w->path + n, sizeof w->path - n, "%s%s", n ? "/" : "", name);
    if (n + 1 >= sizeof w->path)
        return tn_fail(err, TN_E_TOO_LARGE, "build context: a path is longer than %d bytes",
                       TN_WALK_PATH);
    return S_ISLNK(w->st.st_mode)   ? read_target(w, dir, name, err)
           : S_ISREG(w->st.st_mode) ? open_file(w, dir, name, err)
           : S_ISDIR(w->st.st_mode) ? enter(w, dir, name, n, err)
                                    : TN_WALK_END;
}

int tn_walk_next(struct tn_walk *w, struct tn_error *err)
{
    while (w->depth >= 0) {
        tn_close(TN_TAKE_FD(w->file));
        errno = 0;
        const struct dirent *e = readdir(w->levels[w->depth].dir);
        if (!e && errno)
            return tn_fail_errno(err, errno, "build context %s", w->path);
        int kind = e ? look_at(w, e->d_name, err) : TN_WALK_LEFT;
        if (!e) {
            w->path[w->levels[w->depth].path_len] = '\0';
            w->st = w->levels[w->depth].st;
            closedir(w->levels[w->depth--].dir);
            if (w->depth < 0)
                break; /* the context itself is nobody's entry */
        }
        if (kind != TN_WALK_END)
            return kind;
    }
    return TN_WALK_END;
}
