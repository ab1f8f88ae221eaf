#include "hand/file/zip-merge.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/fs.h"

#define DIRECTORY (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

/* What happens to one name.  here is what `from` has, there what `to` has (NULL: nothing). */
typedef int (*visit_fn)(int from, int to, const char *name, const struct stat *here,
                        const struct stat *there, struct tn_error *err);

static void close_dir(DIR **dir)
{
    if (*dir)
        closedir(*dir);
}

static int each(int from, int to, visit_fn visit, struct tn_error *err)
{
    int again = openat(from, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    TN_CLEANUP(close_dir) DIR *dir = again < 0 ? NULL : fdopendir(again);

    if (!dir) {
        tn_close(again);
        return tn_fail_errno(err, errno, "unpack");
    }
    for (struct dirent *e; (e = readdir(dir));) {
        struct stat here, there;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        if (fstatat(from, e->d_name, &here, AT_SYMLINK_NOFOLLOW))
            return tn_fail_errno(err, errno, "%s", e->d_name);
        int r = fstatat(to, e->d_name, &there, AT_SYMLINK_NOFOLLOW);
        if (r && errno != ENOENT)
            return tn_fail_errno(err, errno, "%s", e->d_name);
        if (visit(from, to, e->d_name, &here, r ? NULL : &there, err))
            return -1;
    }
    return 0;
}

/* Both sides have the directory: on with what is in it. */
static int descend(int from, int to, const char *name, visit_fn visit, struct tn_error *err)
{
    tn_autofd int below_from = openat(from, name, DIRECTORY);
    tn_autofd int below_to = openat(to, name, DIRECTORY);

    if (below_from < 0 || below_to < 0)
        return tn_fail_errno(err, errno, "%s", name);
    return each(below_from, below_to, visit, err);
}

static int check(int from, int to, const char *name, const struct stat *here,
                 const struct stat *there, struct tn_error *err)
{
    if (!there)
        return 0;
    if (S_ISDIR(here->st_mode) && !S_ISDIR(there->st_mode))
        return tn_fail(err, TN_E_CONFLICT, "%s exists and is not a directory", name);
    if (!S_ISDIR(here->st_mode) && S_ISDIR(there->st_mode))
        return tn_fail(err, TN_E_CONFLICT, "%s exists and is a directory", name);
    return S_ISDIR(here->st_mode) ? descend(from, to, name, check, err) : 0;
}

int zip_merge_check(int from, int to, struct tn_error *err)
{
    return each(from, to, check, err);
}

struct source {
    int fd;
    const struct stat *st;
};

static int copy_contents(int fd, void *ctx, struct tn_error *err)
{
    const struct source *s = ctx;

    if (tn_fs_copy(s->fd, fd, UINT64_MAX, err) < 0)
        return -1;
    if (geteuid() == 0 && fchown(fd, s->st->st_uid, s->st->st_gid))
        return tn_fail_errno(err, errno, "chown");
    return fchmod(fd, s->st->st_mode & 0777) ? tn_fail_errno(err, errno, "chmod") : 0;
}

/* Something else is mounted below the destination: a rename cannot go there. */
static int copy_file(int from, int to, const char *name, const struct stat *st,
                     struct tn_error *err)
{
    tn_autofd int fd = openat(from, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    struct source source = {.fd = fd, .st = st};
    struct tn_fs_replace how = {.mode = 0600};

    if (fd < 0 || (unlinkat(to, name, 0) && errno != ENOENT))
        return tn_fail_errno(err, errno, "%s", name);
    return tn_fs_replace(to, name, &how, copy_contents, &source, err);
}

static int copy_dir(int from, int to, const char *name, const struct stat *st, struct tn_error *err)
{
    if (mkdirat(to, name, st->st_mode & 0777) ||
        (geteuid() == 0 && fchownat(to, name, st->st_uid, st->st_gid, AT_SYMLINK_NOFOLLOW)))
        return tn_fail_errno(err, errno, "%s", name);
    return 0;
}

static int move(int from, int to, const char *name, const struct stat *here,
                const struct stat *there, struct tn_error *err)
{
    bool both = there && S_ISDIR(here->st_mode) && S_ISDIR(there->st_mode);

    if (!both && renameat(from, name, to, name) == 0)
        return 0;
    if (!both && errno != EXDEV)
        return tn_fail_errno(err, errno, "%s", name);
    if (!S_ISDIR(here->st_mode))
        return copy_file(from, to, name, here, err);
    if (!both && copy_dir(from, to, name, here, err))
        return -1;
    return descend(from, to, name, move, err);
}

int zip_merge(int from, int to, struct tn_error *err)
{
    return each(from, to, move, err);
}
