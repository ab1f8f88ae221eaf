#include "hand/file/confine.h"

#include <fcntl.h>

#include "base/fs.h"

#define ALIAS "/workspace"

static struct {
    int fd;
    char *path;  /* resolved */
    char *given; /* as messages name it */
} root = {.fd = -1};

int tn_confine(const char *directory, struct tn_error *err)
{
    tn_autofree char *real = realpath(directory, NULL);

    if (!real)
        return tn_fail_errno(err, errno, "confine files to %s", directory);
    tn_autofd int fd = tn_fs_open(TN_FS_ANYWHERE, real, O_PATH | O_DIRECTORY, 0, err);
    /* Better no start than the first file action telling that this kernel cannot do it. */
    tn_autofd int beneath = fd < 0 ? -1 : tn_fs_open(fd, ".", O_PATH | O_DIRECTORY, 0, err);
    if (beneath < 0)
        return tn_error_context(err, "confine files to %s", directory);
    root.fd = TN_TAKE_FD(fd);
    root.path = TN_TAKE_PTR(real);
    root.given = tn_strdup(directory);
    return 0;
}

bool tn_confined(void)
{
    return root.fd >= 0;
}

/* --- resolving ----------------------------------------------------------------------------- */

/* What follows the directory in the path, without slashes in front; NULL when it is not beneath. */
static const char *rest_after(const char *path, const char *directory)
{
    size_t n = strlen(directory);

    if (n == 1) /* the root of everything */
        return path + 1;
    if (strncmp(path, directory, n) != 0 || (path[n] && path[n] != '/'))
        return NULL;
    return path + n + strspn(path + n, "/");
}

/* The path with all links resolved in the part of it that exists; NULL when there is a ".." in the
 * rest, which then means nothing. */
static char *resolved(const char *path, enum tn_last last)
{
    tn_autofree char *head = tn_strdup(path);
    size_t cut = strlen(head); /* head ends here, tail begins */

    while (cut > 1 && head[cut - 1] == '/')
        cut--;
    for (size_t end = cut;;) {
        bool whole = cut == end;
        if (!whole || last == TN_LAST_FOLLOWED) {
            char before = head[cut];
            head[cut] = '\0';
            tn_autofree char *real = realpath(cut ? head : "/", NULL);
            head[cut] = before;
            if (real)
                return tn_asprintf("%s%.*s", strcmp(real, "/") == 0 && !whole ? "" : real,
                                   (int)(end - cut), path + cut);
        }
        size_t slash = cut;
        while (slash > 0 && head[slash - 1] != '/')
            slash--;
        if (slash == 0 || (cut - slash == 2 && memcmp(head + slash, "..", 2) == 0))
            return NULL;
        cut = slash - 1;
        while (cut > 0 && head[cut - 1] == '/')
            cut--;
    }
}

static int fail_outside(const char *path, struct tn_error *err)
{
    tn_fail(err, TN_E_DENIED, "Invalid path: %s. You can only work with files in %s.", path,
            root.given);
    if (err)
        err->sys = EACCES;
    return -1;
}

/* The rest beneath the root of an absolute path as it stands; NULL when it leads elsewhere. */
static char *beneath(const char *path, enum tn_last last)
{
    tn_autofree char *real = resolved(path, last);
    const char *rest = real ? rest_after(real, root.path) : NULL;

    return rest ? tn_strdup(*rest ? rest : ".") : NULL;
}

/* The rest beneath the root, or NULL with err. */
static char *find(const char *path, enum tn_last last, struct tn_error *err)
{
    tn_autofree char *joined = path[0] == '/' ? NULL : tn_asprintf("%s/%s", root.path, path);
    const char *full = joined ? joined : path;
    char *rest = beneath(full, last);
    const char *below = rest ? NULL : rest_after(full, ALIAS);

    if (below) {
        tn_autofree char *meant = tn_asprintf("%s/%s", root.path, below);
        rest = beneath(meant, last);
    }
    if (!rest)
        fail_outside(path, err);
    return rest;
}

int tn_where(const char *path, enum tn_last last, struct tn_where *out, struct tn_error *err)
{
    *out = (struct tn_where){.root = TN_FS_ANYWHERE};
    if (!tn_confined()) {
        out->path = tn_strdup(path);
        return 0;
    }
    out->root = root.fd;
    out->path = find(path, last, err);
    return out->path ? 0 : -1;
}

char *tn_confined_path(const char *path, struct tn_error *err)
{
    if (!tn_confined())
        return tn_strdup(path);
    tn_autofree char *rest = find(path, TN_LAST_FOLLOWED, err);
    if (!rest)
        return NULL;
    if (strcmp(rest, ".") == 0)
        return tn_strdup(root.path);
    return tn_asprintf("%s/%s", root.path[1] ? root.path : "", rest);
}

/* --- using --------------------------------------------------------------------------------- */

int tn_where_open(const char *path, int flags, struct tn_error *err)
{
    tn_autowhere struct tn_where w;
    enum tn_last last = flags & O_NOFOLLOW ? TN_LAST_ITSELF : TN_LAST_FOLLOWED;

    return tn_where(path, last, &w, err) < 0 ? -1 : tn_fs_open(w.root, w.path, flags, 0, err);
}

int tn_where_stat(const char *path, struct stat *st, struct tn_error *err)
{
    if (!tn_confined())
        return stat(path, st) < 0 ? tn_fail_errno(err, errno, "%s", path) : 0;
    tn_autofd int fd = tn_where_open(path, O_PATH, err);
    if (fd < 0)
        return -1;
    return fstat(fd, st) < 0 ? tn_fail_errno(err, errno, "%s", path) : 0;
}

int tn_where_mkdirs(const char *path, mode_t mode, struct tn_error *err)
{
    tn_autowhere struct tn_where w;

    if (tn_where(path, TN_LAST_FOLLOWED, &w, err) < 0)
        return -1;
    return tn_fs_mkdirs(w.root, w.path, mode, NULL, NULL, err);
}

int tn_where_chmod(const char *path, mode_t mode, struct tn_error *err)
{
    tn_autofd int fd = tn_where_open(path, O_PATH, err);
    char link[40];

    if (fd < 0)
        return -1;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd); /* fchmod does not take O_PATH */
    return chmod(link, mode) < 0 ? tn_fail_errno(err, errno, "%s", path) : 0;
}

int tn_where_openat(int dir, const char *dir_path, const char *name, int flags)
{
    struct tn_error err = {0};

    if (!tn_confined())
        return openat(dir, name, flags | O_CLOEXEC);
    int fd = tn_fs_open(dir, name, flags, 0, &err);
    if (fd < 0 && err.code == TN_E_DENIED && dir_path) {
        tn_autofree char *path = tn_asprintf("%s/%s", dir_path, name);
        fd = tn_where_open(path, flags, &err);
    }
    if (fd < 0)
        errno = err.sys ? err.sys : EACCES;
    return fd;
}
