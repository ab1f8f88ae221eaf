/* Directories of the host as part of a root file system.
 *
 * They are the lowest layer of an overlay, so that everything in them can be changed and nothing on
 * the host is.  Between the two lies, for root, a view: a read-only overlay mounted by a user who
 * owns nothing and has no rights over anybody's files.  An overlay reads its layers with the rights
 * of whoever mounted it; so whatever the world may not read on the host cannot be read through the
 * view, not even by root inside, whenever it was put there.  For an ordinary user the kernel sees
 * to it, for the files are somebody else's.
 *
 * One overlay is enough for all directories that lie on the same mount as the host's root: that
 * root is the lowest layer, and above it the skeleton has one directory, @, that is opaque (nothing
 * of the host shines through) and in it one directory per host path that says by its attribute
 * "redirect" where in the lower layer it goes on.  The jail's root is @ and nothing around it.
 * Redirects take the trusted attributes of root; an ordinary user, and directories that are mounts
 * of their own, get an overlay each.
 *
 * Where the host itself lives on an overlay there is no room for a view (the kernel allows two on
 * top of each other): there, what the world may not read is looked for and hidden one by one. */
#include <dirent.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "base/buf.h"
#include "jail/jail.h"
#include "jail/sys.h"

enum { DEPTH_MAX = 64 };

/* --- the skeleton -------------------------------------------------------------------------- */

struct entry {
    const char *path;
    mode_t mode;
};

/* What every root has... */
static const struct entry basics[] = {
    {"dev", 0755},
    {"etc", 0755},
    {"proc", 0755},
    {"run", 0755},
    {"sys", 0755},
    {"sys/devices", 0755},
    {"sys/devices/system", 0755},
    {"sys/devices/system/cpu", 0755},
    {".tendon", 0755},
    {"tmp", 01777},
};
/* ...and what only the host's directories need around them. */
static const struct entry around[] = {
    {"home", 0755},      {"media", 0755},    {"mnt", 0755},       {"root", 0700},
    {"srv", 0755},       {"var", 0755},      {"var/cache", 0755}, {"var/lib", 0755},
    {"var/local", 0755}, {"var/log", 0755},  {"var/mail", 0755},  {"var/opt", 0755},
    {"var/spool", 0755}, {"var/tmp", 01777},
};
/* What dpkg and apt write to besides JAIL_DPKG. */
static const struct entry debian[] = {
    {"var/cache/apt", 0755},
    {"var/cache/apt/archives", 0755},
    {"var/cache/apt/archives/partial", 0755},
    {"var/cache/debconf", 0755},
    {"var/lib/apt", 0755},
    {"var/lib/apt/lists", 0755},
    {"var/lib/apt/lists/partial", 0755},
    {"var/log/apt", 0755},
};

static int make_entries(int dir, const struct entry *entries, size_t count, struct tn_error *err)
{
    for (size_t i = 0; i < count; i++)
        if (mkdirat(dir, entries[i].path, entries[i].mode) < 0 && errno != EEXIST)
            return tn_fail_errno(err, errno, "skeleton: %s", entries[i].path);
    return 0;
}

/* mkdir -p of everything before the last part, or of all of it. */
static int make_path(int dir, const char *path, bool all)
{
    tn_autofree char *copy = tn_strdup(path);

    for (char *slash = strchr(copy, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdirat(dir, copy, 0755) < 0 && errno != EEXIST)
            return -1;
        *slash = '/';
    }
    return all && mkdirat(dir, copy, 0755) < 0 && errno != EEXIST ? -1 : 0;
}

/* A directory that goes on in the lower layer, at the same path. */
static int add_redirect(int dir, const struct jail_source *s, const char *path)
{
    tn_autofree char *name = tn_asprintf("/proc/self/fd/%d/%s", dir, path);
    tn_autofree char *target = tn_asprintf("/%s", path);

    return chmod(name, s->mode) < 0 ||
                   setxattr(name, "trusted.overlay.redirect", target, strlen(target), 0) < 0
               ? -1
               : 0;
}

static int add_host_path(int dir, const struct jail_source *s)
{
    const char *path = s->path + strspn(s->path, "/");

    if (s->link)
        return make_path(dir, path, false) < 0 ||
                       (symlinkat(s->link, dir, path) < 0 && errno != EEXIST)
                   ? -1
                   : 0;
    if (!s->there)
        return 0;
    if (make_path(dir, path, true) < 0)
        return -1;
    return s->joined ? add_redirect(dir, s, path) : 0;
}

/* One that stands at the top is part of the skeleton: it costs the disk nothing until something is
 * written there.  Others are made where they belong once the root is there. */
static int add_workspace(const struct jail *j, int dir, struct tn_error *err)
{
    const char *name = j->plan.workspace ? j->plan.workspace + 1 : "";

    if (!*name || strchr(name, '/'))
        return 0;
    if (mkdirat(dir, name, 0775) < 0)
        return errno == EEXIST ? 0 : tn_fail_errno(err, errno, "skeleton: %s", name);
    if (fchownat(dir, name, j->base + (uid_t)j->plan.uid, j->base + (gid_t)j->plan.gid,
                 AT_SYMLINK_NOFOLLOW) < 0)
        return tn_fail_errno(err, errno, "skeleton: %s", name);
    return 0;
}

static int add_host_paths(const struct jail *j, int dir, struct tn_error *err)
{
    if (make_entries(dir, around, TN_COUNT(around), err) < 0)
        return -1;
    if (symlinkat("/run", dir, "var/run") < 0 || symlinkat("/run/lock", dir, "var/lock") < 0)
        return tn_fail_errno(err, errno, "skeleton: var");
    for (size_t i = 0; i < j->plan.host_paths.count; i++) {
        const struct jail_source *s = &j->host_paths[i];
        if (add_host_path(dir, s) < 0)
            return tn_fail_errno(err, errno, "skeleton: %s", s->path);
        if (s->there && strcmp(s->path, JAIL_DPKG) == 0 &&
            make_entries(dir, debian, TN_COUNT(debian), err) < 0)
            return -1;
    }
    if (add_workspace(j, dir, err) < 0)
        return -1;
    if (j->host_root.there && fsetxattr(dir, "trusted.overlay.opaque", "y", 1, 0) < 0)
        return tn_fail_errno(err, errno, "skeleton: opaque");
    return 0;
}

int jail_fill_skeleton(struct jail *j, struct tn_error *err)
{
    if (mkdir("skel/@", 0755) < 0)
        return tn_fail_errno(err, errno, "skeleton");
    tn_autofd int dir = open("skel/@", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return tn_fail_errno(err, errno, "skeleton");
    if (make_entries(dir, basics, TN_COUNT(basics), err) < 0)
        return -1;
    tn_autofd int hand = openat(dir, &TN_JAIL_HAND[1], O_WRONLY | O_CREAT | O_CLOEXEC, 0555);
    if (hand < 0)
        return tn_fail_errno(err, errno, "skeleton: %s", TN_JAIL_HAND);
    if (j->plan.host_paths.count)
        return add_host_paths(j, dir, err);
    tn_autofd int etc = openat(dir, "etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return etc < 0 ? tn_fail_errno(err, errno, "skeleton: etc")
                   : jail_write_default_names(j, etc, err);
}

/* --- what is hidden: a layer of whiteouts
 * --------------------------------------------------------- */

int jail_follow_directories(int host, int mask, const char *path)
{
    tn_autofree char *copy = tn_strdup(path);
    struct stat st;

    for (char *slash = strchr(copy, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (fstatat(host, copy, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode)) {
            errno = ENOENT;
            return -1;
        }
        if (mkdirat(mask, copy, st.st_mode & 07777) < 0 && errno != EEXIST)
            return -1;
        *slash = '/';
    }
    return 0;
}

int jail_hide(int host, int mask, const char *path, struct tn_error *err)
{
    if (faccessat(host, path, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    if (jail_follow_directories(host, mask, path) < 0)
        return errno == ENOENT || errno == ENOTDIR ? 0 : tn_fail_errno(err, errno, "hide %s", path);
    if (mknodat(mask, path, S_IFCHR, 0) < 0 && errno != EEXIST && errno != ENOTDIR)
        return tn_fail_errno(err, errno, "hide %s", path);
    return 0;
}

/* Everything that the world may not read, one by one; owns fd. */
static int hide_unreadable(int top, int mask, int fd, const char *path, int depth,
                           struct tn_error *err)
{
    DIR *dir = fdopendir(fd);
    int r = 0;

    if (!dir || depth > DEPTH_MAX) {
        if (!dir)
            close(fd);
        else
            closedir(dir);
        return tn_fail(err, TN_E_IO, "%s: cannot look for what is private", path);
    }
    for (struct dirent *e; r == 0 && (e = readdir(dir));) {
        struct stat st;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
            fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || S_ISLNK(st.st_mode))
            continue;
        tn_autofree char *below =
            path[0] ? tn_asprintf("%s/%s", path, e->d_name) : tn_strdup(e->d_name);
        if (!S_ISDIR(st.st_mode) ? !(st.st_mode & S_IROTH) : (st.st_mode & 05) != 05) {
            r = jail_hide(top, mask, below, err);
        } else if (S_ISDIR(st.st_mode)) {
            int next =
                openat(dirfd(dir), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
            r = next < 0 ? tn_fail_errno(err, errno, "%s", below)
                         : hide_unreadable(top, mask, next, below, depth + 1, err);
        }
    }
    closedir(dir);
    return r;
}

/* Directories in which an ordinary user, who is root inside, would find nothing to write: the same
 * ones, but root's. */
static const struct {
    const char *host_path, *path;
} own[] = {
    {"/usr", "bin"},         {"/usr", "sbin"},          {"/usr", "lib"},
    {"/usr", "include"},     {"/usr", "share"},         {"/usr", "local"},
    {"/usr", "local/bin"},   {"/usr", "local/sbin"},    {"/usr", "local/lib"},
    {"/usr", "local/share"}, {"/usr", "local/include"}, {"/usr", "local/etc"},
    {"/etc", "profile.d"},
};

static int make_own(int host, int mask, const char *host_path, struct tn_error *err)
{
    struct stat st;

    for (size_t i = 0; i < TN_COUNT(own); i++) {
        if (strcmp(own[i].host_path, host_path) != 0 ||
            fstatat(host, own[i].path, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode) ||
            (st.st_mode & 05) != 05)
            continue;
        if (jail_follow_directories(host, mask, own[i].path) < 0 ||
            (mkdirat(mask, own[i].path, st.st_mode & 0777) < 0 && errno != EEXIST))
            return tn_fail_errno(err, errno, "%s/%s", host_path, own[i].path);
    }
    return 0;
}

/* What is hidden, and what is shown instead, of one host path: host is the directory, mask the
 * layer above it. */
static int fill_mask(struct jail *j, const struct jail_source *s, int host, int mask,
                     struct tn_error *err)
{
    if (jail_hide_found(j, s->path, host, mask, err) < 0)
        return -1;
    if (strcmp(s->path, "/etc") == 0 && jail_write_etc(j, host, mask, err) < 0)
        return -1;
    if (strcmp(s->path, "/usr") == 0 && jail_change_usr(host, mask, err) < 0)
        return -1;
    if (strcmp(s->path, JAIL_DPKG) == 0 && jail_change_dpkg(host, mask, err) < 0)
        return -1;
    if (!j->privileged)
        return make_own(host, mask, s->path, err);
    if (!s->stacked)
        return 0;
    int top = openat(host, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return top < 0 ? tn_fail_errno(err, errno, "%s", s->path)
                   : hide_unreadable(host, mask, top, "", 0, err);
}

/* The mask of a joined path is the skeleton. */
static int mask_joined(struct jail *j, const struct jail_source *s, struct tn_error *err)
{
    const char *path = s->path + strspn(s->path, "/");
    tn_autofree char *host_name = tn_asprintf("hr/%s", path);
    tn_autofree char *mask_name = tn_asprintf("skel/@/%s", path);
    tn_autofd int host = open(host_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    tn_autofd int mask = open(mask_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (host < 0 || mask < 0)
        return tn_fail_errno(err, errno, "%s", s->path);
    return fill_mask(j, s, host, mask, err);
}

/* Others have a layer of their own: mN. */
static int mask_apart(struct jail *j, size_t i, struct tn_error *err)
{
    const struct jail_source *s = &j->host_paths[i];
    char name[32];

    snprintf(name, sizeof name, "h%zu", i);
    tn_autofd int host = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    name[0] = 'm';
    if (host < 0 || mkdir(name, s->mode) < 0)
        return tn_fail_errno(err, errno, "scaffold: %s", name);
    tn_autofd int mask = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return mask < 0 ? tn_fail_errno(err, errno, "scaffold: %s", name)
                    : fill_mask(j, s, host, mask, err);
}

/* --- the view ------------------------------------------------------------------------------ */

static int mount_view(const char *source, const char *view, struct tn_error *err)
{
    tn_autofree char *options = tn_asprintf("lowerdir=%s:empty", source);
    struct jail_actor before;
    int r = 0;

    if (mkdir(view, 0755) < 0 || (mkdir("empty", 0755) < 0 && errno != EEXIST))
        return tn_fail_errno(err, errno, "scaffold: %s", view);
    if (jail_act_as(JAIL_NOBODY, UINT64_C(1) << CAP_SYS_ADMIN, &before, err) < 0)
        return -1;
    if (mount("tendon", view, "overlay", MS_RDONLY | MS_NOSUID | MS_NODEV, options) < 0)
        r = tn_fail_errno(err, errno, "view of %s", source);
    return jail_act_again(&before, r < 0 ? NULL : err) < 0 ? -1 : r;
}

/* --- together ------------------------------------------------------------------------------ */

/* Whether a view is between the jail and each of them: what was searched for at the start says
 * nothing about what appears later. */
static bool has_views(const struct jail *j)
{
    bool any = false;

    for (size_t i = 0; i < j->plan.host_paths.count; i++) {
        const struct jail_source *s = &j->host_paths[i];
        if (s->there && s->stacked)
            return false;
        any = any || s->there;
    }
    return any && j->privileged;
}

int jail_prepare_host(struct jail *j, const char **lower, struct tn_error *err)
{
    *lower = NULL;
    jail_find_hidden(j);
    for (size_t i = 0; i < j->plan.host_paths.count; i++)
        if (j->host_paths[i].joined && mask_joined(j, &j->host_paths[i], err) < 0)
            return -1;
    j->isolation.world_only = has_views(j);
    if (!j->host_root.there)
        return 0;
    *lower = j->host_root.stacked ? "hr" : "vr";
    return j->host_root.stacked ? 0 : mount_view("hr", "vr", err);
}

/* --- one overlay for each ------------------------------------------------------------------ */

/* What the overlay of a host path is called below upper/. */
static char *part_name(const char *path)
{
    char *name = tn_strdup(path + strspn(path, "/"));

    for (char *at = name; *at; at++)
        if (*at == '/')
            *at = '%';
    return name;
}

static int make_storage(const char *upper, const char *work, mode_t mode, struct tn_error *err)
{
    if ((mkdir(upper, mode) < 0 && errno != EEXIST) || mkdir(work, 0700) < 0)
        return tn_fail_errno(err, errno, "storage: %s", upper);
    return 0;
}

static void list_layers(const struct jail *j, const char *part, struct tn_buf *lowers)
{
    for (size_t k = 0; k < j->plan.lowers.count; k++) {
        tn_autofree char *layer = tn_asprintf("l%zu/%s", k, part);
        if (access(layer, F_OK) == 0)
            tn_buf_printf(lowers, "%s:", layer);
    }
}

static int mount_apart(struct jail *j, size_t i, struct tn_error *err)
{
    const struct jail_source *s = &j->host_paths[i];
    bool view = j->privileged && !s->stacked;
    tn_autofree char *part = part_name(s->path);
    tn_autofree char *upper = tn_asprintf("st/upper/%s", part);
    tn_autofree char *work = tn_asprintf("st/work-%s", part);
    tn_autobuf struct tn_buf lowers = TN_BUF_INIT(4000);
    char source[32], seen[32], on[40];

    snprintf(source, sizeof source, "h%zu", i);
    snprintf(seen, sizeof seen, "v%zu", i);
    if (mask_apart(j, i, err) < 0 || (view && mount_view(source, seen, err) < 0) ||
        make_storage(upper, work, s->mode, err) < 0)
        return -1;
    list_layers(j, part, &lowers);
    tn_buf_printf(&lowers, "m%zu:%s", i, view ? seen : source);
    tn_autofd int target =
        sys_openat2(j->root, s->path + strspn(s->path, "/"), O_PATH | O_DIRECTORY | O_CLOEXEC, 0,
                    RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
    if (target < 0)
        return tn_fail_errno(err, errno, "%s inside", s->path);
    snprintf(on, sizeof on, "/proc/self/fd/%d", target);
    return jail_mount_overlay(j, on, tn_buf_str(&lowers), upper, work, false, err);
}

int jail_mount_host_paths(struct jail *j, struct tn_error *err)
{
    for (size_t i = 0; i < j->plan.host_paths.count; i++) {
        const struct jail_source *s = &j->host_paths[i];
        if (s->there && !s->joined && mount_apart(j, i, err) < 0)
            return tn_error_context(err, "%s", s->path);
    }
    return 0;
}
