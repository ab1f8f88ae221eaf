/* The process that becomes PID 1: it builds the jail around itself, step by step, and ends in the
 * program of the plan. */
#include <fcntl.h>
#include <linux/close_range.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "jail/jail.h"
#include "jail/message.h"
#include "jail/sys.h"

/* --- steps that are too small for a file of their own ------------------------------------------
 */

/* A session of its own, without a terminal: nobody can type into the caller's. */
static int leave_session(struct jail *j, struct tn_error *err)
{
    sigset_t none;
    tn_autofd int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setsid();
    int output = j->output >= 0 ? j->output : null;
    if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(output, STDOUT_FILENO) < 0 ||
        dup2(output, STDERR_FILENO) < 0)
        return tn_fail_errno(err, errno, "standard descriptors");
    return 0;
}

/* Root has opened everything outside already. */
static int open_as_user(struct jail *j, struct tn_error *err)
{
    struct jail_message message = {.kind = JAIL_STORAGE};

    if (j->privileged)
        return 0;
    int r = jail_open_sources(j, err);
    if (r == 0)
        r = jail_open_storage(j, err);
    if (r == 0 && j->plan.storage)
        r = jail_mount_storage(j, j->storage, err);
    return r == 0 ? jail_send(j->control, &message, j->storage, err) : -1;
}

static int act_as_root(struct jail *j, struct tn_error *err)
{
    return jail_act_as_root(j, err);
}

static int set_hostname(struct jail *j, struct tn_error *err)
{
    const char *name = j->plan.hostname ? j->plan.hostname : "tendon";

    if (sethostname(name, strlen(name)) < 0)
        return tn_fail_errno(err, errno, "host name");
    return 0;
}

static void write_setting(const char *path, const char *text)
{
    tn_autofd int fd = open(path, O_WRONLY | O_CLOEXEC);

    if (fd >= 0 && write(fd, text, strlen(text)) < 0)
        return; /* a comfort that an old kernel does not have */
}

static int set_network(struct jail *j, struct tn_error *err)
{
    struct ifreq request = {.ifr_name = "lo"};

    if (j->plan.network != TN_JAIL_NET_NONE)
        return 0;
    tn_autofd int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || ioctl(fd, SIOCGIFFLAGS, &request) < 0)
        return tn_fail_errno(err, errno, "loopback interface");
    request.ifr_flags |= IFF_UP | IFF_RUNNING;
    if (ioctl(fd, SIOCSIFFLAGS, &request) < 0)
        return tn_fail_errno(err, errno, "loopback interface: up");
    /* The network is not root's inside: without this it could not even listen on port 80. */
    if (j->privileged) {
        write_setting("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0");
        write_setting("/proc/sys/net/ipv4/ping_group_range", "0 2147483647");
    }
    return 0;
}

static int wait_for_groups(struct jail *j, struct tn_error *err)
{
    struct jail_message message;
    int r = jail_receive(j->control, &message, NULL, TN_NEVER, err);

    if (r <= 0 || message.kind != JAIL_GO)
        return tn_fail(err, TN_E_PEER, "the launcher is gone");
    return 0;
}

/* Only now is this process where the namespace is to have its root. */
static int leave_cgroups(struct jail *j, struct tn_error *err)
{
    if (unshare(CLONE_NEWCGROUP) < 0)
        return tn_fail_errno(err, errno, "control group namespace");
    j->isolation.cgroup = true;
    return 0;
}

/* Ends with the launcher; whoever changes its rights loses this, so it comes after all of that.  If
 * the launcher died before, its end of the socket is closed. */
static int die_with_keeper(struct jail *j, struct tn_error *err)
{
    char byte;

    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        return tn_fail_errno(err, errno, "die with the keeper");
    if (recv(j->control, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0)
        return tn_fail(err, TN_E_PEER, "the launcher is gone");
    return 0;
}

static int keep_descriptors(struct jail *j, struct tn_error *err)
{
    if (close_range(3, ~0U, CLOSE_RANGE_CLOEXEC) < 0)
        return tn_fail_errno(err, errno, "close descriptors");
    for (size_t i = 0; i < j->plan.fds.count; i++)
        if (fcntl((int)j->plan.fds.items[i], F_SETFD, 0) < 0)
            return tn_fail_errno(err, errno, "descriptor %lld", (long long)j->plan.fds.items[i]);
    umask(022);
    return 0;
}

/* --- all of them --------------------------------------------------------------------------- */

static const struct {
    const char *name;
    int (*run)(struct jail *j, struct tn_error *err);
} steps[] = {
    {"session", leave_session},
    {"user mapping", jail_map_self},
    {"private mounts", jail_make_private},
    {"sources", open_as_user},
    {"owner of new files", act_as_root},
    {"resolver", jail_read_resolver},
    {"system file systems", jail_prepare_system},
    {"scaffold", jail_make_scaffold},
    {"skeleton", jail_fill_skeleton},
    {"root file system", jail_make_root},
    {"volumes", jail_prepare_volumes},
    {"enter the root", jail_enter_root},
    {"/proc, /sys and /dev", jail_attach_system},
    {"network", set_network},
    {"cover /proc", jail_mask_proc},
    {"volumes", jail_attach_volumes},
    {"workspace", jail_make_workspace},
    {"resolver", jail_write_resolver},
    {"host name", set_hostname},
    {"control groups", wait_for_groups},
    {"control group namespace", leave_cgroups},
    {"resource limits", jail_set_limits},
    {"user namespace", jail_enter_userns},
    {"capabilities", jail_drop_capabilities},
    {"user", jail_become_user},
    {"no new privileges", jail_no_new_privileges},
    {"Landlock", jail_restrict_scope},
    {"descriptors", keep_descriptors},
    {"death signal", die_with_keeper},
};

static _Noreturn void fail(const struct jail *j, const char *step, enum jail_message_kind kind,
                           const struct tn_error *err)
{
    struct jail_message message = {.kind = kind, .error = *err};

    snprintf(message.step, sizeof message.step, "%s", step);
    jail_send(j->control, &message, -1, NULL);
    _exit(1);
}

static void announce(struct jail *j)
{
    struct jail_message message = {.kind = JAIL_READY};

    j->isolation.seccomp = true; /* the very next step; should it fail this is never reported */
    message.isolation = j->isolation;
    jail_send(j->control, &message, -1, NULL);
}

_Noreturn void jail_inside(struct jail *j)
{
    static char *const no_strings[] = {NULL};
    static char *const hand_alone[] = {(char *)(uintptr_t)TN_JAIL_HAND, NULL};
    struct tn_error err = {0};

    for (size_t i = 0; i < TN_COUNT(steps); i++) {
        int r = steps[i].run(j, &err);
        if (r != 0)
            fail(j, steps[i].name, r > 0 ? JAIL_UNMAPPABLE : JAIL_FAILED, &err);
    }
    announce(j);
    if (jail_filter_calls(j, &err) < 0)
        fail(j, "system call filter", JAIL_FAILED, &err);
    execve(TN_JAIL_HAND, j->plan.argv.count ? j->plan.argv.items : hand_alone,
           j->plan.env.items ? j->plan.env.items : no_strings);
    tn_fail_errno(&err, errno, "execute %s", j->plan.hand);
    fail(j, "program", JAIL_FAILED, &err);
}
