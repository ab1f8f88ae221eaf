#include "jail/tree-file.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/xattr.h>

#include "base/fs.h"

#define SMALL (128u << 10)

#define VALUE_MAX (64u << 10)

void tree_dir_ref(struct tree_dir *dir)
{
    __atomic_add_fetch(&dir->references, 1, __ATOMIC_RELAXED);
}

void tree_dir_unref(struct tree_dir *dir)
{
    if (__atomic_sub_fetch(&dir->references, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    tn_close(dir->fd);
    free(dir);
}

int tree_copy_owner(int to, const struct stat *st, const struct tree_self *self)
{
    if (self->uid != 0 || (st->st_uid == 0 && st->st_gid == self->gid))
        return 0;
    return fchown(to, st->st_uid, st->st_gid);
}

int tree_open_above(int fd, ino_t inode, struct tn_error *err)
{
    tn_autofd int above = openat(fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stat st;

    if (above < 0 || fstat(above, &st) < 0)
        return tn_fail_errno(err, errno, "..");
    if (st.st_ino != inode)
        return tn_fail(err, TN_E_CONFLICT, "it moved meanwhile");
    return TN_TAKE_FD(above);
}

/* --- attributes ----------------------------------------------------------------------------- */

/* The part after "trusted.overlay." or "user.overlay."; NULL for other attributes. */
static const char *overlay_part(const char *name)
{
    static const char *const prefixes[] = {"trusted.overlay.", "user.overlay."};

    for (size_t i = 0; i < TN_COUNT(prefixes); i++)
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
            return name + strlen(prefixes[i]);
    return NULL;
}

static bool only_of_upper(const char *part)
{
    static const char *const names[] = {"origin", "impure", "nlink", "upper", "uuid"};

    for (size_t i = 0; i < TN_COUNT(names); i++)
        if (strcmp(part, names[i]) == 0)
            return true;
    return false;
}

static int give_xattr(int fd, const char *name, tree_xattr_fn fn, void *ctx, struct tn_error *err)
{
    const char *part = overlay_part(name);
    tn_autofree char *value = NULL;

    if (part && only_of_upper(part))
        return 0;
    ssize_t n = fgetxattr(fd, name, NULL, 0);
    if (n > 0 && n <= (ssize_t)VALUE_MAX) {
        value = tn_malloc((size_t)n);
        n = fgetxattr(fd, name, value, (size_t)n);
    }
    if (n < 0 || n > (ssize_t)VALUE_MAX)
        return n < 0 && errno == ENODATA ? 0 : tn_fail_errno(err, errno, "attribute %s", name);
    const struct tree_xattr one = {
        .name = name, .value = value ? value : "", .size = (size_t)n, .structure = part != NULL};
    return fn(&one, ctx, err);
}

int tree_each_xattr(int fd, tree_xattr_fn fn, void *ctx, struct tn_error *err)
{
    char few[512];
    tn_autofree char *many = NULL;
    char *names = few;
    ssize_t n = flistxattr(fd, few, sizeof few);

    if (n < 0 && errno == ERANGE) {
        names = many = tn_malloc(XATTR_LIST_MAX);
        n = flistxattr(fd, many, XATTR_LIST_MAX);
    }
    if (n < 0)
        return errno == ENOTSUP ? 0 : tn_fail_errno(err, errno, "attributes");
    for (char *name = names; name < names + n; name += strlen(name) + 1)
        if (give_xattr(fd, name, fn, ctx, err) < 0)
            return -1;
    return 0;
}

static int set_xattr(const struct tree_xattr *x, void *ctx, struct tn_error *err)
{
    const int *to = ctx;

    if (fsetxattr(*to, x->name, x->value, x->size, 0) == 0)
        return 0;
    /* What a file system has no place for, or this user may not set, is lost. */
    if (!x->structure && (errno == ENOTSUP || errno == EPERM))
        return 0;
    return tn_fail_errno(err, errno, "attribute %s", x->name);
}

int tree_copy_xattrs(int from, int to, struct tn_error *err)
{
    return tree_each_xattr(from, set_xattr, &to, err);
}

/* --- content -------------------------------------------------------------------------------- */

static int copy_small(int from, int to, off_t size, struct tn_error *err)
{
    char bytes[16 << 10];

    for (off_t left = size; left > 0;) {
        ssize_t n = read(from, bytes, sizeof bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return tn_fail_errno(err, errno, "read");
        if (n == 0)
            return 0;
        if (tn_fs_write(to, bytes, (size_t)n, err) < 0)
            return -1;
        left -= n;
    }
    return 0;
}

/* Piece by piece, without the holes. */
static int copy_pieces(int from, int to, off_t size, struct tn_error *err)
{
    for (off_t at = 0; at < size;) {
        off_t data = lseek(from, at, SEEK_DATA);
        if (data < 0 && errno == ENXIO)
            break;
        off_t hole = data < 0 ? size : lseek(from, data, SEEK_HOLE);
        if (data < 0)
            data = at; /* a file system that does not tell */
        if (hole < 0 || lseek(from, data, SEEK_SET) < 0 || lseek(to, data, SEEK_SET) < 0)
            return tn_fail_errno(err, errno, "seek");
        int64_t n = tn_fs_copy(from, to, (uint64_t)(hole - data), err);
        if (n < 0)
            return -1;
        if (n == 0)
            break;
        at = data + n;
    }
    if (ftruncate(to, size) < 0)
        return tn_fail_errno(err, errno, "truncate");
    return 0;
}

static int copy_content(int from, int to, const struct stat *st, struct tn_error *err)
{
    bool sparse = (off_t)st->st_blocks * 512 < st->st_size;

    if (st->st_size == 0)
        return 0;
    if (st->st_size <= (off_t)SMALL && !sparse)
        return copy_small(from, to, st->st_size, err);
    if (ioctl(to, FICLONE, from) == 0)
        return 0;
    return copy_pieces(from, to, st->st_size, err);
}

static int fill(const struct tree_job *job, int from, struct tn_error *err)
{
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, job->st.st_mtim};

    if (copy_content(from, job->to, &job->st, err) < 0 || tree_copy_xattrs(from, job->to, err) < 0)
        return -1;
    if (tree_copy_owner(job->to, &job->st, job->self) < 0 ||
        (job->late_mode && fchmod(job->to, job->st.st_mode & 07777) < 0) ||
        futimens(job->to, times) < 0)
        return tn_fail_errno(err, errno, "copy");
    return 0;
}

int tree_fill(struct tree_job *job, struct tn_error *err)
{
    tn_autofd int from =
        openat(job->dir->fd, job->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    int r = from < 0 ? tn_fail_errno(err, errno, "open") : fill(job, from, err);

    if (r < 0)
        tn_error_context(err, "%s", job->name);
    tn_close(job->to);
    free(job->name);
    tree_dir_unref(job->dir);
    return r;
}
