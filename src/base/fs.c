#include "base/fs.h"

#include <errno.h>
#include <limits.h>
#include <linux/openat2.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/fs-internal.h"

#define RACE_TRIES 64
#define CHUNK ((size_t)1 << 16)

int fs_openat2(int dir, const char *path, int flags, mode_t mode, uint64_t resolve)
{
    struct open_how how = {
        .flags = (uint64_t)flags | O_CLOEXEC | O_NOCTTY,
        .mode = flags & (O_CREAT | __O_TMPFILE) ? mode : 0,
        .resolve = resolve,
    };
    if (flags & O_PATH)
        how.flags &= ~(uint64_t)O_NOCTTY;
    /* EAGAIN: something was renamed under the walk, and the kernel could not exclude an escape. */
    for (int i = 0;; i++) {
        int fd = (int)syscall(SYS_openat2, dir, path, &how, sizeof how);
        if (fd >= 0 || (errno != EAGAIN && errno != EINTR) || i == RACE_TRIES)
            return fd;
    }
}

/* A seccomp filter older than openat2 may answer EPERM for it; then it does so for nonsense too. */
bool fs_openat2_missing(int sys)
{
    int saved = errno;
    bool missing = sys == ENOSYS;

    if (sys == EPERM)
        missing =
            syscall(SYS_openat2, -1, NULL, NULL, 0) < 0 && (errno == EPERM || errno == ENOSYS);
    errno = saved;
    return missing;
}

static int explain(int sys, int root, const char *path, struct tn_error *err)
{
    if (fs_openat2_missing(sys))
        return tn_fail(err, TN_E_UNSUPPORTED,
                       "%s: cannot be opened within its root: this needs the system call openat2 "
                       "(Linux 5.6 or later, and a seccomp filter that allows it)",
                       path);
    if (sys == EXDEV && root != TN_FS_ANYWHERE)
        return tn_fail(err, TN_E_DENIED, "%s: leads outside its root", path);
    return tn_fail_errno(err, sys, "%s", path);
}

int fs_open_quiet(int root, const char *path, int flags, mode_t mode)
{
    uint64_t resolve = RESOLVE_NO_MAGICLINKS;

    if (root != TN_FS_ANYWHERE)
        resolve |= RESOLVE_BENEATH;
    if (!path[0])
        path = ".";
    int fd = fs_openat2(root, path, flags, mode, resolve);
    /* "." leads nowhere else: no need of openat2 for that. */
    if (fd >= 0 || (root != TN_FS_ANYWHERE && strcmp(path, ".") != 0) || !fs_openat2_missing(errno))
        return fd;
    return openat(root, path, flags | O_CLOEXEC | O_NOCTTY, mode);
}

int tn_fs_open(int root, const char *path, int flags, mode_t mode, struct tn_error *err)
{
    int fd = fs_open_quiet(root, path, flags, mode);
    return fd >= 0 ? fd : explain(errno, root, path, err);
}

/* --- what a stranger may have put there ---------------------------------------------------- */

void tn_fs_fill_standard(int flags)
{
    int fd;

    do
        fd = open("/dev/null", flags);
    while (fd >= 0 && fd <= STDERR_FILENO);
    tn_close(fd);
}

const char *tn_fs_kind(mode_t mode)
{
    static const struct {
        mode_t type;
        const char *words;
    } kinds[] = {
        {S_IFREG, "a regular file"}, {S_IFDIR, "a directory"}, {S_IFLNK, "a symbolic link"},
        {S_IFIFO, "a FIFO"},         {S_IFSOCK, "a socket"},   {S_IFCHR, "a device"},
        {S_IFBLK, "a device"},
    };

    for (size_t i = 0; i < TN_COUNT(kinds); i++)
        if ((mode & S_IFMT) == kinds[i].type)
            return kinds[i].words;
    return "something else";
}

/* The file that handle stands for: looked at before it is opened, for opening a device acts. */
static int open_handle(int handle, const char *path, int flags, struct tn_error *err)
{
    struct stat st;
    char link[40];

    if (fstat(handle, &st) < 0)
        return tn_fail_errno(err, errno, "%s", path);
    if (!S_ISREG(st.st_mode))
        return tn_fail(err, TN_E_DENIED, "%s: expected a regular file, found %s", path,
                       tn_fs_kind(st.st_mode));
    snprintf(link, sizeof link, "/proc/self/fd/%d", handle);
    int fd = open(link, (flags & ~(O_CREAT | O_EXCL | O_NOFOLLOW)) | O_CLOEXEC | O_NOCTTY);
    return fd < 0 ? tn_fail_errno(err, errno, "%s", path) : fd;
}

int tn_fs_open_shared(const char *directory, const char *path, int flags, mode_t mode,
                      struct tn_error *err)
{
    const uint64_t resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
    tn_autofd int root = tn_fs_open(TN_FS_ANYWHERE, directory, O_PATH | O_DIRECTORY, 0, err);
    int made = -1;

    if (root < 0)
        return -1;
    for (int i = 0; i < RACE_TRIES; i++) {
        tn_autofd int handle = fs_openat2(root, path, O_PATH | O_NOFOLLOW, 0, resolve);
        if (handle >= 0) {
            int fd = open_handle(handle, path, flags, err);
            return fd >= 0 ? fd : tn_error_context(err, "%s", directory);
        }
        if (errno != ENOENT || !(flags & O_CREAT))
            break;
        made = fs_openat2(root, path, flags | O_EXCL | O_NOFOLLOW, mode, resolve);
        if (made >= 0 || errno != EEXIST) /* otherwise somebody was faster */
            break;
    }
    if (made >= 0)
        return made;
    explain(errno, root, path, err);
    return tn_error_context(err, "%s", directory);
}

/* --- directories --------------------------------------------------------------------------- */

/* Makes the last component of `path` in parent, and returns it opened. */
static int make_one(int root, int parent, const char *name, const char *path, mode_t mode,
                    tn_fs_made_fn made, void *ctx, struct tn_error *err)
{
    if (mkdirat(parent, name, mode) < 0) {
        if (errno != EEXIST)
            return tn_fail_errno(err, errno, "%s", path);
        return tn_fs_open(root, path, O_PATH | O_DIRECTORY, 0, err); /* somebody was faster */
    }
    tn_autofd int fd = openat(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return tn_fail_errno(err, errno, "%s", path);
    if (made && made(fd, path, ctx, err) < 0)
        return -1;
    return TN_TAKE_FD(fd);
}

int tn_fs_mkdirs(int root, const char *path, mode_t mode, tn_fs_made_fn made, void *ctx,
                 struct tn_error *err)
{
    int whole = fs_open_quiet(root, path, O_PATH | O_DIRECTORY, 0);
    if (whole >= 0)
        return whole;
    if (errno != ENOENT)
        return explain(errno, root, path, err);

    /* Each prefix is resolved from the root again: a link in the middle may lead up and sideways.
     */
    tn_autofree char *prefix = tn_strdup(path);
    tn_autofd int parent =
        tn_fs_open(root, path[0] == '/' ? "/" : ".", O_PATH | O_DIRECTORY, 0, err);
    if (parent < 0)
        return -1;
    for (char *start = prefix + strspn(prefix, "/"), *end; *start; start = end + strspn(end, "/")) {
        end = start + strcspn(start, "/");
        char rest = *end;
        *end = '\0';
        int fd = fs_open_quiet(root, prefix, O_PATH | O_DIRECTORY, 0);
        if (fd < 0 && errno == ENOENT && strcmp(start, "..") != 0)
            fd = make_one(root, parent, start, prefix, mode, made, ctx, err);
        else if (fd < 0)
            explain(errno, root, prefix, err);
        if (fd < 0)
            return -1;
        tn_close(parent);
        parent = fd;
        *end = rest;
    }
    return TN_TAKE_FD(parent);
}

/* --- whole files --------------------------------------------------------------------------- */

bool tn_fs_is_directory(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

int tn_fs_read_fd(int fd, struct tn_buf *out, struct tn_error *err)
{
    for (;;) {
        size_t left = out->max - out->len;
        size_t want = left < CHUNK ? left : CHUNK;
        char extra;
        char *to = want ? tn_buf_reserve(out, want) : &extra;
        if (!to)
            return tn_fail(err, TN_E_TOO_LARGE, "out of memory after %zu bytes", out->len);
        ssize_t n = read(fd, to, want ? want : 1);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return tn_fail_errno(err, errno, "read");
        if (n == 0)
            return 0;
        if (want == 0)
            return tn_fail(err, TN_E_TOO_LARGE, "larger than %zu bytes", out->max);
        tn_buf_grew(out, (size_t)n);
    }
}

int tn_fs_read(int root, const char *path, struct tn_buf *out, struct tn_error *err)
{
    struct stat st;
    /* O_NONBLOCK: opening a FIFO must not wait for its writer. */
    tn_autofd int fd = tn_fs_open(root, path, O_RDONLY | O_NONBLOCK, 0, err);

    if (fd < 0)
        return -1;
    if (fstat(fd, &st) < 0)
        return tn_fail_errno(err, errno, "%s", path);
    if (S_ISDIR(st.st_mode))
        return tn_fail_errno(err, EISDIR, "%s", path);
    if (!S_ISREG(st.st_mode))
        return tn_fail(err, TN_E_INVALID, "%s: not a regular file", path);
    return tn_fs_read_fd(fd, out, err) < 0 ? tn_error_context(err, "%s", path) : 0;
}

int tn_fs_write(int fd, const void *bytes, size_t n, struct tn_error *err)
{
    const char *at = bytes;

    while (n > 0) {
        ssize_t done = write(fd, at, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return tn_fail_errno(err, errno, "write");
        at += done;
        n -= (size_t)done;
    }
    return 0;
}

/* --- copying ------------------------------------------------------------------------------- */

static ssize_t copy_by_range(int from, int to, size_t n)
{
    return copy_file_range(from, NULL, to, NULL, n, 0);
}

static ssize_t copy_by_sendfile(int from, int to, size_t n)
{
    return sendfile(to, from, NULL, n);
}

static ssize_t copy_by_hand(int from, int to, size_t n)
{
    char chunk[CHUNK / 4];
    struct tn_error err = {0};
    ssize_t got = read(from, chunk, n < sizeof chunk ? n : sizeof chunk);

    if (got > 0 && tn_fs_write(to, chunk, (size_t)got, &err) < 0) {
        errno = err.sys;
        return -1;
    }
    return got;
}

int64_t tn_fs_copy(int from, int to, uint64_t most, struct tn_error *err)
{
    static ssize_t (*const ways[])(int, int, size_t) = {copy_by_range, copy_by_sendfile,
                                                        copy_by_hand};
    size_t way = 0;
    uint64_t done = 0;

    while (done < most) {
        size_t want = most - done < (uint64_t)1 << 30 ? (size_t)(most - done) : (size_t)1 << 30;
        ssize_t n = ways[way](from, to, want);
        bool last_way = way == TN_COUNT(ways) - 1;
        if (n > 0) {
            done += (uint64_t)n;
        } else if (n == 0 && (last_way || done > 0)) {
            break;
        } else if (n == 0 || (!last_way && errno != EINTR && errno != EIO && errno != ENOSPC)) {
            way++; /* not for this pair of files; files of /proc look empty to the first ways */
        } else if (errno != EINTR) {
            return tn_fail_errno(err, errno, "copy");
        }
    }
    return (int64_t)done;
}
