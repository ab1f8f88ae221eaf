/* Copies a tree with everything an overlay needs: owners, modes, times, extended attributes, hard
 * links, and whiteouts, which are devices. */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "base/fs.h"
#include "jail/jail.h"

enum {
    NAMES_MAX = 64 << 10,
    VALUE_MAX = 64 << 10,
    DEPTH_MAX = 1000,
};

/* A file with several names, once copied. */
struct linked {
    dev_t device;
    ino_t inode;
    char *path; /* relative to the top of the copy */
};

struct copy {
    int top;
    struct linked *linked;
    size_t count;
    char names[NAMES_MAX], value[VALUE_MAX];
    struct tn_error *err;
};

static int copy_directory(struct copy *c, int from, int to, const char *path, int depth);

static int failed(struct copy *c, const char *path)
{
    return tn_fail_errno(c->err, errno, "copy %s", path);
}

/* --- attributes ---------------------------------------------------------------------------- */

/* Works for everything that can be opened by name, links too. */
static int copy_attributes(struct copy *c, int from, const char *name, int to, const char *path)
{
    tn_autofree char *source = tn_asprintf("/proc/self/fd/%d/%s", from, name);
    tn_autofree char *target = tn_asprintf("/proc/self/fd/%d/%s", to, name);
    ssize_t n = llistxattr(source, c->names, sizeof c->names);

    if (n < 0)
        return errno == ENOTSUP ? 0 : failed(c, path);
    for (const char *key = c->names; key < c->names + n; key += strlen(key) + 1) {
        ssize_t size = lgetxattr(source, key, c->value, sizeof c->value);
        if (size < 0 || lsetxattr(target, key, c->value, (size_t)size, 0) < 0)
            return failed(c, path);
    }
    return 0;
}

/* Owner first: changing it takes set-uid bits away. */
static int copy_stat(struct copy *c, int to, const char *name, const struct stat *st,
                     const char *path)
{
    const struct timespec times[] = {st->st_atim, st->st_mtim};

    if (fchownat(to, name, st->st_uid, st->st_gid, AT_SYMLINK_NOFOLLOW) < 0 ||
        (!S_ISLNK(st->st_mode) && fchmodat(to, name, st->st_mode & 07777, 0) < 0) ||
        utimensat(to, name, times, AT_SYMLINK_NOFOLLOW) < 0)
        return failed(c, path);
    return 0;
}

/* --- one of each kind ------------------------------------------------------------------------ */

static int copy_regular(struct copy *c, int from, int to, const char *name, const char *path)
{
    tn_autofd int source = openat(from, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    tn_autofd int target =
        openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

    if (source < 0 || target < 0)
        return failed(c, path);
    return tn_fs_copy(source, target, UINT64_MAX, c->err) < 0 ? -1 : 0;
}

static int copy_link(struct copy *c, int from, int to, const char *name, const char *path)
{
    char target[PATH_MAX];
    ssize_t n = readlinkat(from, name, target, sizeof target - 1);

    if (n < 0)
        return failed(c, path);
    target[n] = '\0';
    return symlinkat(target, to, name) < 0 ? failed(c, path) : 0;
}

static int copy_below(struct copy *c, int from, int to, const char *name, const char *path,
                      int depth)
{
    int source = openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (source < 0 || mkdirat(to, name, 0700) < 0) {
        tn_close(source);
        return failed(c, path);
    }
    tn_autofd int target = openat(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (target < 0) {
        tn_close(source);
        return failed(c, path);
    }
    return copy_directory(c, source, target, path, depth + 1);
}

/* True when this file was copied under another name and has been linked to it. */
static bool link_again(struct copy *c, int to, const char *name, const struct stat *st)
{
    for (size_t i = 0; i < c->count; i++)
        if (c->linked[i].inode == st->st_ino && c->linked[i].device == st->st_dev)
            return linkat(c->top, c->linked[i].path, to, name, 0) == 0;
    return false;
}

static void remember(struct copy *c, const struct stat *st, const char *path)
{
    c->linked = tn_realloc(c->linked, (c->count + 1) * sizeof *c->linked);
    c->linked[c->count++] =
        (struct linked){.device = st->st_dev, .inode = st->st_ino, .path = tn_strdup(path)};
}

static int copy_entry(struct copy *c, int from, int to, const char *name, const char *path,
                      int depth)
{
    struct stat st;
    int r;

    if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return failed(c, path);
    bool shared = !S_ISDIR(st.st_mode) && st.st_nlink > 1;
    if (shared && link_again(c, to, name, &st))
        return 0;
    if (S_ISREG(st.st_mode))
        r = copy_regular(c, from, to, name, path);
    else if (S_ISDIR(st.st_mode))
        r = copy_below(c, from, to, name, path, depth);
    else if (S_ISLNK(st.st_mode))
        r = copy_link(c, from, to, name, path);
    else
        r = mknodat(to, name, st.st_mode, st.st_rdev) < 0 ? failed(c, path) : 0;
    if (r < 0 || copy_attributes(c, from, name, to, path) < 0 ||
        copy_stat(c, to, name, &st, path) < 0)
        return -1;
    if (shared)
        remember(c, &st, path);
    return 0;
}

/* Owns from. */
static int copy_directory(struct copy *c, int from, int to, const char *path, int depth)
{
    DIR *dir = fdopendir(from);
    int r = depth > DEPTH_MAX ? tn_fail(c->err, TN_E_TOO_LARGE, "%s: nested too deep", path) : 0;

    if (!dir) {
        tn_close(from);
        return failed(c, path);
    }
    for (struct dirent *e; r == 0 && (e = readdir(dir));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        tn_autofree char *below =
            path[0] ? tn_asprintf("%s/%s", path, e->d_name) : tn_strdup(e->d_name);
        r = copy_entry(c, dirfd(dir), to, e->d_name, below, depth);
    }
    closedir(dir);
    return r;
}

int jail_copy_tree(int from, int to, struct tn_error *err)
{
    struct copy *c = tn_calloc(1, sizeof *c);
    int source = openat(from, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stat st;

    c->top = to;
    c->err = err;
    int r = source < 0 || fstat(source, &st) < 0 ? failed(c, "the top")
                                                 : copy_directory(c, source, to, "", 0);
    if (r == 0 && (fchown(to, st.st_uid, st.st_gid) < 0 || fchmod(to, st.st_mode & 07777) < 0))
        r = failed(c, "the top");
    for (size_t i = 0; i < c->count; i++)
        free(c->linked[i].path);
    free(c->linked);
    free(c);
    return r;
}
