/* The root file system: scaffold, overlay, and the step into it.
 *
 * The scaffold is a small tmpfs over the sandbox's directory, seen by this process alone, and its
 * current directory while it builds:
 *     l0 l1 ...  the layers of the plan
 *     h0 h1 ...  directories of the host, v0 ... the views of them, m0 ... what hides in them
 *     st         the storage
 *     skel       what a root needs at least: the lowest layer
 *     root       the root of the jail
 * Entering the root leaves all of it behind; what overlays need of it they hold themselves. */
#include <fcntl.h>
#include <sys/stat.h>

#include "jail/jail.h"
#include "jail/sys.h"

enum { OPTIONS_MAX = 4000 }; /* the kernel takes a page */

int jail_make_private(struct jail *j, struct tn_error *err)
{
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return tn_fail_errno(err, errno, "make mounts private");
    j->isolation.mount = true;
    return 0;
}

/* Makes the directory `name` here and attaches the mount on it; takes the mount. */
static int attach_here(int *mount, const char *name, struct tn_error *err)
{
    if (mkdir(name, 0755) < 0 ||
        move_mount(*mount, "", AT_FDCWD, name, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return tn_fail_errno(err, errno, "attach %s", name);
    close(TN_TAKE_FD(*mount));
    return 0;
}

static int attach_sources(struct jail *j, struct tn_error *err)
{
    char name[32];

    for (size_t i = 0; i < j->plan.lowers.count; i++) {
        snprintf(name, sizeof name, "l%zu", i);
        if (attach_here(&j->lowers[i].mount, name, err) < 0)
            return -1;
    }
    for (size_t i = 0; i < j->plan.host_paths.count; i++) {
        snprintf(name, sizeof name, "h%zu", i);
        if (j->host_paths[i].there && attach_here(&j->host_paths[i].mount, name, err) < 0)
            return -1;
    }
    return 0;
}

/* A tmpfs can only be shown with other owners once it is attached somewhere. */
static int attach_storage(struct jail *j, struct tn_error *err)
{
    if (j->storage_mount < 0) {
        if (mkdir("raw", 0700) < 0 ||
            move_mount(j->storage, "", AT_FDCWD, "raw", MOVE_MOUNT_F_EMPTY_PATH) < 0)
            return tn_fail_errno(err, errno, "attach the storage");
        int r = jail_mount_storage(j, j->storage, err);
        if (r != 0)
            return r;
    }
    return attach_here(&j->storage_mount, "st", err);
}

int jail_make_scaffold(struct jail *j, struct tn_error *err)
{
    const char *where = j->plan.directory;

    if (mount("tendon", where, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=64m") < 0)
        return tn_fail_errno(err, errno, "mount a tmpfs on %s", where);
    if (chdir(where) < 0)
        return tn_fail_errno(err, errno, "%s", where);
    if (attach_sources(j, err) < 0)
        return -1;
    int r = attach_storage(j, err);
    if (r == 0 && (mkdir("skel", 0755) < 0 || mkdir("root", 0755) < 0))
        return tn_fail_errno(err, errno, "scaffold");
    return r;
}

int jail_mount_overlay(const struct jail *j, int on, const char *lowers, const char *upper,
                       const char *work, struct tn_error *err)
{
    /* Volatile: a sandbox is thrown away or copied, nobody wants to wait for the disk.  Links
     * between layers (redirects, index, metacopy) would tie layers to each other: none of it. */
    static const char common[] = "index=off,metacopy=off,redirect_dir=nofollow,xino=off,volatile";
    tn_autobuf struct tn_buf options = TN_BUF_INIT(OPTIONS_MAX);
    char target[40];

    tn_buf_printf(&options, "lowerdir=%s,upperdir=%s,workdir=%s,%s%s", lowers, upper, work, common,
                  j->user_xattrs ? ",userxattr" : "");
    if (!tn_buf_ok(&options))
        return tn_fail(err, TN_E_TOO_LARGE, "too many layers: their list exceeds a page");
    snprintf(target, sizeof target, "/proc/self/fd/%d", on);
    if (mount("tendon", target, "overlay", MS_NOSUID | MS_NODEV, tn_buf_str(&options)) < 0)
        return tn_fail_errno(err, errno, "overlay of %.200s", lowers);
    return 0;
}

int jail_make_root(struct jail *j, struct tn_error *err)
{
    bool parts = j->plan.host_paths.count > 0;
    tn_autobuf struct tn_buf lowers = TN_BUF_INIT(OPTIONS_MAX);
    char path[40];

    for (size_t i = 0; i < j->plan.lowers.count; i++) {
        snprintf(path, sizeof path, parts ? "l%zu/@" : "l%zu", i);
        if (!parts || access(path, F_OK) == 0)
            tn_buf_printf(&lowers, "%s:", path);
    }
    tn_buf_puts(&lowers, "skel");
    tn_autofd int on = open("root", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (on < 0)
        return tn_fail_errno(err, errno, "scaffold");
    if (jail_mount_overlay(j, on, tn_buf_str(&lowers), parts ? "st/upper/@" : "st/upper",
                           parts ? "st/work/@" : "st/work", err) < 0)
        return -1;
    j->root = open("root", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (j->root < 0)
        return tn_fail_errno(err, errno, "root");
    return jail_mount_host_paths(j, err);
}

int jail_enter_root(struct jail *j, struct tn_error *err)
{
    /* The old root ends up on top of the new one, at the same place, and is taken off there. */
    if (fchdir(j->root) < 0 || sys_pivot_root(".", ".") < 0 || umount2(".", MNT_DETACH) < 0 ||
        chdir("/") < 0)
        return tn_fail_errno(err, errno, "enter the root");
    return 0;
}
