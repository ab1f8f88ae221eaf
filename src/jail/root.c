/* The root file system: scaffold, overlay, and the step into it.
 *
 * The scaffold is a small tmpfs over the sandbox's directory, seen by this process alone, and its
 * current directory while it builds:
 *     st         the storage
 *     l0 l1 ...  the layers of the plan
 *     hr         the root of the host, vr the view of it
 *     h0 h1 ...  directories of the host that are mounts of their own, v0 ... the views of them,
 *                m0 ... what hides in them
 *     skel/@     what a root needs at least: the lowest layer, but for an image of somebody else's
 *     join       an overlay whose directory @ is the root of the jail
 *     root       the root of the jail
 *     parts/N    what criu is to mount, see criu-restore.c
 * criu needs a path to it that every user may walk: then it lies on JAIL_LAYOUT.
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

int jail_make_scaffold(struct jail *j, struct tn_error *err)
{
    const char *where = j->plan.restored ? JAIL_LAYOUT : j->plan.directory;

    if (mount("tendon", where, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=64m") < 0)
        return tn_fail_errno(err, errno, "mount a tmpfs on %s", where);
    if (chdir(where) < 0)
        return tn_fail_errno(err, errno, "%s", where);
    if (mkdir("skel", 0755) < 0 || mkdir("root", 0755) < 0 || mkdir("join", 0755) < 0)
        return tn_fail_errno(err, errno, "scaffold");
    return jail_clone_storage(j, true, err);
}

int jail_attach_here(int *mount, const char *name, struct tn_error *err)
{
    if (mkdir(name, 0755) < 0 ||
        move_mount(*mount, "", AT_FDCWD, name, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return tn_fail_errno(err, errno, "attach %s", name);
    close(TN_TAKE_FD(*mount));
    return 0;
}

static int attach_numbered(struct jail_source *sources, size_t count, char letter,
                           struct tn_error *err)
{
    char name[32];

    for (size_t i = 0; i < count; i++) {
        snprintf(name, sizeof name, "%c%zu", letter, i);
        if (sources[i].mount >= 0 && jail_attach_here(&sources[i].mount, name, err) < 0)
            return -1;
    }
    return 0;
}

int jail_attach_sources(struct jail *j, struct tn_error *err)
{
    if (jail_attach_here(&j->storage_mount, "st", err) < 0 ||
        (j->host_root.there && jail_attach_here(&j->host_root.mount, "hr", err) < 0) ||
        attach_numbered(j->lowers, j->plan.lowers.count, 'l', err) < 0)
        return -1;
    return attach_numbered(j->host_paths, j->plan.host_paths.count, 'h', err);
}

int jail_mount_overlay(const struct jail *j, const char *on, const char *lowers, const char *upper,
                       const char *work, bool follow, struct tn_error *err)
{
    /* Volatile: a sandbox is thrown away or copied, nobody wants to wait for the disk.  Links
     * between layers (redirects, index, metacopy) would tie layers to each other: none of it, but
     * for the skeleton's own redirects. */
    static const char common[] = "index=off,metacopy=off,xino=off,volatile";
    tn_autobuf struct tn_buf options = TN_BUF_INIT(OPTIONS_MAX);

    tn_buf_printf(&options, "lowerdir=%s,upperdir=%s,workdir=%s,%s,redirect_dir=%s%s", lowers,
                  upper, work, common, follow ? "follow" : "nofollow",
                  j->user_xattrs ? ",userxattr" : "");
    if (!tn_buf_ok(&options))
        return tn_fail(err, TN_E_TOO_LARGE, "too many layers: their list exceeds a page");
    if (mount("tendon", on, "overlay", MS_NODEV | (j->gains ? 0 : MS_NOSUID),
              tn_buf_str(&options)) < 0)
        return tn_fail_errno(err, errno, "overlay of %.200s", lowers);
    return 0;
}

/* --- the three shapes of a root ------------------------------------------------------------- */

/* The first layers, or those of them that have the part. */
static void list_layers(const struct jail *j, size_t count, const char *part, struct tn_buf *lowers)
{
    for (size_t i = 0; i < count; i++) {
        tn_autofree char *path = tn_asprintf("l%zu%s", i, part);
        if (!part[0] || access(path, F_OK) == 0)
            tn_buf_printf(lowers, "%s:", path);
    }
}

static int make_upper(const char *name, struct tn_error *err)
{
    if (mkdir(name, 0755) < 0 && errno != EEXIST)
        return tn_fail_errno(err, errno, "storage: %s", name);
    return 0;
}

/* Layers are root file systems.  The skeleton lies below them all, but above a directory of
 * somebody else's. */
static int mount_plain(struct jail *j, struct tn_error *err)
{
    tn_autobuf struct tn_buf lowers = TN_BUF_INIT(OPTIONS_MAX);
    size_t count = j->plan.lowers.count;
    tn_autofree char *lowest = tn_asprintf("l%zu", count - 1);
    bool foreign = count > 0 && jail_is_foreign(j, lowest);

    if (foreign && jail_shadow(lowest, "skel/@", err) < 0)
        return -1;
    list_layers(j, foreign ? count - 1 : count, "", &lowers);
    tn_buf_puts(&lowers, "skel/@");
    if (foreign)
        tn_buf_printf(&lowers, ":%s", lowest);
    return jail_mount_overlay(j, "root", tn_buf_str(&lowers), "st/upper", "st/work", false, err);
}

/* Directories of the host come as overlays of their own, on top of this one. */
static int mount_parts(struct jail *j, struct tn_error *err)
{
    tn_autobuf struct tn_buf lowers = TN_BUF_INIT(OPTIONS_MAX);

    list_layers(j, j->plan.lowers.count, "/@", &lowers);
    tn_buf_puts(&lowers, "skel/@");
    if (make_upper("st/upper/@", err) < 0)
        return -1;
    return jail_mount_overlay(j, "root", tn_buf_str(&lowers), "st/upper/@", "st/work", false, err);
}

/* Directories of the host are found by the redirects of the skeleton. */
static int mount_joined(struct jail *j, const char *host, struct tn_error *err)
{
    tn_autobuf struct tn_buf lowers = TN_BUF_INIT(OPTIONS_MAX);

    list_layers(j, j->plan.lowers.count, "", &lowers);
    tn_buf_printf(&lowers, "skel:%s", host);
    if (make_upper("st/upper/@", err) < 0 ||
        jail_mount_overlay(j, "join", tn_buf_str(&lowers), "st/upper", "st/work", true, err) < 0)
        return -1;
    tn_autofd int root = sys_clone_mount(AT_FDCWD, "join/@", 0);
    if (root < 0 || move_mount(root, "", AT_FDCWD, "root", MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return tn_fail_errno(err, errno, "root");
    return 0;
}

static int mount_root(struct jail *j, struct tn_error *err)
{
    const char *host;

    if (jail_prepare_host(j, &host, err) < 0)
        return -1;
    if (!j->plan.host_paths.count)
        return mount_plain(j, err);
    return host ? mount_joined(j, host, err) : mount_parts(j, err);
}

int jail_make_root(struct jail *j, struct tn_error *err)
{
    int r = mount_root(j, err);

    if (r == 0) {
        j->root = open("root", O_PATH | O_DIRECTORY | O_CLOEXEC);
        r = j->root < 0 ? tn_fail_errno(err, errno, "root") : jail_mount_host_paths(j, err);
    }
    /* Before Linux 5.19 overlays do not take layers with mapped owners. */
    return r < 0 && err->sys == EINVAL && j->mapping == TN_JAIL_MAP_RANGE ? 1 : r;
}

int jail_enter_root(struct jail *j, struct tn_error *err)
{
    /* The old root ends up on top of the new one, at the same place, and is taken off there. */
    if (fchdir(j->root) < 0 || sys_pivot_root(".", ".") < 0 || umount2(".", MNT_DETACH) < 0 ||
        chdir("/") < 0)
        return tn_fail_errno(err, errno, "enter the root");
    return 0;
}
