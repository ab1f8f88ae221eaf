/* Files of the system that a jail has of its own: the names of its network, accounts without the
 * host's passwords, sudo's rules, and what makes package managers work.
 *
 * Over the host's directories they are part of the layer that also hides (host.c); in an image they
 * are put where there is nothing. */
#include <dirent.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/fs.h"
#include "jail/jail.h"
#include "jail/sys.h"

enum { ETC_MAX = 1 << 20 };

static const char *host_name(const struct jail *j)
{
    return j->plan.hostname ? j->plan.hostname : "tendon";
}

static int write_new(int dir, const char *name, mode_t mode, const char *text, struct tn_error *err)
{
    tn_autofd int fd =
        openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);

    if (fd < 0 || tn_fs_write(fd, text, strlen(text), NULL) < 0)
        return tn_fail_errno(err, errno, "/etc/%s inside", name);
    return 0;
}

/* A regular file of at most ETC_MAX; whoever made an image may have put anything there. */
static bool read_small(int dir, const char *name, struct tn_buf *out)
{
    struct stat st;
    tn_autofd int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

    return fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
           tn_fs_read_fd(fd, out, NULL) == 0;
}

/* --- the names of the network -------------------------------------------------------------- */

/* Whether a line of a hosts file has the name. */
static bool knows_name(const char *hosts, const char *name)
{
    size_t n = strlen(name);

    for (const char *at = hosts; (at = strstr(at, name)); at += n) {
        bool begins = at > hosts && strchr(" \t", at[-1]);
        if (begins && (!at[n] || strchr(" \t\r\n#", at[n])))
            return true;
    }
    return false;
}

/* localhost is 127.0.0.1 alone: servers listen there, and many clients try the first address only,
 * which would be ::1.  In a container that has no IPv6 it is the same. */
static void add_name(struct tn_buf *out, const char *name)
{
    if (out->len == 0)
        tn_buf_puts(out, "127.0.0.1\tlocalhost\n::1\tip6-localhost ip6-loopback\n");
    else if (out->data[out->len - 1] != '\n')
        tn_buf_putc(out, '\n');
    if (!knows_name(tn_buf_str(out), name))
        tn_buf_printf(out, "127.0.1.1\t%s\n", name);
}

/* With the network of the host its names stay; the jail's own comes along. */
static void fill_hosts(const struct jail *j, int host, struct tn_buf *out)
{
    if (j->plan.network == TN_JAIL_NET_HOST && host >= 0)
        read_small(host, "hosts", out);
    add_name(out, host_name(j));
}

static int write_names(const struct jail *j, int host, int etc, struct tn_error *err)
{
    tn_autofree char *name = tn_asprintf("%s\n", host_name(j));
    tn_autobuf struct tn_buf hosts = TN_BUF_INIT(ETC_MAX + 4096);

    fill_hosts(j, host, &hosts);
    if (write_new(etc, "hostname", 0644, name, err) < 0)
        return -1;
    return write_new(etc, "hosts", 0644, tn_buf_str(&hosts), err);
}

int jail_write_default_names(struct jail *j, int etc, struct tn_error *err)
{
    return write_names(j, -1, etc, err);
}

/* Puts text in the place of the file, whatever that was. */
static int replace(int etc, const char *name, const char *text, struct tn_error *err)
{
    if (unlinkat(etc, name, 0) < 0 && errno != ENOENT)
        return tn_fail_errno(err, errno, "/etc/%s inside", name);
    return write_new(etc, name, 0644, text, err);
}

/* What an image brings along is of the machine where it was made. */
int jail_correct_names(struct jail *j, struct tn_error *err)
{
    tn_autobuf struct tn_buf hosts = TN_BUF_INIT(ETC_MAX), name = TN_BUF_INIT(ETC_MAX);
    tn_autofree char *ours = tn_asprintf("%s\n", host_name(j));

    if (j->plan.host_paths.count)
        return 0;
    tn_autofd int path = jail_open_inside(j, "/etc", true, err);
    tn_autofd int etc = path < 0 ? -1 : openat(path, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (etc < 0)
        return path < 0 ? -1 : tn_fail_errno(err, errno, "/etc inside");
    read_small(etc, "hostname", &name);
    if (strcmp(tn_buf_str(&name), ours) != 0 && replace(etc, "hostname", ours, err) < 0)
        return -1;
    read_small(etc, "hosts", &hosts);
    if (knows_name(tn_buf_str(&hosts), host_name(j)))
        return 0;
    tn_autobuf struct tn_buf all = TN_BUF_INIT(ETC_MAX + 4096);
    tn_buf_add(&all, hosts.data, hosts.len);
    fill_hosts(j, -1, &all);
    return replace(etc, "hosts", tn_buf_str(&all), err);
}

/* The hosts file without the line that a jail of the old name had of us. */
static void drop_line(const char *hosts, const char *old, struct tn_buf *out)
{
    tn_autofree char *line = tn_asprintf("127.0.1.1\t%s\n", old);
    size_t n = strlen(line);
    const char *at = hosts;

    while ((at = strstr(at, line)) && at > hosts && at[-1] != '\n')
        at++;
    tn_buf_add(out, hosts, at ? (size_t)(at - hosts) : strlen(hosts));
    if (at)
        tn_buf_puts(out, at + n);
}

int jail_change_names(int etc, const char *old, const char *name, struct tn_error *err)
{
    tn_autobuf struct tn_buf hosts = TN_BUF_INIT(ETC_MAX), all = TN_BUF_INIT(ETC_MAX + 4096);
    tn_autofree char *line = tn_asprintf("%s\n", name);

    if (read_small(etc, "hosts", &hosts))
        drop_line(tn_buf_str(&hosts), old, &all);
    add_name(&all, name);
    return replace(etc, "hostname", line, err) < 0 ||
                   replace(etc, "hosts", tn_buf_str(&all), err) < 0
               ? -1
               : 0;
}

/* --- accounts ------------------------------------------------------------------------------ */

#define SUDOERS                                                                                \
    "# Of this sandbox alone: who is root here is nobody outside.\n"                           \
    "Defaults\tenv_reset\n"                                                                    \
    "Defaults\tsecure_path=\"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\"\n" \
    "root\tALL=(ALL:ALL) ALL\n"                                                                \
    "%sudo\tALL=(ALL:ALL) NOPASSWD: ALL\n"                                                     \
    "@includedir /etc/sudoers.d\n"

/* Whether what was listed as hidden is: then there is one outside. */
static bool is_hidden(int mask, const char *name)
{
    struct stat st;

    return fstatat(mask, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISCHR(st.st_mode) &&
           st.st_rdev == makedev(0, 0);
}

/* The host's accounts, all of them locked: without any entry su and sudo refuse everybody. */
static void fill_shadow(int host, struct tn_buf *out)
{
    tn_autobuf struct tn_buf accounts = TN_BUF_INIT(ETC_MAX);

    if (!read_small(host, "passwd", &accounts))
        return;
    for (const char *line = tn_buf_str(&accounts); *line;) {
        size_t name = strcspn(line, ":\n");
        if (name > 0 && line[name] == ':')
            tn_buf_printf(out, "%.*s:*:::::::\n", (int)name, line);
        line += strcspn(line, "\n");
        line += *line == '\n';
    }
}

/* An overlay cannot copy up what belongs to nobody inside, and useradd opens these for writing.
 * What it keeps beside them as a backup, it makes anew. */
static int own_accounts(int host, int mask, struct tn_error *err)
{
    static const char *const files[] = {"passwd", "group", "subuid", "subgid"};

    for (size_t i = 0; i < TN_COUNT(files); i++) {
        tn_autobuf struct tn_buf text = TN_BUF_INIT(ETC_MAX);
        tn_autofree char *backup = tn_asprintf("%s-", files[i]);
        if (jail_hide(host, mask, backup, err) < 0)
            return -1;
        if (!is_hidden(mask, files[i]) && read_small(host, files[i], &text) &&
            write_new(mask, files[i], 0644, tn_buf_str(&text), err) < 0)
            return -1;
    }
    return 0;
}

static int write_accounts(const struct jail *j, int host, int mask, struct tn_error *err)
{
    tn_autobuf struct tn_buf shadow = TN_BUF_INIT(2 * ETC_MAX);

    if (jail_hide(host, mask, ".pwd.lock", err) < 0) /* root's alone: nobody could take it */
        return -1;
    if (!j->privileged && own_accounts(host, mask, err) < 0)
        return -1;
    if (is_hidden(mask, "shadow")) {
        fill_shadow(host, &shadow);
        unlinkat(mask, "shadow", 0);
        if (write_new(mask, "shadow", 0640, tn_buf_str(&shadow), err) < 0)
            return -1;
    }
    if (is_hidden(mask, "sudoers")) {
        unlinkat(mask, "sudoers", 0);
        return write_new(mask, "sudoers", 0440, SUDOERS, err);
    }
    return 0;
}

/* --- packages ------------------------------------------------------------------------------ */

/* apt downloads as a user of its own, who does not exist where root is alone. */
static int write_apt(const struct jail *j, int host, int mask, struct tn_error *err)
{
    static const char name[] = "apt/apt.conf.d/90sandbox";
    struct stat st;

    if (j->mapping != TN_JAIL_MAP_OWN || fstatat(host, "apt/apt.conf.d", &st, 0) < 0)
        return 0;
    if (jail_follow_directories(host, mask, name) < 0)
        return errno == ENOENT ? 0 : tn_fail_errno(err, errno, "/etc/%s inside", name);
    return write_new(mask, name, 0644, "APT::Sandbox::User \"root\";\n", err);
}

int jail_write_etc(const struct jail *j, int host, int mask, struct tn_error *err)
{
    if (write_names(j, host, mask, err) < 0 || write_accounts(j, host, mask, err) < 0)
        return -1;
    return write_apt(j, host, mask, err);
}

/* The mark by which a distribution keeps pip out of its own directories: here they are the
 * sandbox's. */
static int allow_pip(int host, int mask, struct tn_error *err)
{
    int fd = openat(host, "lib", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    int r = 0;

    if (!dir)
        tn_close(fd);
    for (struct dirent *e; dir && r == 0 && (e = readdir(dir));) {
        if (fnmatch("python3.[0-9]*", e->d_name, 0) != 0)
            continue;
        tn_autofree char *path = tn_asprintf("lib/%s/EXTERNALLY-MANAGED", e->d_name);
        r = jail_hide(host, mask, path, err);
    }
    if (dir)
        closedir(dir);
    return r;
}

static bool is_there(int host, const char *path)
{
    return faccessat(host, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* The name that everybody types; Debian has it only on request. */
static int link_python(int host, int mask, struct tn_error *err)
{
    if (is_there(host, "bin/python") || is_there(host, "local/bin/python") ||
        !is_there(host, "bin/python3"))
        return 0;
    if (jail_follow_directories(host, mask, "bin/python") < 0 ||
        symlinkat("python3", mask, "bin/python") < 0)
        return tn_fail_errno(err, errno, "/usr/bin/python inside");
    return 0;
}

int jail_change_usr(int host, int mask, struct tn_error *err)
{
    return allow_pip(host, mask, err) < 0 ? -1 : link_python(host, mask, err);
}

/* Locks that only root may read: the jail's own take their place. */
int jail_change_dpkg(int host, int mask, struct tn_error *err)
{
    static const char *const locks[] = {"lock", "lock-frontend", "triggers/Lock"};

    for (size_t i = 0; i < TN_COUNT(locks); i++)
        if (jail_hide(host, mask, locks[i], err) < 0)
            return -1;
    return 0;
}
