/* Replacing a file as a whole: a nameless file is written, given the attributes of the old one, and
 * only then given a name - a temporary one, because a link cannot replace, and at last the real
 * one. */
#include <errno.h>
#include <limits.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "base/fs-internal.h"
#include "base/fs.h"

#define LINKS_MAX 40
#define XATTR_MAX 65536

struct replacement {
    const struct tn_fs_replace *how;
    const char *path; /* as the caller spelled it, for messages */
    int dir;          /* O_PATH: where the file really is */
    char *name;
    struct stat old; /* when `exists` */
    bool exists;
    int old_fd; /* open for writing, unless it is being executed; -1 when new */
    bool executed;
    int temp_fd;
    char *temp;      /* name in dir, when it has one */
    char *announced; /* absolute path that the journal was told */
};

static void replacement_done(struct replacement *r)
{
    tn_close(r->dir);
    tn_close(r->old_fd);
    tn_close(r->temp_fd);
    free(r->name);
    free(r->temp);
    free(r->announced);
}

/* --- finding the file ---------------------------------------------------------------------- */

/* The target of the link `name` in dir as a path from the root, or NULL with errno (EINVAL: no
 * link). */
static char *follow(int dir, const char *parent, const char *name)
{
    char target[PATH_MAX];
    ssize_t n = readlinkat(dir, name, target, sizeof target - 1);

    if (n < 0)
        return NULL;
    target[n] = '\0';
    if (target[0] == '/')
        return tn_strdup(target);
    return tn_asprintf("%s/%s", parent, target);
}

/* Walks links at the end of the path, so that the last name is the file itself. */
static int resolve(struct replacement *r, int root, struct tn_error *err)
{
    tn_autofree char *path = tn_strdup(r->path);

    for (int i = 0; i < LINKS_MAX; i++) {
        char *slash = strrchr(path, '/');
        const char *name = slash ? slash + 1 : path;
        tn_autofree char *parent = slash == path ? tn_strdup("/")
                                   : slash       ? tn_strndup(path, (size_t)(slash - path))
                                                 : tn_strdup(".");
        if (!name[0] || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
            return tn_fail_errno(err, EISDIR, "%s", r->path);
        tn_close(r->dir);
        r->dir = tn_fs_open(root, parent, O_PATH | O_DIRECTORY, 0, err);
        if (r->dir < 0)
            return -1;
        char *target = follow(r->dir, parent, name);
        if (!target) {
            r->name = tn_strdup(name);
            return errno == EINVAL || errno == ENOENT ? 0
                                                      : tn_fail_errno(err, errno, "%s", r->path);
        }
        free(path);
        path = target;
    }
    return tn_fail_errno(err, ELOOP, "%s", r->path);
}

static int check_regular(const struct replacement *r, mode_t mode, struct tn_error *err)
{
    if (S_ISREG(mode))
        return 0;
    if (S_ISDIR(mode))
        return tn_fail_errno(err, EISDIR, "%s", r->path);
    return tn_fail(err, TN_E_INVALID, "%s: not a regular file", r->path);
}

/* Opening for writing is also the question whether we may: being able to write to the directory is
 * not a licence to replace a file that its owner protected. */
static int inspect_old(struct replacement *r, struct tn_error *err)
{
    if (fstatat(r->dir, r->name, &r->old, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : tn_fail_errno(err, errno, "%s", r->path);
    if (check_regular(r, r->old.st_mode, err) < 0)
        return -1;
    r->exists = true;
    const int flags = O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
    r->old_fd = openat(r->dir, r->name, O_WRONLY | flags);
    r->executed = r->old_fd < 0 && errno == ETXTBSY;
    if (r->executed)
        r->old_fd = openat(r->dir, r->name, O_RDONLY | flags);
    if (r->old_fd < 0)
        return tn_fail_errno(err, errno, "%s", r->path);
    if (fstat(r->old_fd, &r->old) < 0)
        return tn_fail_errno(err, errno, "%s", r->path);
    return check_regular(r, r->old.st_mode, err);
}

/* --- the temporary file -------------------------------------------------------------------- */

static void withdraw(struct replacement *r)
{
    if (r->announced && r->how->journal)
        r->how->journal->withdraw(r->how->journal->ctx, r->announced);
    free(r->announced);
    r->announced = NULL;
}

/* Invents the temporary name and tells the journal, before anything has that name. */
static int announce(struct replacement *r, struct tn_error *err)
{
    uint64_t number;
    char link[40], dir[PATH_MAX];

    if (getrandom(&number, sizeof number, 0) != sizeof number)
        return tn_fail_errno(err, errno, "getrandom");
    r->temp = tn_asprintf(TN_FS_TEMP_PREFIX "%016llx", (unsigned long long)number);
    if (!r->how->journal)
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", r->dir);
    ssize_t n = readlink(link, dir, sizeof dir - 1);
    if (n < 0)
        return tn_fail_errno(err, errno, "%s: cannot tell the path of its directory", r->path);
    dir[n] = '\0';
    tn_autofree char *path = tn_asprintf("%s/%s", strcmp(dir, "/") == 0 ? "" : dir, r->temp);
    if (r->how->journal->announce(r->how->journal->ctx, path, err) < 0)
        return -1;
    r->announced = TN_TAKE_PTR(path);
    return 0;
}

static void drop_temp(struct replacement *r)
{
    if (r->temp)
        unlinkat(r->dir, r->temp, 0);
    withdraw(r);
    free(r->temp);
    r->temp = NULL;
}

/* 0, or -1 with the reason; errno-like reason also in err->sys. */
static int make_temp(struct replacement *r, struct tn_error *err)
{
    mode_t mode = r->exists ? 0600 : r->how->mode;

    r->temp_fd = openat(r->dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, mode);
    if (r->temp_fd >= 0)
        return 0;
    if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL && errno != ENOENT)
        return tn_fail_errno(err, errno, "%s: temporary file beside it", r->path);
    if (announce(r, err) < 0)
        return -1;
    r->temp_fd = openat(r->dir, r->temp, O_CREAT | O_EXCL | O_RDWR | O_NOFOLLOW | O_CLOEXEC, mode);
    if (r->temp_fd >= 0)
        return 0;
    int sys = errno;
    drop_temp(r);
    return tn_fail_errno(err, sys, "%s: temporary file beside it", r->path);
}

static bool is_owners(const char *attribute)
{
    return strncmp(attribute, "user.", 5) == 0 || strncmp(attribute, "system.posix_acl_", 17) == 0;
}

static int copy_xattr(int from, int to, const char *name)
{
    tn_autofree char *value = tn_malloc(XATTR_MAX);
    ssize_t n = fgetxattr(from, name, value, XATTR_MAX);

    if (n >= 0 && fsetxattr(to, name, value, (size_t)n, 0) == 0)
        return 0;
    /* Labels and privileges that only the system may give stay behind.  What belongs to the file's
     * owner does not: where a filter of system calls refuses it the old file has to stay. */
    if (errno == EOPNOTSUPP)
        return is_owners(name) ? -1 : 0;
    return errno == EPERM || errno == EACCES || errno == ENODATA ? 0 : -1;
}

static int copy_xattrs(int from, int to)
{
    tn_autofree char *names = tn_malloc(XATTR_MAX);
    ssize_t n = flistxattr(from, names, XATTR_MAX);

    if (n < 0)
        return errno == EOPNOTSUPP || errno == EPERM ? 0 : -1;
    for (const char *name = names; name < names + n; name += strlen(name) + 1)
        if (copy_xattr(from, to, name) < 0)
            return -1;
    return 0;
}

/* Owner first: changing it clears set-id bits, and an access list belongs to the mode. */
static int keep_attributes(struct replacement *r, struct tn_error *err)
{
    struct stat now;

    if (fstat(r->temp_fd, &now) < 0)
        return tn_fail_errno(err, errno, "%s", r->path);
    if ((now.st_uid != r->old.st_uid || now.st_gid != r->old.st_gid) &&
        fchown(r->temp_fd, r->old.st_uid, r->old.st_gid) < 0)
        return tn_fail_errno(err, errno, "%s: its owner cannot be kept", r->path);
    if (copy_xattrs(r->old_fd, r->temp_fd) < 0)
        return tn_fail_errno(err, errno, "%s: its extended attributes cannot be kept", r->path);
    if (fchmod(r->temp_fd, r->old.st_mode & 07777) < 0)
        return tn_fail_errno(err, errno, "%s: its mode cannot be kept", r->path);
    return 0;
}

/* Gives the nameless file a name in dir. */
static int link_temp(const struct replacement *r, const char *name)
{
    char link[40];
    snprintf(link, sizeof link, "/proc/self/fd/%d", r->temp_fd);
    if (linkat(AT_FDCWD, link, r->dir, name, AT_SYMLINK_FOLLOW) == 0)
        return 0;
    if (errno != ENOENT) /* no /proc */
        return -1;
    return linkat(r->temp_fd, "", r->dir, name, AT_EMPTY_PATH);
}

static int publish(struct replacement *r, struct tn_error *err)
{
    if (!r->temp) {
        if (!r->exists && link_temp(r, r->name) == 0)
            return 0;
        if (announce(r, err) < 0)
            return -1;
        if (link_temp(r, r->temp) < 0) {
            int sys = errno;
            drop_temp(r);
            return tn_fail_errno(err, sys, "%s: temporary file beside it", r->path);
        }
    }
    if (renameat(r->dir, r->temp, r->dir, r->name) < 0) {
        int sys = errno;
        drop_temp(r);
        return tn_fail_errno(err, sys, "%s: cannot be replaced", r->path);
    }
    withdraw(r);
    free(r->temp);
    r->temp = NULL;
    return 0;
}

static int sync_dir(const struct replacement *r, struct tn_error *err)
{
    tn_autofd int dir = openat(r->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    /* A directory that cannot be read cannot be synced; the file itself was. */
    if (dir >= 0 && fsync(dir) < 0 && errno != EINVAL && errno != EROFS)
        return tn_fail_errno(err, errno, "%s: sync of its directory", r->path);
    return 0;
}

/* --- in place ------------------------------------------------------------------------------ */

/* The old file gets its new end last: what fails halfway loses as little as possible. */
static int finish_in_place(struct replacement *r, struct tn_error *err)
{
    off_t end = lseek(r->old_fd, 0, SEEK_CUR);
    if (end >= 0 && ftruncate(r->old_fd, end) < 0 && r->old.st_size > 0)
        return tn_fail_errno(err, errno, "%s", r->path);
    if (r->how->sync && fsync(r->old_fd) < 0 && errno != EINVAL)
        return tn_fail_errno(err, errno, "%s: sync", r->path);
    return 0;
}

static bool may_go_in_place(const struct replacement *r, const struct tn_error *why)
{
    return r->how->in_place && r->old_fd >= 0 && !r->executed &&
           (why->sys == EACCES || why->sys == EPERM || why->sys == EBUSY || why->sys == EXDEV ||
            why->sys == EOPNOTSUPP);
}

static int copy_in_place(struct replacement *r, struct tn_error *err)
{
    if (lseek(r->temp_fd, 0, SEEK_SET) < 0)
        return tn_fail_errno(err, errno, "%s", r->path);
    if (tn_fs_copy(r->temp_fd, r->old_fd, UINT64_MAX, err) < 0)
        return tn_error_context(err, "%s", r->path);
    return finish_in_place(r, err);
}

/* --- all together -------------------------------------------------------------------------- */

/* The kernel knows the file that was written by no name: whoever waits for the end of a writer saw
 * only how a name came to be. */
static void end_as_writer(const struct replacement *r)
{
    tn_close(openat(r->dir, r->name, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
}

static int finish_temp(struct replacement *r, struct tn_error *err)
{
    if (r->exists && keep_attributes(r, err) < 0)
        return -1;
    if (r->how->sync && fsync(r->temp_fd) < 0)
        return tn_fail_errno(err, errno, "%s: sync", r->path);
    if (publish(r, err) < 0)
        return -1;
    if (r->how->announced)
        end_as_writer(r);
    return 0;
}

static int replace(struct replacement *r, int root, tn_fs_writer_fn writer, void *ctx,
                   struct tn_error *err)
{
    if (resolve(r, root, err) < 0 || inspect_old(r, err) < 0)
        return -1;
    if (make_temp(r, err) < 0) {
        if (!may_go_in_place(r, err))
            return -1;
        return writer(r->old_fd, ctx, err) < 0 ? -1 : finish_in_place(r, err);
    }
    if (writer(r->temp_fd, ctx, err) < 0)
        return -1;
    if (finish_temp(r, err) == 0)
        return r->how->sync ? sync_dir(r, err) : 0;
    return may_go_in_place(r, err) ? copy_in_place(r, err) : -1;
}

int tn_fs_replace(int root, const char *path, const struct tn_fs_replace *how,
                  tn_fs_writer_fn writer, void *ctx, struct tn_error *err)
{
    struct tn_error unused;
    struct replacement r = {.how = how, .path = path, .dir = -1, .old_fd = -1, .temp_fd = -1};

    int result = replace(&r, root, writer, ctx, err ? err : &unused);
    if (r.temp)
        drop_temp(&r);
    replacement_done(&r);
    return result;
}
