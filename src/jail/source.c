/* What a root file system is made of: layers, directories of the host, volumes, the program.  Each
 * is opened once, here, as a mount that is attached nowhere yet; from then on no path of the host
 * is looked up again, so nothing can be exchanged behind our back.  Only a layer that is still
 * being filled is opened later. */
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/stat.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include "jail/erofs.h"
#include "jail/jail.h"
#include "jail/message.h"
#include "jail/sys.h"

/* --- layers and directories of the host ---------------------------------------------------- */

/* The kernel reads an image as it is: only one that nobody else can have written will do. */
static int open_image(const struct jail *j, int fd, const struct stat *st, struct tn_error *err)
{
    if (!j->privileged)
        return tn_fail(err, TN_E_DENIED, "an image, which only root can mount");
    if (st->st_uid != j->caller_uid || (st->st_mode & 022))
        return tn_fail(err, TN_E_DENIED, "an image of another user, or that others can write to");
    return tn_erofs_mount(fd, err);
}

static int open_layer(const struct jail *j, struct jail_source *s, const char *path,
                      struct tn_error *err)
{
    tn_autofd int fd = open(path, O_PATH | O_CLOEXEC);
    struct stat st;

    *s = (struct jail_source){.path = path, .mount = -1, .there = true};
    if (fd < 0 || fstat(fd, &st) < 0)
        return tn_fail_errno(err, errno, "layer %s", path);
    if (S_ISREG(st.st_mode)) {
        s->mount = open_image(j, fd, &st, err);
        return s->mount < 0 ? tn_error_context(err, "layer %s", path) : 0;
    }
    s->mount = sys_clone_mount(fd, "", 0);
    return s->mount < 0 ? tn_fail_errno(err, errno, "layer %s", path) : 0;
}

static char *read_link(int link)
{
    char target[PATH_MAX];
    ssize_t n = readlinkat(link, "", target, sizeof target - 1);

    return n <= 0 ? NULL : tn_strndup(target, (size_t)n);
}

static bool is_overlay(int fd)
{
    struct statfs fs;
    return fstatfs(fd, &fs) == 0 && fs.f_type == OVERLAYFS_SUPER_MAGIC;
}

static uint64_t mount_id(int fd)
{
    struct statx x = {0};

    if (statx(fd, "", AT_EMPTY_PATH, STATX_MNT_ID, &x) < 0 || !(x.stx_mask & STATX_MNT_ID))
        return 0;
    return x.stx_mnt_id;
}

static int clone_host_path(struct jail_source *s, int fd, struct tn_error *err)
{
    s->mount = sys_clone_mount(fd, "", 0);
    if (s->mount >= 0)
        return 0;
    return errno == EINVAL ? tn_fail(err, TN_E_UNSUPPORTED,
                                     "%s: other file systems are mounted below it; only root can "
                                     "leave them out",
                                     s->path)
                           : tn_fail_errno(err, errno, "%s", s->path);
}

/* A path that does not exist is none. */
static int open_host_path(const struct jail *j, struct jail_source *s, const char *path,
                          uint64_t root_id, struct tn_error *err)
{
    tn_autofd int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;

    *s = (struct jail_source){.path = path, .mount = -1};
    if (fd < 0 && errno == ENOENT)
        return 0;
    if (fd < 0 || fstat(fd, &st) < 0)
        return tn_fail_errno(err, errno, "%s", path);
    if (S_ISLNK(st.st_mode)) {
        s->link = read_link(fd);
        return 0;
    }
    if (!S_ISDIR(st.st_mode))
        return tn_fail(err, TN_E_INVALID, "%s: expected a directory", path);
    s->there = true;
    s->mode = st.st_mode & 07777;
    s->stacked = j->plan.criu || is_overlay(fd);
    s->joined = !j->user_xattrs && root_id != 0 && mount_id(fd) == root_id;
    return s->joined ? 0 : clone_host_path(s, fd, err);
}

static int open_host_paths(struct jail *j, struct tn_error *err)
{
    const struct tn_str_list *paths = &j->plan.host_paths;
    tn_autofd int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    uint64_t root_id = root < 0 ? 0 : mount_id(root);
    bool joined = false;

    j->host_root =
        (struct jail_source){.path = "/", .mount = -1, .stacked = j->plan.criu || is_overlay(root)};
    for (size_t i = 0; i < paths->count; i++) {
        if (open_host_path(j, &j->host_paths[i], paths->items[i], root_id, err) < 0)
            return -1;
        joined = joined || j->host_paths[i].joined;
    }
    j->host_root.there = joined;
    return joined ? clone_host_path(&j->host_root, root, err) : 0;
}

/* --- volumes ------------------------------------------------------------------------------- */

/* A tenant reads what is complained of: the path of the host is not named. */
int jail_open_volume(const struct tn_jail_mount *m, struct tn_error *err)
{
    int fd = sys_openat2(AT_FDCWD, m->source, O_PATH | O_CLOEXEC, 0,
                         RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);

    if (fd >= 0)
        return fd;
    return errno == ELOOP
               ? tn_fail(err, TN_E_INVALID,
                         "volume at %s: there is a symbolic link in it; give the path without",
                         m->target)
               : tn_fail_errno(err, errno, "volume at %s", m->target);
}

static int open_volume(const struct tn_jail_mount *m, int *mount, struct tn_error *err)
{
    uint64_t attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
    tn_autofd int fd = jail_open_volume(m, err);
    struct stat st;

    if (fd < 0)
        return -1;
    if (fstat(fd, &st) < 0)
        return tn_fail_errno(err, errno, "volume at %s", m->target);
    if (!S_ISDIR(st.st_mode) && (!S_ISREG(st.st_mode) || m->overlay))
        return tn_fail(err, TN_E_INVALID, "volume at %s: expected a directory%s", m->target,
                       m->overlay ? "" : " or a regular file");
    *mount = sys_clone_mount(fd, "", m->overlay ? 0 : AT_RECURSIVE);
    if (*mount < 0)
        return tn_fail_errno(err, errno, "volume at %s", m->target);
    if (m->read_only)
        attributes |= MOUNT_ATTR_RDONLY;
    if (sys_set_mount(*mount, attributes, -1, AT_RECURSIVE) < 0)
        return tn_fail_errno(err, errno, "volume at %s: no set-uid, no devices", m->target);
    return 0;
}

/* --- all of them --------------------------------------------------------------------------- */

static int open_program(const char *path, int *mount, struct tn_error *err)
{
    *mount = sys_clone_mount(AT_FDCWD, path, 0);
    if (*mount < 0)
        return tn_fail_errno(err, errno, "program %s", path);
    if (sys_set_mount(*mount, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, -1, 0) < 0)
        return tn_fail_errno(err, errno, "program %s: read-only", path);
    return 0;
}

/* Newer releases have more programs than one, in a folder beside it. */
static int open_runsc(struct jail *j, struct tn_error *err)
{
    const char *path = j->plan.runsc;

    if (!path)
        return 0;
    tn_autofree char *folder =
        tn_asprintf("%.*s" JAIL_SIDECARS, (int)(strrchr(path, '/') - path), path);
    if (access(folder, F_OK) == 0 && open_program(folder, &j->sidecars, err) < 0)
        return -1;
    return open_program(path, &j->runsc, err);
}

int jail_open_sources(struct jail *j, struct tn_error *err)
{
    const struct tn_jail_plan *p = &j->plan;

    j->lowers = tn_calloc(p->lowers.count, sizeof *j->lowers);
    j->host_paths = tn_calloc(p->host_paths.count, sizeof *j->host_paths);
    j->volumes = tn_calloc(p->mount_count, sizeof *j->volumes);
    if (open_program(p->hand, &j->hand, err) < 0 || open_runsc(j, err) < 0 ||
        open_host_paths(j, err) < 0)
        return -1;
    for (size_t i = 0; i < p->lowers.count; i++) {
        j->lowers[i] = (struct jail_source){.path = p->lowers.items[i], .mount = -1};
        if ((i > 0 || !p->files_fd) && open_layer(j, &j->lowers[i], p->lowers.items[i], err) < 0)
            return -1;
    }
    for (size_t i = 0; i < p->mount_count; i++)
        if (open_volume(&p->mounts[i], &j->volumes[i], err) < 0)
            return -1;
    j->cpu_info = sys_clone_mount(AT_FDCWD, "/sys/devices/system/cpu", 0);
    return 0;
}

/* --- other owners -------------------------------------------------------------------------- */

static int map_mount(const struct jail *j, int mount, int userns, const char *path,
                     struct tn_error *err)
{
    if (j->mapping != TN_JAIL_MAP_RANGE || mount < 0)
        return 0;
    if (sys_set_mount(mount, MOUNT_ATTR_IDMAP, userns, 0) == 0)
        return 0;
    tn_fail_errno(err, errno, "%s: its file system cannot show other owners (idmapped mounts)",
                  path);
    return 1;
}

/* With the namespace that the launcher made for its owner, see there. */
static int map_volume(const struct jail *j, int mount, const char *path, struct tn_error *err)
{
    struct jail_message message;
    struct stat st;
    tn_autofd int userns = jail_expect(j->control, JAIL_USERNS, &message, err);

    if (userns == -2)
        return -1;
    if (userns < 0 || fstat(mount, &st) < 0 || st.st_uid != message.uid || st.st_gid != message.gid)
        return tn_fail(err, TN_E_CONFLICT, "volume at %s: its owner changes", path);
    return map_mount(j, mount, userns, path, err);
}

int jail_map_sources(struct jail *j, struct tn_error *err)
{
    const struct tn_jail_plan *p = &j->plan;
    int r = 0;

    if (j->mapping != TN_JAIL_MAP_RANGE)
        return 0;
    /* For one that only its owner may run; where it cannot be done everybody may, or it fails. */
    map_mount(j, j->hand, j->userns, p->hand, NULL);
    map_mount(j, j->runsc, j->userns, p->runsc, NULL);
    map_mount(j, j->sidecars, j->userns, p->runsc, NULL);
    r = map_mount(j, j->host_root.mount, j->userns, "/", err);
    if (r == 0)
        r = map_mount(j, j->storage_mount, j->userns,
                      p->storage ? p->storage : "the tmpfs of the storage", err);
    for (size_t i = 0; r == 0 && i < p->lowers.count; i++)
        r = map_mount(j, j->lowers[i].mount, j->userns, p->lowers.items[i], err);
    for (size_t i = 0; r == 0 && i < p->host_paths.count; i++)
        r = map_mount(j, j->host_paths[i].mount, j->userns, p->host_paths.items[i], err);
    for (size_t i = 0; r == 0 && i < p->mount_count; i++)
        r = map_volume(j, j->volumes[i], p->mounts[i].target, err);
    return r;
}

int jail_open_filled(struct jail *j, struct tn_error *err)
{
    struct jail_source *first = j->lowers;

    if (open_layer(j, first, first->path, err) < 0)
        return -1;
    int r = map_mount(j, first->mount, j->userns, first->path, err);
    return r != 0 ? r : jail_attach_here(&first->mount, "l0", err);
}
