/* What a root file system is made of: layers, directories of the host, volumes, storage.  Each is
 * opened once, here, as a mount that is attached nowhere yet; from then on no path of the host is
 * looked up again, so nothing can be exchanged behind our back. */
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include "base/fs.h"
#include "jail/jail.h"
#include "jail/sys.h"

/* --- mounts with other owners ---------------------------------------------------------------- */

/* 1 when the file system cannot do it. */
static int map_ids(const struct jail *j, int mount, int userns, const char *path,
                   struct tn_error *err)
{
    if (j->mapping != TN_JAIL_MAP_RANGE)
        return 0;
    if (sys_set_mount(mount, MOUNT_ATTR_IDMAP, userns, 0) == 0)
        return 0;
    tn_fail_errno(err, errno, "%s: its file system cannot show other owners (idmapped mounts)",
                  path);
    return 1;
}

/* --- layers and directories of the host ---------------------------------------------------------
 */

static int open_layer(const struct jail *j, struct jail_source *s, const char *path,
                      struct tn_error *err)
{
    *s = (struct jail_source){.path = path, .mount = -1};
    s->mount = sys_clone_mount(AT_FDCWD, path, 0);
    if (s->mount < 0)
        return tn_fail_errno(err, errno, "layer %s", path);
    return map_ids(j, s->mount, j->userns, path, err);
}

static char *read_link(int link)
{
    char target[PATH_MAX];
    ssize_t n = readlinkat(link, "", target, sizeof target - 1);

    return n <= 0 ? NULL : tn_strndup(target, (size_t)n);
}

/* A path that does not exist is none. */
static int open_host_path(const struct jail *j, struct jail_source *s, const char *path,
                          struct tn_error *err)
{
    tn_autofd int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    struct statfs fs;
    struct stat st;

    *s = (struct jail_source){.path = path, .mount = -1};
    if (fd < 0 && errno == ENOENT)
        return 0;
    if (fd < 0 || fstat(fd, &st) < 0 || fstatfs(fd, &fs) < 0)
        return tn_fail_errno(err, errno, "%s", path);
    s->mode = st.st_mode & 07777;
    s->stacked = fs.f_type == OVERLAYFS_SUPER_MAGIC;
    if (S_ISLNK(st.st_mode)) {
        s->link = read_link(fd);
        return 0;
    }
    if (!S_ISDIR(st.st_mode))
        return tn_fail(err, TN_E_INVALID, "%s: expected a directory", path);
    s->mount = sys_clone_mount(fd, "", 0);
    if (s->mount < 0)
        return errno == EINVAL
                   ? tn_fail(err, TN_E_UNSUPPORTED,
                             "%s: other file systems are mounted below it; only root can leave "
                             "them out",
                             path)
                   : tn_fail_errno(err, errno, "%s", path);
    s->there = true;
    return map_ids(j, s->mount, j->userns, path, err);
}

/* --- volumes ------------------------------------------------------------------------------- */

/* Inside, the plan's user owns what the owner of the directory owns outside; and whatever it makes
 * there is the owner's. */
static int map_volume(const struct jail *j, int mount, const struct stat *st, const char *path,
                      struct tn_error *err)
{
    if (j->mapping != TN_JAIL_MAP_RANGE)
        return 0;
    tn_autofd int userns = jail_make_userns(st->st_uid, j->base + (uid_t)j->plan.uid, st->st_gid,
                                            j->base + (gid_t)j->plan.gid, 1, err);
    return userns < 0 ? -1 : map_ids(j, mount, userns, path, err);
}

static int open_volume(const struct jail *j, const struct tn_jail_mount *m, int *mount,
                       struct tn_error *err)
{
    uint64_t attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
    tn_autofd int fd = sys_openat2(AT_FDCWD, m->source, O_PATH | O_CLOEXEC, 0,
                                   RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
    struct stat st;

    if (fd < 0 && errno == ELOOP)
        return tn_fail(err, TN_E_INVALID,
                       "volume %s: there is a symbolic link in it; give the path without",
                       m->source);
    if (fd < 0 || fstat(fd, &st) < 0)
        return tn_fail_errno(err, errno, "volume %s", m->source);
    if (!S_ISDIR(st.st_mode) && (!S_ISREG(st.st_mode) || m->overlay))
        return tn_fail(err, TN_E_INVALID, "volume %s: expected a directory%s", m->source,
                       m->overlay ? "" : " or a regular file");
    *mount = sys_clone_mount(fd, "", m->overlay ? 0 : AT_RECURSIVE);
    if (*mount < 0)
        return tn_fail_errno(err, errno, "volume %s", m->source);
    if (m->read_only)
        attributes |= MOUNT_ATTR_RDONLY;
    if (sys_set_mount(*mount, attributes, -1, AT_RECURSIVE) < 0)
        return tn_fail_errno(err, errno, "volume %s: no set-uid, no devices", m->source);
    return map_volume(j, *mount, &st, m->source, err);
}

/* --- all of them --------------------------------------------------------------------------- */

static int open_program(struct jail *j, struct tn_error *err)
{
    j->hand = sys_clone_mount(AT_FDCWD, j->plan.hand, 0);
    if (j->hand < 0)
        return tn_fail_errno(err, errno, "program %s", j->plan.hand);
    if (sys_set_mount(j->hand, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, -1, 0) < 0)
        return tn_fail_errno(err, errno, "program %s: read-only", j->plan.hand);
    map_ids(j, j->hand, j->userns, j->plan.hand, NULL); /* for one that only its owner may run */
    return 0;
}

int jail_open_sources(struct jail *j, struct tn_error *err)
{
    const struct tn_jail_plan *p = &j->plan;
    int r = open_program(j, err);

    j->lowers = tn_calloc(p->lowers.count, sizeof *j->lowers);
    j->host_paths = tn_calloc(p->host_paths.count, sizeof *j->host_paths);
    j->volumes = tn_calloc(p->mount_count, sizeof *j->volumes);
    for (size_t i = 0; i < p->lowers.count; i++)
        j->lowers[i].mount = -1;
    for (size_t i = 0; i < p->host_paths.count; i++)
        j->host_paths[i].mount = -1;
    for (size_t i = 0; i < p->mount_count; i++)
        j->volumes[i] = -1;
    for (size_t i = 0; r == 0 && i < p->lowers.count; i++)
        r = open_layer(j, &j->lowers[i], p->lowers.items[i], err);
    for (size_t i = 0; r == 0 && i < p->host_paths.count; i++)
        r = open_host_path(j, &j->host_paths[i], p->host_paths.items[i], err);
    for (size_t i = 0; r == 0 && i < p->mount_count; i++)
        r = open_volume(j, &p->mounts[i], &j->volumes[i], err);
    j->cpu_info = sys_clone_mount(AT_FDCWD, "/sys/devices/system/cpu", 0);
    return r;
}

/* --- storage ------------------------------------------------------------------------------- */

static int make_tmpfs(struct jail *j, struct tn_error *err)
{
    char size[40], inodes[40];
    const char *const options[] = {"mode=0700", size, inodes, NULL};

    snprintf(size, sizeof size, "size=%lld", (long long)j->plan.tmpfs_bytes);
    /* Empty files take memory too: one inode for every page, and some for the beginning. */
    snprintf(inodes, sizeof inodes, "nr_inodes=%lld",
             (long long)(j->plan.tmpfs_bytes / 4096 + 4096));
    j->storage = jail_new_mount("tmpfs", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, err);
    return j->storage < 0 ? -1 : 0;
}

static int make_directory(int dir, const char *name, mode_t mode, struct tn_error *err)
{
    if (mkdirat(dir, name, mode) < 0 && errno != EEXIST)
        return tn_fail_errno(err, errno, "storage: %s", name);
    return 0;
}

/* With host paths upper/ and work/ hold one directory for each overlay. */
static int make_parts(const struct jail *j, int upper, int work, struct tn_error *err)
{
    if (!j->plan.host_paths.count)
        return 0;
    if (make_directory(upper, "@", 0755, err) < 0 || make_directory(work, "@", 0700, err) < 0)
        return -1;
    for (size_t i = 0; i < j->plan.host_paths.count; i++) {
        const struct jail_source *s = &j->host_paths[i];
        tn_autofree char *name = jail_part_name(s->path);
        if (s->there && (make_directory(upper, name, s->mode, err) < 0 ||
                         make_directory(work, name, 0700, err) < 0))
            return -1;
    }
    return 0;
}

char *jail_part_name(const char *path)
{
    char *name = tn_strdup(path + strspn(path, "/"));

    for (char *at = name; *at; at++)
        if (*at == '/')
            *at = '%';
    return name;
}

static int plant_seed(const struct jail *j, int upper, struct tn_error *err)
{
    tn_autofd int seed = open(j->plan.seed, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (seed < 0)
        return tn_fail_errno(err, errno, "seed %s", j->plan.seed);
    return jail_copy_tree(seed, upper, err) < 0 ? tn_error_context(err, "seed %s", j->plan.seed)
                                                : 0;
}

int jail_open_storage(struct jail *j, struct tn_error *err)
{
    const char *path = j->plan.storage;

    if (!path && make_tmpfs(j, err) < 0)
        return -1;
    if (path && mkdir(path, 0700) < 0 && errno != EEXIST)
        return tn_fail_errno(err, errno, "%s", path);
    if (path && (j->storage = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
        return tn_fail_errno(err, errno, "%s", path);
    /* What the kernel noted in work/ is of the mount before, and would forbid another one. */
    if (path && (tn_fs_remove_tree(j->storage, "work", 0, err) < 0 ||
                 tn_fs_remove_tree(j->storage, "volumes-work", 0, err) < 0))
        return -1;
    if (make_directory(j->storage, "upper", 0755, err) < 0 ||
        make_directory(j->storage, "work", 0700, err) < 0)
        return -1;
    tn_autofd int upper =
        openat(j->storage, "upper", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    tn_autofd int work =
        openat(j->storage, "work", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (upper < 0 || work < 0)
        return tn_fail_errno(err, errno, "storage");
    if (j->plan.seed && plant_seed(j, upper, err) < 0)
        return -1;
    return make_parts(j, upper, work, err);
}

int jail_mount_storage(struct jail *j, int attached, struct tn_error *err)
{
    const char *path = j->plan.storage ? j->plan.storage : "the tmpfs of the storage";

    j->storage_mount = sys_clone_mount(attached, "", 0);
    if (j->storage_mount < 0)
        return tn_fail_errno(err, errno, "%s", path);
    return map_ids(j, j->storage_mount, j->userns, path, err);
}

void jail_close_sources(struct jail *j)
{
    int *const single[] = {&j->hand, &j->cpu_info, &j->storage_mount, &j->storage, &j->userns};

    for (size_t i = 0; j->lowers && i < j->plan.lowers.count; i++)
        tn_close(j->lowers[i].mount);
    for (size_t i = 0; j->host_paths && i < j->plan.host_paths.count; i++) {
        tn_close(j->host_paths[i].mount);
        free(j->host_paths[i].link);
    }
    for (size_t i = 0; j->volumes && i < j->plan.mount_count; i++)
        tn_close(j->volumes[i]);
    free(TN_TAKE_PTR(j->lowers));
    free(TN_TAKE_PTR(j->host_paths));
    free(TN_TAKE_PTR(j->volumes));
    for (size_t i = 0; i < TN_COUNT(single); i++)
        tn_close(TN_TAKE_FD(*single[i]));
}
