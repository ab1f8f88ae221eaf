/* Whom programs inside believe: the authorities of the image (of this machine, where the image has
 * none), and that of the sandbox, whose key the gate has.
 *
 * The files lie in the scaffold of a jail or the directory of a container, which nobody inside
 * reaches, and are mounted read-only over the bundles that the image has.  Where one of these is a
 * link it is followed within the root. */
#include "gate/roots.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/fs.h"
#include "jail/jail.h"
#include "jail/sys.h"

enum { BUNDLE_MAX = 8 << 20, POLICY_MAX = 64 << 10 };
#define MARK "# The authority of this sandbox:\n" /* what is before it is the image's */

/* flags: O_EXCL for a new one; else it is written where it is, for it may be mounted. */
static int write_file(int dir, const char *name, int flags, const char *text, size_t size,
                      struct tn_error *err)
{
    tn_autofd int fd =
        openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | flags | O_NOFOLLOW | O_CLOEXEC, 0644);

    if (fd < 0 || fchmod(fd, 0644) < 0)
        return tn_fail_errno(err, errno, "%s for the inside", name);
    return tn_fs_write(fd, text, size, err);
}

static int mount_of(int dir, const char *name, struct tn_error *err)
{
    tn_autofd int mount = sys_clone_mount(dir, name, 0);

    if (mount < 0 ||
        sys_set_mount(mount,
                      MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC,
                      -1, 0) < 0)
        return tn_fail_errno(err, errno, "mount of %s", name);
    return TN_TAKE_FD(mount);
}

/* resolve: 0, or RESOLVE_NO_XDEV to stay in the file system of the root. */
static int open_bundle(int root, const char *path, int flags, uint64_t resolve)
{
    struct stat st;
    tn_autofd int fd = sys_openat2(root, path, flags | O_CLOEXEC, 0,
                                   RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS | resolve);

    return fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? TN_TAKE_FD(fd) : -1;
}

/* The first bundle of that root, or what could be read of it. */
static bool read_bundle(int root, uint64_t resolve, struct tn_buf *out)
{
    for (const char *const *path = tn_root_bundles; *path; path++) {
        tn_autofd int fd = open_bundle(root, *path, O_RDONLY | O_NONBLOCK | O_NOCTTY, resolve);
        if (fd < 0)
            continue;
        tn_fs_read_fd(fd, out, NULL);
        tn_buf_puts(out, "\n");
        return true;
    }
    return false;
}

/* Without one there are this machine's: variables lead to what is made of it, so that a program
 * that brought a list of its own would believe nobody else. */
static void read_image(int root, uint64_t resolve, struct tn_buf *out)
{
    if (read_bundle(root, resolve, out))
        return;
    tn_autofd int machine = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    read_bundle(machine, 0, out);
}

/* What is between the lines BEGIN and END of the one certificate, without ends of lines. */
static void put_certificate(struct tn_buf *out, const char *pem)
{
    const char *at = strchr(pem, '\n');

    for (; at && *at && *at != '-'; at++)
        if (*at > ' ')
            tn_buf_putc(out, *at);
}

static int write_policy(int dir, int flags, const char *authority, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(POLICY_MAX);

    tn_buf_puts(&text, "{\"CACertificates\": [\"");
    put_certificate(&text, authority);
    tn_buf_puts(&text, "\"]}\n");
    return tn_buf_ok(&text) ? write_file(dir, TN_ROOTS_POLICY_FILE, flags, text.data, text.len, err)
                            : tn_fail(err, TN_E_TOO_LARGE, "the authority is too large");
}

/* bundle: what comes before the authority; it is added. */
static int write_files(int dir, int flags, struct tn_buf *bundle, const char *authority,
                       struct tn_error *err)
{
    tn_buf_puts(bundle, MARK);
    tn_buf_puts(bundle, authority);
    if (!tn_buf_ok(bundle))
        return tn_fail(err, TN_E_TOO_LARGE, "the bundle of authorities is larger than %d bytes",
                       BUNDLE_MAX);
    if (write_file(dir, TN_ROOTS_AUTHORITY_FILE, flags, authority, strlen(authority), err) < 0 ||
        write_file(dir, TN_ROOTS_BUNDLE_FILE, flags, bundle->data, bundle->len, err) < 0)
        return -1;
    return write_policy(dir, flags, authority, err);
}

/* --- a jail -------------------------------------------------------------------------------- */

int jail_write_roots(struct jail *j, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(BUNDLE_MAX);
    const char *authority = j->plan.authority;

    if (!authority)
        return 0;
    read_image(j->root, 0, &text);
    if (write_files(AT_FDCWD, O_EXCL, &text, authority, err) < 0)
        return -1;
    j->authority = mount_of(AT_FDCWD, TN_ROOTS_AUTHORITY_FILE, err);
    j->bundles = tn_calloc(tn_root_bundle_count + 1, sizeof *j->bundles);
    for (size_t i = 0; j->authority >= 0 && i <= tn_root_bundle_count; i++) {
        j->bundles[i] = mount_of(AT_FDCWD, TN_ROOTS_BUNDLE_FILE, err);
        if (j->bundles[i] < 0)
            return -1;
    }
    j->policies = tn_calloc(tn_root_policy_count, sizeof *j->policies);
    for (size_t i = 0; j->authority >= 0 && i < tn_root_policy_count; i++) {
        j->policies[i] = mount_of(AT_FDCWD, TN_ROOTS_POLICY_FILE, err);
        if (j->policies[i] < 0)
            return -1;
    }
    return j->authority < 0 ? -1 : 0;
}

static bool has_variable(const struct tn_str_list *env, const char *variable)
{
    size_t n = strcspn(variable, "=") + 1;

    for (size_t i = 0; i < env->count; i++)
        if (strncmp(env->items[i], variable, n) == 0)
            return true;
    return false;
}

static void add_variables(struct tn_str_list *env)
{
    for (const char *const *v = tn_root_variables; *v; v++) {
        if (has_variable(env, *v))
            continue;
        env->items = tn_realloc(env->items, (env->count + 2) * sizeof *env->items);
        env->items[env->count++] = tn_strdup(*v);
        env->items[env->count] = NULL;
    }
}

/* Where an image has something in the way, its browser refuses what others believe. */
static void show_policies(const struct jail *j)
{
    for (size_t i = 0; i < tn_root_policy_count; i++)
        jail_attach(j, j->policies[i], tn_root_policies[i], false, NULL);
}

int jail_show_roots(struct jail *j, struct tn_error *err)
{
    if (!j->plan.authority)
        return 0;
    if (jail_attach(j, j->authority, TN_ROOTS_AUTHORITY, false, err) < 0 ||
        jail_attach(j, j->bundles[tn_root_bundle_count], TN_ROOTS_BUNDLE, false, err) < 0)
        return -1;
    for (size_t i = 0; i < tn_root_bundle_count; i++) {
        tn_autofd int on = open_bundle(j->root, tn_root_bundles[i], O_PATH, 0);
        if (on >= 0 && sys_attach_mount(j->bundles[i], on) < 0)
            return tn_fail_errno(err, errno, "mount %s inside", tn_root_bundles[i]);
    }
    show_policies(j);
    add_variables(&j->plan.env);
    return 0;
}

/* --- a container --------------------------------------------------------------------------- */

/* Opens the path as open_bundle does; -1 unless it is our file of all authorities. */
static int open_ours(int directory, int root, const char *path)
{
    struct stat ours, theirs;
    tn_autofd int fd = open_bundle(root, path, O_PATH, 0);

    return fd >= 0 && fstat(fd, &theirs) == 0 &&
                   fstatat(directory, TN_ROOTS_BUNDLE_FILE, &ours, AT_SYMLINK_NOFOLLOW) == 0 &&
                   theirs.st_ino == ours.st_ino && theirs.st_dev == ours.st_dev
               ? TN_TAKE_FD(fd)
               : -1;
}

/* Whether the bundle of a container is covered by ours, of a keeper before. */
static bool is_covered(int directory, int root)
{
    for (const char *const *path = tn_root_bundles; *path; path++) {
        tn_autofd int fd = open_ours(directory, root, *path);
        if (fd >= 0)
            return true;
    }
    return false;
}

/* What the container had before ours was there.  Its links lead to no file of /proc or of a volume:
 * this process may read more of these than those inside. */
static void read_container(int directory, int root, struct tn_buf *out)
{
    if (!is_covered(directory, root)) {
        read_image(root, RESOLVE_NO_XDEV, out);
        return;
    }
    tn_fs_read(directory, TN_ROOTS_BUNDLE_FILE, out, NULL);
    const char *mark = strstr(tn_buf_str(out), MARK);
    if (mark)
        tn_buf_cut(out, (size_t)(mark - out->data));
}

/* In a process of its own, which is in the container's file systems until it ends: those of its
 * bundles that are not covered yet, by what the engine has mounted of ours (an ordinary user can
 * mount nothing from outside).  The errno that it ends with. */
static int cover(int directory, int mounts)
{
    if (jail_become_owner(mounts, NULL) < 0 || setns(mounts, CLONE_NEWNS) < 0)
        return errno;
    tn_autofd int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    tn_autofd int ours = open_ours(directory, root, TN_ROOTS_BUNDLE);
    if (ours < 0)
        return ENOENT;
    for (size_t i = 0; i < tn_root_bundle_count; i++) {
        tn_autofd int on = open_bundle(root, tn_root_bundles[i], O_PATH, RESOLVE_NO_XDEV);
        tn_autofd int mount = on < 0 ? -1 : mount_of(ours, "", NULL);
        if (on >= 0 && (mount < 0 || sys_attach_mount(mount, on) < 0))
            return errno;
    }
    return 0;
}

int jail_show_roots_of_container(int directory, int root, int mounts, const char *authority,
                                 struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(BUNDLE_MAX);
    int status = 0;

    read_container(directory, root, &text);
    if (write_files(directory, 0, &text, authority, err) < 0)
        return -1;
    pid_t pid = fork();
    if (pid == 0)
        _exit(cover(directory, mounts));
    if (pid < 0 || waitpid(pid, &status, 0) < 0)
        return tn_fail_errno(err, errno, "fork");
    return WIFEXITED(status) && WEXITSTATUS(status) == 0
               ? 0
               : tn_fail_errno(err, WIFEXITED(status) ? WEXITSTATUS(status) : EINTR,
                               "bundle of authorities of the container");
}
