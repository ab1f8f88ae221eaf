/* Volumes, the workspace, and the few files of /etc that a network needs. */
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include "base/fs.h"
#include "jail/gate.h"
#include "jail/sys.h"

enum { RESOLV_MAX = 64 << 10 };
#define GATES_RESOLVER "nameserver " TN_WALL_NAMES4 "\n"

/* --- volumes whose changes are thrown away
 * -------------------------------------------------------- */

/* The directory folder/NUMBER of the storage. */
static int make_layer(const char *folder, size_t i, char *path, size_t size)
{
    if (mkdir(folder, 0700) < 0 && errno != EEXIST)
        return -1;
    snprintf(path, size, "%s/%zu", folder, i);
    return mkdir(path, 0755) < 0 && errno != EEXIST ? -1 : 0;
}

/* Turns j->volumes[i] into an overlay of it. */
static int overlay_volume(struct jail *j, size_t i, struct tn_error *err)
{
    char lower[32], top[32], upper[64], work[64];

    snprintf(lower, sizeof lower, "b%zu", i);
    snprintf(top, sizeof top, "o%zu", i);
    if (make_layer("st/volumes", i, upper, sizeof upper) < 0 ||
        make_layer("st/work-volumes", i, work, sizeof work) < 0 || mkdir(lower, 0755) < 0 ||
        mkdir(top, 0755) < 0)
        return tn_fail_errno(err, errno, "storage for a volume");
    if (move_mount(j->volumes[i], "", AT_FDCWD, lower, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return tn_fail_errno(err, errno, "attach a volume");
    if (jail_mount_overlay(j, top, lower, upper, work, false, err) < 0)
        return -1;
    close(j->volumes[i]);
    j->volumes[i] = sys_clone_mount(AT_FDCWD, top, 0);
    if (j->volumes[i] < 0 ||
        sys_set_mount(j->volumes[i], MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, -1, 0) < 0)
        return tn_fail_errno(err, errno, "overlay of a volume");
    return 0;
}

int jail_prepare_volumes(struct jail *j, struct tn_error *err)
{
    for (size_t i = 0; i < j->plan.mount_count; i++)
        if (j->plan.mounts[i].overlay && overlay_volume(j, i, err) < 0)
            return tn_error_context(err, "volume at %s", j->plan.mounts[i].target);
    return 0;
}

/* Whoever filled the root made the links that lead to the target.  Something of somebody's in place
 * of /proc, or in it, would tell what comes after this, and the hand, whatever he likes. */
static int attach_volume(struct jail *j, size_t i, bool directory, struct tn_error *err)
{
    const char *target = j->plan.mounts[i].target;
    tn_autofd int on = jail_open_inside(j, target, directory, err);
    struct statfs fs;

    if (on < 0)
        return -1;
    if (fstatfs(on, &fs) < 0 || fs.f_type == PROC_SUPER_MAGIC)
        return tn_fail(err, TN_E_INVALID, "nothing can be mounted over /proc");
    if (sys_attach_mount(j->volumes[i], on) < 0)
        return tn_fail_errno(err, errno, "mount %s inside", target);
    return 0;
}

int jail_attach_volumes(struct jail *j, struct tn_error *err)
{
    struct stat st;

    for (size_t i = 0; i < j->plan.mount_count; i++) {
        if (fstat(j->volumes[i], &st) < 0)
            return tn_fail_errno(err, errno, "volume at %s", j->plan.mounts[i].target);
        if (attach_volume(j, i, S_ISDIR(st.st_mode), err) < 0)
            return tn_error_context(err, "volume at %s", j->plan.mounts[i].target);
    }
    return 0;
}

/* --- workspace ------------------------------------------------------------------------------ */

int jail_make_workspace(struct jail *j, struct tn_error *err)
{
    if (!j->plan.workspace)
        return 0;
    tn_autofd int there = sys_openat2(j->root, j->plan.workspace, O_PATH | O_CLOEXEC, 0,
                                      RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
    if (there >= 0) /* a volume, or of an earlier start: its owner stays */
        return 0;
    tn_autofd int fd = jail_open_inside(j, j->plan.workspace, true, err);
    if (fd < 0)
        return -1;
    if (fchownat(fd, "", j->base + (uid_t)j->plan.uid, j->base + (gid_t)j->plan.gid,
                 AT_EMPTY_PATH) < 0)
        return tn_fail_errno(err, errno, "workspace %s", j->plan.workspace);
    return 0;
}

/* --- names of the network ------------------------------------------------------------------ */

int jail_read_resolver(struct jail *j, struct tn_error *err)
{
    if (j->plan.network == TN_JAIL_NET_NONE)
        return 0;
    tn_buf_init(&j->resolver, RESOLV_MAX);
    if (jail_is_gated(j))
        return tn_buf_puts(&j->resolver, GATES_RESOLVER);
    tn_fs_read(TN_FS_ANYWHERE, "/etc/resolv.conf", &j->resolver, NULL); /* a host may have none */
    return 0;
}

/* Whether the root has the file of a gate that is not there any more: it lived behind one, or was
 * copied from what did. */
static bool is_gates_own(const struct jail *j)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(RESOLV_MAX);
    tn_autofd int fd =
        sys_openat2(j->root, "/etc/resolv.conf", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0,
                    RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
    struct stat st;

    return fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
           tn_fs_read_fd(fd, &text, NULL) == 0 && strcmp(tn_buf_str(&text), GATES_RESOLVER) == 0;
}

/* Where the root has no resolv.conf, an empty one, or a link to nowhere, the host's is put; where
 * the gate is asked for names, always its own. */
int jail_write_resolver(struct jail *j, struct tn_error *err)
{
    struct stat st;

    if (j->resolver.len == 0)
        return 0;
    tn_autofd int there = sys_openat2(j->root, "/etc/resolv.conf", O_PATH | O_CLOEXEC, 0,
                                      RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
    if (!jail_is_gated(j) && there >= 0 && !is_gates_own(j) &&
        (fstat(there, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > 0))
        return 0;
    tn_autofd int etc = jail_open_inside(j, "/etc", true, err);
    if (etc < 0)
        return -1;
    unlinkat(etc, "resolv.conf", 0);
    tn_autofd int fd =
        openat(etc, "resolv.conf", O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0)
        return tn_fail_errno(err, errno, "/etc/resolv.conf inside");
    return tn_fs_write(fd, j->resolver.data, j->resolver.len, err);
}
