/* tendon-jail --probe: what this machine offers to a jail, tried and not guessed.
 *
 * One JSON object: {"findings": [{"what": ..., "good": bool, "needed": bool, "detail": ...}, ...]}.
 * detail says what was found or, where something is missing, how to get it. */
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "jail/jail.h"
#include "jail/sys.h"

enum { DETAIL_MAX = 400 };

struct probe {
    bool root;
    struct tn_cgroups cgroups;
    char detail[DETAIL_MAX];
};

/* Runs fn in a child of its own, in new namespaces; true when it ended with 0. */
static bool try_in_child(uint64_t flags, int (*fn)(void))
{
    struct clone_args args = {.flags = flags, .exit_signal = SIGCHLD};
    int status = 0;
    uid_t uid = geteuid();
    gid_t gid = getegid();
    pid_t pid = sys_clone3(&args);

    if (pid == 0)
        _exit((flags & CLONE_NEWUSER && jail_map_own(uid, gid, NULL) < 0) || (fn && fn() != 0));
    if (pid < 0)
        return false;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void say(struct probe *p, const char *text)
{
    snprintf(p->detail, sizeof p->detail, "%s", text);
}

/* --- one function for each finding
 * ---------------------------------------------------------------- */

static bool kernel(struct probe *p)
{
    struct utsname u;
    unsigned major = 0, minor = 0;

    uname(&u);
    sscanf(u.release, "%u.%u", &major, &minor);
    bool good = major > 5 || (major == 5 && minor >= 12);
    snprintf(p->detail, sizeof p->detail, "Linux %.60s%s", u.release,
             good ? "" : "; 5.12 or newer is needed");
    return good;
}

static bool user_namespaces(struct probe *p)
{
    if (try_in_child(CLONE_NEWUSER, NULL)) {
        say(p, p->root ? "available" : "available to ordinary users");
        return true;
    }
    say(p, "refused; see sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone and "
           "kernel.apparmor_restrict_unprivileged_userns");
    return false;
}

static bool other_namespaces(struct probe *p)
{
    uint64_t flags = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWNET |
                     CLONE_NEWCGROUP | (p->root ? 0U : CLONE_NEWUSER);
    if (try_in_child(flags, NULL)) {
        say(p, "mount, pid, ipc, uts, network and cgroup namespaces are available");
        return true;
    }
    say(p, p->root ? "refused: inside a container it needs CAP_SYS_ADMIN and no system call filter"
                   : "refused: they need user namespaces");
    return false;
}

static int mount_overlay(void)
{
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("t", "/tmp", "tmpfs", 0, NULL) < 0 || mkdir("/tmp/l", 0755) < 0 ||
        mkdir("/tmp/u", 0755) < 0 || mkdir("/tmp/w", 0755) < 0 || mkdir("/tmp/m", 0755) < 0)
        return 1;
    return mount("t", "/tmp/m", "overlay", 0,
                 tn_jail_in_first_userns()
                     ? "lowerdir=/tmp/l,upperdir=/tmp/u,workdir=/tmp/w"
                     : "lowerdir=/tmp/l,upperdir=/tmp/u,workdir=/tmp/w,userxattr") < 0;
}

static bool overlay(struct probe *p)
{
    if (try_in_child(CLONE_NEWNS | (p->root ? 0U : CLONE_NEWUSER), mount_overlay)) {
        say(p, "overlay file systems can be mounted");
        return true;
    }
    say(p, "cannot mount an overlay; it takes the module overlay (modprobe overlay) and, for "
           "ordinary users, Linux 5.11 or newer");
    return false;
}

static int mount_proc(void)
{
    const char *const none[] = {NULL};
    return jail_new_mount("proc", none, 0, NULL) < 0;
}

static bool private_proc(struct probe *p)
{
    if (try_in_child(CLONE_NEWNS | CLONE_NEWPID | (p->root ? 0U : CLONE_NEWUSER), mount_proc)) {
        say(p, "a private /proc can be mounted");
        return true;
    }
    say(p, "cannot mount /proc: a container around this one hides parts of it");
    return false;
}

static bool idmap(struct probe *p)
{
    if (!p->root) {
        say(p, "only root can map owners; files of ordinary users stay their own");
        return false;
    }
    tn_autofd int userns =
        jail_make_userns(0, JAIL_RANGE_FIRST, 0, JAIL_RANGE_FIRST, JAIL_IDS, NULL);
    jail_bury_holders();
    tn_autofd int usr = sys_clone_mount(AT_FDCWD, "/usr", 0);
    if (userns >= 0 && usr >= 0 && sys_set_mount(usr, MOUNT_ATTR_IDMAP, userns, 0) == 0) {
        say(p, "owners of files are mapped: root inside is nobody outside");
        return true;
    }
    say(p, "the file system of /usr cannot be shown with other owners (Linux 5.19 and ext4, xfs or "
           "btrfs can); root inside keeps number 0, without its rights");
    return false;
}

static bool seccomp(struct probe *p)
{
    uint32_t action = SECCOMP_RET_KILL_PROCESS;
    bool good = syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;

    say(p, good ? "system calls are filtered" : "the kernel lacks CONFIG_SECCOMP_FILTER");
    return good;
}

static bool landlock(struct probe *p)
{
    int version = jail_landlock_version();

    snprintf(p->detail, sizeof p->detail,
             version >= 6  ? "version %d: signals and abstract sockets stay inside"
             : version > 0 ? "version %d; 6 (Linux 6.12) would keep abstract sockets inside"
                           : "not there (boot with lsm=landlock,...)",
             version);
    return version >= 6;
}

static bool cgroup_limit(struct probe *p, enum tn_cgroup_kind kind, const char *what)
{
    bool good = tn_cgroups_can_limit(&p->cgroups, kind);

    if (good)
        snprintf(p->detail, sizeof p->detail, "%s is limited by %s", what,
                 p->cgroups.base[kind] ? p->cgroups.base[kind]
                                       : p->cgroups.base[TN_CGROUP_UNIFIED]);
    else
        say(p, p->cgroups.why ? p->cgroups.why : "no control group here has the controller");
    return good;
}

static int raise_wall(void)
{
    static struct jail none;
    struct tn_wall wall;

    if (jail_make_network(&none, NULL) < 0)
        return 1;
    int r = tn_wall_raise(&wall, NULL);
    tn_wall_done(&wall);
    return r < 0;
}

static bool gate(struct probe *p)
{
    if (try_in_child(p->root ? 0U : CLONE_NEWUSER, raise_wall)) {
        say(p, "sandboxes can have a network behind the gate (open, allow)");
        return true;
    }
    say(p, "the networks open and allow take nf_tables and nft_tproxy (CONFIG_NF_TABLES, "
           "CONFIG_NFT_TPROXY; modprobe nft_tproxy)");
    return false;
}

static bool memory_limit(struct probe *p)
{
    return cgroup_limit(p, TN_CGROUP_MEMORY, "memory");
}

static bool cpu_limit(struct probe *p)
{
    return cgroup_limit(p, TN_CGROUP_CPU, "processor time");
}

static bool pids_limit(struct probe *p)
{
    if (cgroup_limit(p, TN_CGROUP_PIDS, "the number of processes"))
        return true;
    if (p->root || !tn_nproc_is_per_namespace())
        return false;
    say(p, "the number of processes is limited by RLIMIT_NPROC in its user namespace");
    return true;
}

static bool freezer(struct probe *p)
{
    bool v2 = p->cgroups.base[TN_CGROUP_UNIFIED], v1 = p->cgroups.base[TN_CGROUP_FREEZER];

    say(p, v2   ? "sandboxes are frozen and killed as a whole by cgroup v2"
           : v1 ? "sandboxes are frozen by cgroup v1"
                : "pausing stops each process by a signal instead");
    return v2 || v1;
}

static const struct {
    const char *name, *what;
    bool needed;
    bool (*find)(struct probe *p);
} findings[] = {
    {"kernel", "kernel", true, kernel},
    {"user", "user namespaces", true, user_namespaces},
    {"namespaces", "other namespaces", true, other_namespaces},
    {"overlay", "overlay file systems", true, overlay},
    {"proc", "private /proc", true, private_proc},
    {"idmap", "mapped owners", false, idmap},
    {"seccomp", "system call filter", true, seccomp},
    {"landlock", "Landlock", false, landlock},
    {"gate", "network gate", false, gate},
    {"memory_limit", "memory limit", false, memory_limit},
    {"cpu_limit", "processor limit", false, cpu_limit},
    {"pids_limit", "process limit", false, pids_limit},
    {"freeze", "freezing", false, freezer},
};

int jail_probe(void)
{
    struct probe p = {.root = geteuid() == 0};
    tn_autobuf struct tn_buf text = TN_BUF_INIT(64 << 10);
    struct tn_jw w = tn_jw(&text);

    tn_cgroups_find(&p.cgroups, NULL);
    tn_jw_object(&w);
    tn_jw_key(&w, "findings");
    tn_jw_array(&w);
    for (size_t i = 0; i < TN_COUNT(findings); i++) {
        bool good = findings[i].find(&p);
        tn_jw_object(&w);
        tn_jw_kstr(&w, "name", findings[i].name);
        tn_jw_kstr(&w, "what", findings[i].what);
        tn_jw_kbool(&w, "good", good);
        tn_jw_kbool(&w, "needed", findings[i].needed);
        tn_jw_kstr(&w, "detail", p.detail);
        tn_jw_object_end(&w);
    }
    tn_jw_array_end(&w);
    tn_jw_object_end(&w);
    tn_cgroups_done(&p.cgroups);
    return puts(tn_buf_str(&text)) < 0;
}
