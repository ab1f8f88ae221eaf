/* Removing trees that somebody else filled.
 *
 * Every step works on an open directory and one name, so a directory swapped for a link is never
 * entered.  Only DEPTH_MAX descriptors are open at a time: what lies deeper is first renamed to the
 * top of the tree and taken on from there, however deep somebody nested it. */
#include <dirent.h>
#include <errno.h>
#include <linux/openat2.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "base/fs-internal.h"
#include "base/fs.h"

#define DEPTH_MAX 48

#define PASSES_MAX 100000

/* Somebody who goes on filling the tree is not raced for ever. */
#define LATE_MAX 100

struct removal {
    int top;        /* the directory being removed; deep ones are moved here */
    uint64_t nonce; /* names of the moved ones, which nobody can have taken before */
    unsigned moved; /* how many were */
    unsigned late;  /* directories that got something after they were listed */
    bool cross;     /* into other mounts too */
    dev_t device;   /* of the top */
    struct tn_error *err;
    bool failed;
};

static void remove_contents(struct removal *r, int fd, int depth, const char *path);

/* Keeps the first reason only. */
static void note(struct removal *r, int sys, const char *path, const char *name)
{
    if (r->failed)
        return;
    r->failed = true;
    if (sys == EXDEV)
        tn_fail(r->err, TN_E_CONFLICT, "%s/%s: something is mounted there", path, name);
    else
        tn_fail_errno(r->err, sys, "%s/%s", path, name);
}

/* One component is opened, and no link: safe on any kernel.  Only openat2 can tell a bind mount of
 * the same device from a directory; without it the device has to do. */
static int open_here(const struct removal *r, int dir, const char *name, int flags)
{
    flags |= O_DIRECTORY | O_NOFOLLOW;
    int fd = fs_openat2(dir, name, flags, 0, r->cross ? 0 : RESOLVE_NO_XDEV);
    if (fd >= 0 || !fs_openat2_missing(errno))
        return fd;
    struct stat st;
    fd = openat(dir, name, flags | O_CLOEXEC);
    if (fd >= 0 && !r->cross && (fstat(fd, &st) < 0 || st.st_dev != r->device)) {
        close(fd);
        errno = EXDEV;
        return -1;
    }
    return fd;
}

static int open_dir(const struct removal *r, int dir, const char *name)
{
    int fd = open_here(r, dir, name, O_RDONLY);
    if (fd >= 0 || errno != EACCES)
        return fd;
    /* Ours, but closed to us (module caches are like that): open it up, without following anything.
     */
    tn_autofd int handle = open_here(r, dir, name, O_PATH);
    char link[40];
    snprintf(link, sizeof link, "/proc/self/fd/%d", handle);
    if (handle < 0 || chmod(link, 0700) < 0) {
        errno = EACCES;
        return -1;
    }
    return open_here(r, dir, name, O_RDONLY);
}

static bool move_to_top(struct removal *r, int dir, const char *name)
{
    char fresh[64];
    snprintf(fresh, sizeof fresh, TN_FS_TEMP_PREFIX "%016llx-%u", (unsigned long long)r->nonce,
             ++r->moved);
    return renameat(dir, name, r->top, fresh) == 0;
}

/* What is no directory, or an empty one, at once.  The listing may be out of date. */
static bool remove_simple(int dir, const char *name, bool directory)
{
    if (directory && (unlinkat(dir, name, AT_REMOVEDIR) == 0 || errno == ENOENT))
        return true;
    if (directory && errno != ENOTDIR) {
        errno = EISDIR;
        return false;
    }
    return unlinkat(dir, name, 0) == 0 || errno == ENOENT;
}

static void remove_entry(struct removal *r, int dir, const struct dirent *entry, int depth,
                         const char *path)
{
    const char *name = entry->d_name;

    if (remove_simple(dir, name, entry->d_type == DT_DIR))
        return;
    if (errno != EISDIR && errno != EPERM) {
        note(r, errno, path, name);
        return;
    }
    tn_autofd int fd = open_dir(r, dir, name);
    if (fd < 0) {
        note(r, errno == ENOTDIR ? EPERM : errno, path, name);
        return;
    }
    if (depth >= DEPTH_MAX) {
        if (unlinkat(dir, name, AT_REMOVEDIR) < 0 && errno != ENOENT && !move_to_top(r, dir, name))
            note(r, errno, path, name);
        return;
    }
    tn_autofree char *below = tn_asprintf("%s/%s", path, name);
    remove_contents(r, TN_TAKE_FD(fd), depth + 1, below);
    if (unlinkat(dir, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
        return;
    if (errno == ENOTEMPTY && r->late < LATE_MAX && !r->failed)
        r->late++;
    else
        note(r, errno, path, name);
}

static bool is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* Owns fd. */
static void remove_contents(struct removal *r, int fd, int depth, const char *path)
{
    struct stat st;
    if (fstat(fd, &st) == 0 && (st.st_mode & 0300) != 0300)
        fchmod(fd, st.st_mode | 0700); /* when it is not ours the unlink will say so */
    DIR *dir = fdopendir(fd);
    if (!dir) {
        note(r, errno, path, ".");
        close(fd);
        return;
    }
    struct dirent *entry;
    while ((entry = readdir(dir)))
        if (!is_dots(entry->d_name))
            remove_entry(r, fd, entry, depth, path);
    closedir(dir);
}

/* What was moved up, and what came late, appears in the listing of the top, if not in this pass
 * then in the next. */
static int remove_all(struct removal *r, int dir, const char *name)
{
    for (int pass = 0; pass < PASSES_MAX; pass++) {
        unsigned moved = r->moved, late = r->late;
        int again = openat(r->top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (again < 0)
            return tn_fail_errno(r->err, errno, "%s", name);
        remove_contents(r, again, 0, name);
        if (r->moved != moved || r->late != late)
            continue;
        if (r->failed)
            return -1;
        if (unlinkat(dir, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
            return 0;
        if (errno != ENOTEMPTY || ++r->late > LATE_MAX)
            break;
    }
    return tn_fail_errno(r->err, errno, "%s", name);
}

int tn_fs_remove_tree(int dir, const char *name, unsigned flags, struct tn_error *err)
{
    struct stat st;
    struct removal r = {.cross = flags & TN_FS_CROSS_MOUNTS, .err = err};

    if (!name[0] || strchr(name, '/') || is_dots(name))
        return tn_fail(err, TN_E_INVALID, "remove: '%s' is not the name of one thing", name);
    if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
        return 0;
    int sys = errno;
    if (sys != EISDIR && sys != EPERM) /* EPERM: a directory, on some filesystems */
        return tn_fail_errno(err, sys, "%s", name);
    if (fstatat(dir, ".", &st, 0) < 0 || getrandom(&r.nonce, sizeof r.nonce, 0) != sizeof r.nonce)
        return tn_fail_errno(err, errno, "%s", name);
    r.device = st.st_dev;
    tn_autofd int top = open_dir(&r, dir, name);
    if (top < 0 && errno == EXDEV)
        return tn_fail(err, TN_E_CONFLICT, "%s: something is mounted there", name);
    if (top < 0)
        return tn_fail_errno(err, errno == ENOTDIR ? sys : errno, "%s", name);
    r.top = top;
    return remove_all(&r, dir, name);
}
