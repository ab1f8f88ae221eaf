#include "hand/file/zip-read.h"

#include <fcntl.h>
#include <sys/statvfs.h>

#include "hand/file/zip-archive.h"
#include "hand/file/zip-merge.h"

#define CHUNK 65536

/* --- everything that can be known before writing -------------------------------------------- */

static int check_limits(const struct zip_archive *z, const struct tn_zip_limits *limits,
                        uint64_t bytes, uint64_t packed, struct tn_error *err)
{
    uint64_t size = zip_archive_size(z);

    if (bytes > limits->bytes)
        return tn_fail(err, TN_E_TOO_LARGE, "zip: its files have more than %llu bytes",
                       (unsigned long long)limits->bytes);
    if (limits->ratio && bytes > limits->free_bytes && bytes / limits->ratio > size)
        return tn_fail(err, TN_E_TOO_LARGE,
                       "zip: its files are more than %llu times larger than the archive",
                       (unsigned long long)limits->ratio);
    if (packed > size)
        return tn_fail(err, TN_E_INVALID, "zip: the archive is broken: its entries overlap");
    return 0;
}

static int check_room(int dest, uint64_t bytes, struct tn_error *err)
{
    struct statvfs fs;

    if (fstatvfs(dest, &fs) || fs.f_blocks == 0 || fs.f_frsize == 0)
        return 0;
    if (bytes / fs.f_frsize >= fs.f_bavail)
        return tn_fail_errno(err, ENOSPC, "zip: its files have %llu bytes",
                             (unsigned long long)bytes);
    return 0;
}

static int check(struct zip_archive *z, int dest, const struct tn_zip_limits *limits,
                 struct tn_error *err)
{
    struct zip_item item;
    uint64_t bytes = 0, packed = 0;
    int r;

    if (zip_archive_entries(z) > limits->entries)
        return tn_fail(err, TN_E_TOO_LARGE, "zip: more than %llu entries",
                       (unsigned long long)limits->entries);
    while ((r = zip_archive_next(z, &item, err)) > 0) {
        /* Each summand is far below 2^63 once the sums have passed check_limits. */
        if (item.size > limits->bytes || item.packed > zip_archive_size(z))
            return check_limits(z, limits, item.size, item.packed, err);
        bytes += item.size;
        packed += item.packed;
        if (check_limits(z, limits, bytes, packed, err))
            return -1;
    }
    return r < 0 ? -1 : check_room(dest, bytes, err);
}

/* --- unpacking into the staging directory -------------------------------------------------- */

static int give(int fd, const struct tn_file_user *user, mode_t mode, struct tn_error *err)
{
    if (geteuid() == 0 && fchown(fd, user->uid, user->gid))
        return tn_fail_errno(err, errno, "chown");
    return fchmod(fd, mode) ? tn_fail_errno(err, errno, "chmod") : 0;
}

/* Opens the directory `name` in dir, making it when it is not there. */
static int enter(int dir, const char *name, const struct tn_file_user *user, struct tn_error *err)
{
    int made = mkdirat(dir, name, 0700);
    if (made && errno != EEXIST)
        return tn_fail_errno(err, errno, "zip: %s", name);
    tn_autofd int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return tn_fail(err, TN_E_INVALID, "zip: %s is a file and a directory", name);
    if (made == 0 && give(fd, user, 0755, err))
        return -1;
    return TN_TAKE_FD(fd);
}

/* Opens the directory that the last part of path is in; *name points at that part. */
static int enter_parent(int top, char *path, const struct tn_file_user *user, char **name,
                        struct tn_error *err)
{
    int dir = openat(top, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);

    for (char *slash; dir >= 0 && (slash = strchr(path, '/')); path = slash + 1) {
        *slash = '\0';
        int below = enter(dir, path, user, err);
        tn_close(dir);
        dir = below;
    }
    *name = path;
    return dir;
}

static int unpack_file(struct zip_archive *z, int dir, const char *name,
                       const struct zip_item *item, const struct tn_file_user *user, char *chunk,
                       struct tn_error *err)
{
    tn_autofd int fd =
        openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    ssize_t n;

    if (fd < 0)
        return errno == EEXIST ? tn_fail(err, TN_E_INVALID, "zip: %s is there twice", name)
                               : tn_fail_errno(err, errno, "zip: %s", name);
    while ((n = zip_archive_read(z, chunk, CHUNK, err)) > 0)
        if (tn_fs_write(fd, chunk, (size_t)n, err))
            return tn_error_context(err, "zip: %s", name);
    /* Without permission bits in the archive: the usual ones.  Its owner can always change a file.
     */
    mode_t mode = item->mode ? item->mode | 0600 : 0644;
    return n < 0 ? tn_error_context(err, "%s", name) : give(fd, user, mode, err);
}

static int unpack(struct zip_archive *z, int top, const struct tn_file_user *user,
                  struct tn_error *err)
{
    tn_autofree char *chunk = tn_malloc(CHUNK);
    struct zip_item item;
    int r;

    zip_archive_rewind(z);
    while ((r = zip_archive_next(z, &item, err)) > 0) {
        tn_autofree char *path = tn_strdup(item.name);
        char *name;
        tn_autofd int dir = enter_parent(top, path, user, &name, err);
        if (dir < 0)
            return -1;
        if (!item.is_dir) {
            if (unpack_file(z, dir, name, &item, user, chunk, err))
                return -1;
            continue;
        }
        tn_autofd int made = enter(dir, name, user, err);
        if (made < 0)
            return -1;
    }
    return r;
}

int tn_zip_unpack(int archive, int dest, const char *staging, const struct tn_file_user *user,
                  const struct tn_zip_limits *limits, struct tn_error *err)
{
    struct zip_archive *z = zip_archive_open(archive, err);
    int top = -1, r = -1;

    if (!z)
        return -1;
    if (check(z, dest, limits, err) == 0) {
        if (mkdirat(dest, staging, 0700) == 0)
            top = openat(dest, staging, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        r = top < 0 ? tn_fail_errno(err, errno, "zip: %s", staging) : 0;
    }
    if (r == 0)
        r = unpack(z, top, user, err) || zip_merge_check(top, dest, err) ||
                    zip_merge(top, dest, err)
                ? -1
                : 0;
    if (top >= 0)
        tn_fs_remove_tree(dest, staging, 0, NULL);
    tn_close(top);
    zip_archive_close(z);
    return r;
}
