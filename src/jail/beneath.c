/* Paths of the jail, and mounts on them.  Whoever filled the root file system also made the links
 * in it: they are followed as the jail itself would follow them, never beyond its root. */
#include <fcntl.h>
#include <sys/stat.h>

#include "jail/jail.h"
#include "jail/sys.h"

static int open_beneath(const struct jail *j, const char *path, int flags)
{
    return sys_openat2(j->root, path, O_PATH | O_CLOEXEC | flags, 0,
                       RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
}

/* Makes the last part of path in its directory, which exists. */
static int make_last(const struct jail *j, char *path, bool directory)
{
    char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;

    if (slash)
        *slash = '\0';
    tn_autofd int parent = open_beneath(j, slash && path[0] ? path : "/", O_DIRECTORY);
    if (slash)
        *slash = '/';
    if (parent < 0)
        return -1;
    if (directory)
        return mkdirat(parent, name, 0755) < 0 && errno != EEXIST ? -1 : 0;
    tn_autofd int file =
        openat(parent, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    return file < 0 && errno != EEXIST ? -1 : 0;
}

int jail_open_inside(const struct jail *j, const char *path, bool directory, struct tn_error *err)
{
    tn_autofree char *copy = tn_strdup(path);
    size_t n = strlen(copy);

    while (n > 1 && copy[n - 1] == '/')
        copy[--n] = '\0';
    int fd = open_beneath(j, copy, directory ? O_DIRECTORY : 0);
    for (size_t end = 1; fd < 0 && errno == ENOENT && end <= n; end++) {
        if (copy[end] != '/' && copy[end] != '\0')
            continue;
        char cut = copy[end];
        copy[end] = '\0';
        tn_autofd int there = open_beneath(j, copy, 0);
        int r = there >= 0 ? 0 : make_last(j, copy, directory || cut == '/');
        copy[end] = cut;
        if (r < 0)
            break;
        errno = ENOENT;
        if (cut == '\0')
            fd = open_beneath(j, copy, directory ? O_DIRECTORY : 0);
    }
    return fd < 0 ? tn_fail_errno(err, errno, "%s inside", path) : fd;
}

int jail_attach(const struct jail *j, int mount, const char *target, bool directory,
                struct tn_error *err)
{
    tn_autofd int on = jail_open_inside(j, target, directory, err);

    if (on < 0)
        return -1;
    if (sys_attach_mount(mount, on) < 0)
        return tn_fail_errno(err, errno, "mount %s inside", target);
    return 0;
}

int jail_new_mount(const char *type, const char *const *options, unsigned attributes,
                   struct tn_error *err)
{
    tn_autofd int fs = fsopen(type, FSOPEN_CLOEXEC);

    if (fs < 0)
        return tn_fail_errno(err, errno, "file system %s", type);
    for (; *options; options++) {
        char key[64];
        const char *equals = strchr(*options, '=');
        snprintf(key, sizeof key, "%.*s", (int)strcspn(*options, "="), *options);
        if (fsconfig(fs, equals ? FSCONFIG_SET_STRING : FSCONFIG_SET_FLAG, key,
                     equals ? equals + 1 : NULL, 0) < 0)
            return tn_fail_errno(err, errno, "file system %s: option %s", type, *options);
    }
    if (fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return tn_fail_errno(err, errno, "file system %s", type);
    int mount = fsmount(fs, FSMOUNT_CLOEXEC, attributes);
    return mount < 0 ? tn_fail_errno(err, errno, "mount of a %s", type) : mount;
}
