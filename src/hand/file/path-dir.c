#include "hand/file/path.h"

#include <fcntl.h>
#include <limits.h>

#include "hand/file/confine.h"

#define MAX_LINKS 40

/* Where the way through a path has got to. */
struct way {
    const struct tn_file_user *user;
    int fd;
    struct tn_buf rest; /* what is still to be walked */
    int links;
};

/* As the user where he may do it himself, so that there is nothing to hand over. */
static int make_one(const struct way *w, const char *name, struct tn_error *err)
{
    int r, sys;
    {
        tn_autoact struct tn_act_as as = {0};
        if (tn_file_act_as(&as, w->user, err))
            return -1;
        r = mkdirat(w->fd, name, 0755);
        sys = errno;
    }
    if (r && (sys == EACCES || sys == EPERM)) {
        r = mkdirat(w->fd, name, 0755);
        sys = errno;
        if (r == 0 && geteuid() == 0 &&
            fchownat(w->fd, name, w->user->uid, w->user->gid, AT_SYMLINK_NOFOLLOW))
            return tn_fail_errno(err, errno, "chown %s", name);
    }
    return r && sys != EEXIST ? tn_fail_errno(err, sys, "mkdir %s", name) : 0;
}

static void go(struct way *w, int fd)
{
    tn_close(w->fd);
    w->fd = fd;
}

static int follow(struct way *w, const char *name, int link, const struct stat *st,
                  struct tn_error *err)
{
    char target[PATH_MAX];

    if (++w->links > MAX_LINKS)
        return tn_fail_errno(err, ELOOP, "%s", name);
    if (st->st_uid != 0 && st->st_uid != geteuid()) {
        struct stat to;
        int fd = openat(w->fd, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &to)) {
            int sys = errno;
            tn_close(fd);
            return tn_fail_errno(err, sys, "%s", name);
        }
        go(w, fd);
        return to.st_uid == st->st_uid
                   ? 0
                   : tn_fail(err, TN_E_DENIED,
                             "%s is a symbolic link to a directory of another user", name);
    }
    ssize_t n = readlinkat(link, "", target, sizeof target - 1);
    if (n < 0)
        return tn_fail_errno(err, errno, "%s", name);
    target[n] = '\0';
    if (target[0] == '/')
        go(w, open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
    tn_autofree char *rest = tn_buf_take(&w->rest);
    if (tn_buf_puts(&w->rest, target) || tn_buf_putc(&w->rest, '/') || tn_buf_puts(&w->rest, rest))
        return tn_fail_errno(err, ENAMETOOLONG, "%s", name);
    return 0;
}

static int step(struct way *w, const char *name, struct tn_error *err)
{
    const int flags = O_PATH | O_NOFOLLOW | O_CLOEXEC;
    struct stat st;
    int fd = openat(w->fd, name, flags);

    if (fd < 0 && errno == ENOENT) {
        if (make_one(w, name, err))
            return -1;
        fd = openat(w->fd, name, flags);
    }
    if (fd < 0 || fstat(fd, &st)) {
        int sys = errno;
        tn_close(fd);
        return tn_fail_errno(err, sys, "%s", name);
    }
    if (S_ISDIR(st.st_mode)) {
        go(w, fd);
        return 0;
    }
    int r = S_ISLNK(st.st_mode) ? follow(w, name, fd, &st, err)
                                : tn_fail_errno(err, ENOTDIR, "%s", name);
    tn_close(fd);
    return r;
}

static int walk(struct way *w, struct tn_error *err)
{
    while (w->rest.len > 0) {
        const char *rest = tn_buf_str(&w->rest);
        size_t len = strcspn(rest, "/");
        tn_autofree char *name = tn_strndup(rest, len);
        tn_buf_eat(&w->rest, len + 1);
        if (len > 0 && strcmp(name, ".") != 0 && step(w, name, err))
            return -1;
    }
    return 0;
}

/* A confined server has no more rights than its user. */
static int open_confined(const char *path, struct tn_error *err)
{
    tn_autofd int made = tn_where_mkdirs(path, 0755, err);
    if (made < 0)
        return -1;
    int fd = openat(made, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? tn_fail_errno(err, errno, "%s", path) : fd;
}

int tn_file_open_destination(const char *path, const struct tn_file_user *user,
                             struct tn_error *err)
{
    if (tn_confined())
        return open_confined(path, err);
    struct way w = {.user = user,
                    .fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC),
                    .rest = TN_BUF_INIT((size_t)PATH_MAX * 8)};
    int fd = -1;

    tn_buf_puts(&w.rest, path);
    if (walk(&w, err) == 0) {
        fd = openat(w.fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
            tn_fail_errno(err, errno, "%s", path);
    }
    tn_close(w.fd);
    tn_buf_done(&w.rest);
    return fd;
}
