/* Whom programs inside believe: the authorities of the image, and that of the sandbox, whose key
 * the gate has.
 *
 * The files lie in the scaffold, which nobody inside reaches, and are mounted read-only over the
 * bundles that the image has.  Where one of these is a link it is followed within the root. */
#include "gate/roots.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "jail/jail.h"
#include "jail/sys.h"

enum { BUNDLE_MAX = 8 << 20, POLICY_MAX = 64 << 10 };

static int write_file(const char *name, const char *text, size_t size, struct tn_error *err)
{
    tn_autofd int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0444);

    if (fd < 0)
        return tn_fail_errno(err, errno, "%s of the scaffold", name);
    return tn_fs_write(fd, text, size, err);
}

static int mount_of(const char *name, struct tn_error *err)
{
    tn_autofd int mount = sys_clone_mount(AT_FDCWD, name, 0);

    if (mount < 0 ||
        sys_set_mount(mount,
                      MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC,
                      -1, 0) < 0)
        return tn_fail_errno(err, errno, "mount of %s", name);
    return TN_TAKE_FD(mount);
}

static int open_bundle(const struct jail *j, const char *path, int flags)
{
    struct stat st;
    tn_autofd int fd =
        sys_openat2(j->root, path, flags | O_CLOEXEC, 0, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);

    return fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? TN_TAKE_FD(fd) : -1;
}

/* The first bundle of the image, or what could be read of it. */
static void read_bundle(const struct jail *j, struct tn_buf *out)
{
    for (const char *const *path = tn_root_bundles; *path; path++) {
        tn_autofd int fd = open_bundle(j, *path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
        if (fd < 0)
            continue;
        tn_fs_read_fd(fd, out, NULL);
        tn_buf_puts(out, "\n");
        return;
    }
}

/* What is between the lines BEGIN and END of the one certificate, without ends of lines. */
static void put_certificate(struct tn_buf *out, const char *pem)
{
    const char *at = strchr(pem, '\n');

    for (; at && *at && *at != '-'; at++)
        if (*at > ' ')
            tn_buf_putc(out, *at);
}

static int write_policy(const char *authority, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(POLICY_MAX);

    tn_buf_puts(&text, "{\"CACertificates\": [\"");
    put_certificate(&text, authority);
    tn_buf_puts(&text, "\"]}\n");
    return tn_buf_ok(&text) ? write_file("policy.json", text.data, text.len, err)
                            : tn_fail(err, TN_E_TOO_LARGE, "the authority is too large");
}

int jail_write_roots(struct jail *j, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(BUNDLE_MAX);
    const char *authority = j->plan.authority;

    if (!authority)
        return 0;
    read_bundle(j, &text);
    tn_buf_puts(&text, authority);
    if (!tn_buf_ok(&text))
        return tn_fail(err, TN_E_TOO_LARGE, "the bundle of authorities is larger than %d bytes",
                       BUNDLE_MAX);
    if (write_file("authority.pem", authority, strlen(authority), err) < 0 ||
        write_file("roots.pem", text.data, text.len, err) < 0 || write_policy(authority, err) < 0)
        return -1;
    j->authority = mount_of("authority.pem", err);
    j->bundles = tn_calloc(tn_root_bundle_count + 1, sizeof *j->bundles);
    for (size_t i = 0; j->authority >= 0 && i <= tn_root_bundle_count; i++) {
        j->bundles[i] = mount_of("roots.pem", err);
        if (j->bundles[i] < 0)
            return -1;
    }
    j->policies = tn_calloc(tn_root_policy_count, sizeof *j->policies);
    for (size_t i = 0; j->authority >= 0 && i < tn_root_policy_count; i++) {
        j->policies[i] = mount_of("policy.json", err);
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
        tn_autofd int on = open_bundle(j, tn_root_bundles[i], O_PATH);
        if (on >= 0 && sys_attach_mount(j->bundles[i], on) < 0)
            return tn_fail_errno(err, errno, "mount %s inside", tn_root_bundles[i]);
    }
    show_policies(j);
    add_variables(&j->plan.env);
    return 0;
}
