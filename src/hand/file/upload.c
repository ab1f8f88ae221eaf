#include "hand/file/upload.h"

#include <fcntl.h>

#include "hand/file/temp.h"

#define CHUNK 65536

static bool is_zip(const char *name)
{
    size_t n = strlen(name);
    return n >= 4 && strcmp(name + n - 4, ".zip") == 0;
}

static int pour(tn_source_fn source, void *ctx, int fd, struct tn_error *err)
{
    tn_autofree char *chunk = tn_malloc(CHUNK);
    ssize_t n;

    while ((n = source(ctx, chunk, CHUNK, err)) > 0)
        if (tn_fs_write(fd, chunk, (size_t)n, err))
            return -1;
    return n < 0 ? -1 : 0;
}

/* The new file gets what the old one had; without an old one it is the user's. */
static int dress(int fd, int dest, const char *name, const struct tn_file_user *user,
                 struct tn_error *err)
{
    struct stat old = {.st_uid = user->uid, .st_gid = user->gid, .st_mode = 0644};
    struct stat there;

    if (fstatat(dest, name, &there, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(there.st_mode))
        old = there;
    if (geteuid() == 0 && fchown(fd, old.st_uid, old.st_gid))
        return tn_fail_errno(err, errno, "chown %s", name);
    return fchmod(fd, old.st_mode & 0777) ? tn_fail_errno(err, errno, "chmod %s", name) : 0;
}

static int store(const struct tn_upload *u, const char *name, int dest, tn_source_fn source,
                 void *ctx, struct tn_error *err)
{
    struct temp temp;

    if (temp_announce(&temp, dest, u->user->journal, err))
        return -1;
    tn_autofd int fd =
        openat(dest, temp.name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    int r = fd < 0 ? tn_fail_errno(err, errno, "%s", u->destination) : 0;
    if (r == 0)
        r = pour(source, ctx, fd, err) || dress(fd, dest, name, u->user, err) ? -1 : 0;
    if (r == 0 && renameat(dest, temp.name, dest, name))
        r = tn_fail_errno(err, errno, "%s", name);
    if (r && fd >= 0)
        unlinkat(dest, temp.name, 0);
    temp_withdraw(&temp);
    return r;
}

static int unpack(const struct tn_upload *u, int dest, tn_source_fn source, void *ctx,
                  struct tn_error *err)
{
    static const struct tn_zip_limits usual = TN_ZIP_LIMITS_DEFAULT;
    struct temp staging;
    tn_autofd int archive = temp_unlinked(dest, err);

    if (archive < 0 || pour(source, ctx, archive, err))
        return -1;
    if (temp_announce(&staging, dest, u->user->journal, err))
        return -1;
    int r =
        tn_zip_unpack(archive, dest, staging.name, u->user, u->limits ? u->limits : &usual, err);
    temp_withdraw(&staging);
    return r;
}

int tn_upload(const struct tn_upload *u, tn_source_fn source, void *ctx, struct tn_error *err)
{
    const char *slash = strrchr(u->filename, '/');
    const char *name = slash ? slash + 1 : u->filename;

    if (u->destination[0] != '/')
        return tn_fail(err, TN_E_INVALID, "Destination must be an absolute path");
    if (u->recursive && !is_zip(name))
        return tn_fail(err, TN_E_INVALID, "Recursive uploads must be zip files");
    if (!name[0] || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return tn_fail(err, TN_E_INVALID, "The file has no usable name");
    tn_autofd int dest = tn_file_open_destination(u->destination, u->user, err);
    if (dest < 0)
        return -1;
    return is_zip(name) ? unpack(u, dest, source, ctx, err)
                        : store(u, name, dest, source, ctx, err);
}
