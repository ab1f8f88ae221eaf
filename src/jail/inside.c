/* The process that becomes PID 1: it builds the jail around itself, step by step, and ends in the
 * program of the plan. */
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/clock.h"
#include "jail/criu.h"
#include "jail/gate.h"
#include "jail/message.h"
#include "jail/sys.h"

/* --- steps that are too small for a file of their own -------------------------------------- */

/* They are there, with their limits, when the storage has come.  Whoever has no right to do that is
 * moved by the launcher. */
static int join_groups(struct jail *j, struct tn_error *err)
{
    return j->privileged ? tn_cgroup_join(&j->cgroups, j->plan.id, 0, !j->in_group, err) : 0;
}

/* A session of its own, without a terminal: nobody can type into the caller's. */
static int leave_session(struct jail *j, struct tn_error *err)
{
    sigset_t none;
    tn_autofd int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setsid();
    int output = j->child_output >= 0 ? j->child_output : null;
    if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(output, STDOUT_FILENO) < 0 ||
        dup2(output, STDERR_FILENO) < 0)
        return tn_fail_errno(err, errno, "standard descriptors");
    return 0;
}

/* An ordinary user's: the wall belongs to the keeper. */
static int make_own_network(struct jail *j, struct tn_error *err)
{
    const struct jail_message message = {.kind = JAIL_WALL};

    if (jail_make_network(j, err) < 0 || jail_raise_wall(j, err) < 0)
        return -1;
    for (int i = 0; jail_is_gated(j) && i < TN_WALL_SOCKETS; i++)
        if (jail_send(j->control, &message, j->gate.wall.fd[i], err) < 0)
            return -1;
    tn_wall_done(&j->gate.wall);
    return 0;
}

static enum tn_jail_reach reach_of(const struct jail *j)
{
    static const enum tn_jail_reach of[] = {
        [TN_JAIL_NET_NONE] = TN_JAIL_REACH_NONE,
        [TN_JAIL_NET_HOST] = TN_JAIL_REACH_HOST,
        [TN_JAIL_NET_OPEN] = TN_JAIL_REACH_OPEN,
        [TN_JAIL_NET_ALLOW] = TN_JAIL_REACH_ALLOW,
    };
    return j->plan.gate_optional && !jail_is_gated(j) ? TN_JAIL_REACH_NO_GATE : of[j->plan.network];
}

/* The launcher made the pid namespace, an ordinary user's, and root's network. */
static int leave_namespaces(struct jail *j, struct tn_error *err)
{
    if (unshare(CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS) < 0)
        return tn_fail_errno(err, errno, "make namespaces");
    j->isolation.pid = j->isolation.ipc = j->isolation.uts = true;
    if (!j->privileged && make_own_network(j, err) < 0)
        return -1;
    j->isolation.network = j->plan.network != TN_JAIL_NET_HOST;
    j->isolation.gated = jail_is_gated(j);
    j->isolation.reach = reach_of(j);
    return 0;
}

/* Root's storage is opened outside: it belongs to the keeper as well. */
static int get_storage(struct jail *j, struct tn_error *err)
{
    const struct jail_message message = {.kind = JAIL_STORAGE};

    if (j->privileged) {
        j->storage = jail_expect(j->control, JAIL_STORAGE, NULL, err);
        if (j->storage < 0)
            return -1;
    } else if (jail_open_storage(j, err) < 0 ||
               jail_send(j->control, &message, j->storage, err) < 0) {
        return -1;
    }
    return jail_clone_storage(j, false, err);
}

static int map_owners(struct jail *j, struct tn_error *err)
{
    if (!j->privileged)
        return 0;
    int fd = jail_expect(j->control, JAIL_USERNS, NULL, err);
    if (fd == -2)
        return -1;
    j->userns = fd;
    return jail_map_sources(j, err);
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

/* A layer that is still being filled must not be mounted: overlayfs would not notice.  The byte
 * stays in the pipe, for another attempt. */
static int await_files(struct jail *j, struct tn_error *err)
{
    const struct jail_message message = {.kind = JAIL_FILLED};
    int fd = (int)j->plan.files_fd, bytes = 0;
    struct pollfd p[] = {{.fd = fd, .events = POLLIN}, {.fd = j->control}};
    int64_t deadline = tn_deadline_in(j->plan.files_seconds);

    if (fd == 0)
        return 0;
    /* Either end closes with its process; but who fills them may be stopped, or hang. */
    while (poll(p, TN_COUNT(p), tn_poll_ms(deadline)) <= 0)
        if (tn_now() >= deadline)
            return tn_fail(err, TN_E_TIMEOUT, "the files were not completed within %g seconds",
                           j->plan.files_seconds);
    if (ioctl(fd, FIONREAD, &bytes) < 0 || bytes == 0)
        return tn_fail(err, TN_E_PEER, "the files were not completed");
    if (jail_send(j->control, &message, -1, err) < 0)
        return -1;
    return jail_open_filled(j, err);
}

static int wait_for_launcher(struct jail *j, struct tn_error *err)
{
    return jail_expect(j->control, JAIL_GO, NULL, err) == -2 ? -1 : 0;
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

/* Where criu is to come and go the launcher is in the domain already. */
static int restrict_scope(struct jail *j, struct tn_error *err)
{
    return j->plan.criu ? 0 : jail_restrict_scope(j, err);
}

/* criu only takes namespaces that belong to the user namespace of their processes; and runsc mounts
 * things for itself. */
static int own_namespaces(struct jail *j, struct tn_error *err)
{
    if ((j->plan.criu || j->plan.runsc) && unshare(CLONE_NEWNS | CLONE_NEWIPC) < 0)
        return tn_fail_errno(err, errno, "namespaces of the user namespace");
    return 0;
}

/* The socket belongs to the network of the jail, as everything must that criu is to find.  Its name
 * is outside. */
static int open_socket(struct jail *j, struct tn_error *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    if (!j->plan.criu)
        return 0;
    tn_autofd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/" TN_JAIL_SOCKET,
             j->directory);
    unlinkat(j->directory, TN_JAIL_SOCKET, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) < 0 ||
        fchownat(j->directory, TN_JAIL_SOCKET, j->caller_uid, j->caller_gid, AT_SYMLINK_NOFOLLOW) <
            0 ||
        fchmodat(j->directory, TN_JAIL_SOCKET, 0600, 0) < 0 || listen(fd, SOMAXCONN) < 0 ||
        dup2(fd, (int)j->plan.socket_fd) < 0)
        return tn_fail_errno(err, errno, TN_JAIL_SOCKET);
    return 0;
}

/* The host's, until here. */
static int own_null(struct jail *j, struct tn_error *err)
{
    tn_autofd int null = j->plan.criu ? open("/dev/null", O_RDWR | O_CLOEXEC) : -1;

    if (j->plan.criu && (null < 0 || dup2(null, STDIN_FILENO) < 0))
        return tn_fail_errno(err, errno, "/dev/null");
    return 0;
}

static int keep_descriptors(struct jail *j, struct tn_error *err)
{
    if (close_range(3, ~0U, CLOSE_RANGE_CLOEXEC) < 0)
        return tn_fail_errno(err, errno, "close descriptors");
    for (size_t i = 0; i < j->plan.fds.count; i++)
        if (fcntl((int)j->plan.fds.items[i], F_SETFD, 0) < 0)
            return tn_fail_errno(err, errno, "descriptor %lld", (long long)j->plan.fds.items[i]);
    if (j->plan.criu || j->plan.runsc)
        fcntl((int)j->plan.socket_fd, F_SETFD, 0);
    umask(022);
    return 0;
}

/* What gVisor sees to: each of these was asked of it in config.json, or is part of what it is. */
static int note_gvisor(struct jail *j, struct tn_error *err)
{
    struct tn_jail_isolation *is = &j->isolation;

    is->gvisor = j->plan.platform;
    is->seccomp = is->capabilities = true;
    is->no_new_privs = !j->gains;
    is->file_size_limit = j->plan.file_size > 0;
    is->open_files_limit = j->plan.open_files > 0;
    is->inotify_limit = true; /* no watch of the inside is one of this kernel */
    return 0;
}

/* --- all of them --------------------------------------------------------------------------- */

/* What kind of start a step belongs to: on this kernel, from criu's images, under gVisor. */
enum { PLAIN = 1, RESTORED = 2, GVISOR = 4, FRESH = PLAIN | GVISOR, ALL = FRESH | RESTORED };

static const struct {
    const char *name;
    int (*run)(struct jail *j, struct tn_error *err);
    int when;
} steps[] = {
    {"session", leave_session, ALL},
    {"user mapping", jail_map_self, FRESH},
    {"shares of the user", jail_take_shares, FRESH},
    {"namespaces", leave_namespaces, ALL},
    {"private mounts", jail_make_private, ALL},
    {"images", jail_open_images, RESTORED},
    {"sources", jail_open_sources, ALL},
    {"resolver", jail_read_resolver, FRESH},
    {"owner of new files", act_as_root, ALL},
    {"system file systems", jail_prepare_system, ALL},
    {"storage", get_storage, ALL},
    {"control groups", join_groups, ALL},
    {"scaffold", jail_make_scaffold, ALL},
    {"skeleton", jail_fill_skeleton, ALL},
    {"owners of files", map_owners, ALL},
    {"layers", jail_attach_sources, ALL},
    {"content of the layers", await_files, ALL},
    {"root file system", jail_make_root, ALL},
    {"volumes", jail_prepare_volumes, ALL},
    {"authority", jail_write_roots, PLAIN},
    {"parts", jail_lay_out, RESTORED},
    {"enter the root", jail_enter_root, PLAIN},
    {"/proc, /sys and /dev", jail_attach_system, PLAIN},
    {"cover /proc", jail_mask_proc, PLAIN},
    {"volumes", jail_attach_volumes, PLAIN},
    {"workspace", jail_make_workspace, PLAIN},
    {"resolver", jail_write_resolver, PLAIN},
    {"authority", jail_show_roots, PLAIN},
    {"names", jail_correct_names, PLAIN},
    {"walls", jail_make_walls, GVISOR},
    {"enter the walls", jail_enter_walls, GVISOR},
    {"host name", set_hostname, ALL},
    {"launcher", wait_for_launcher, ALL},
    {"socket", open_socket, ALL},
    {"control group namespace", leave_cgroups, ALL},
    {"resource limits", jail_set_limits, FRESH},
    {"user namespace", jail_enter_userns, FRESH},
    {"namespaces of the user namespace", own_namespaces, FRESH},
    {"keyring", jail_leave_keyring, FRESH},
    {"Landlock", restrict_scope, FRESH},
    {"system call filter", jail_filter_calls, PLAIN},
    {"set-id filter", jail_filter_set_id, GVISOR},
    {"listener filter", jail_filter_listeners, GVISOR},
    {"capabilities", jail_drop_capabilities, PLAIN},
    {"user", jail_become_user, FRESH},
    {"no new privileges", jail_no_new_privileges, PLAIN},
    {"kernel of its own", note_gvisor, GVISOR},
    {"door", jail_take_door, GVISOR},
    {"standard input", own_null, FRESH},
    {"descriptors", keep_descriptors, FRESH},
    {"death signal", die_with_keeper, ALL},
};

static _Noreturn void fail(const struct jail *j, const char *step, enum jail_message_kind kind,
                           const struct tn_error *err)
{
    struct jail_message message = {.kind = kind, .error = *err};

    snprintf(message.step, sizeof message.step, "%s", step);
    jail_send(j->control, &message, -1, NULL);
    _exit(1);
}

static void announce(const struct jail *j)
{
    const struct jail_message message = {.kind = JAIL_READY, .isolation = j->isolation};

    jail_send(j->control, &message, -1, NULL);
}

_Noreturn void jail_inside(struct jail *j)
{
    static char *const no_strings[] = {NULL};
    static char *const hand_alone[] = {(char *)(uintptr_t)TN_JAIL_HAND, NULL};
    struct tn_error err = {0};

    tn_close(TN_TAKE_FD(j->gate.vault)); /* the keeper's: nothing of it is ever in here */
    int when = j->plan.restored ? RESTORED : j->plan.runsc ? GVISOR : PLAIN;
    for (size_t i = 0; i < TN_COUNT(steps); i++) {
        if (!(steps[i].when & when))
            continue;
        int r = steps[i].run(j, &err);
        if (r != 0)
            fail(j, steps[i].name, r > 0 ? JAIL_UNMAPPABLE : JAIL_FAILED, &err);
    }
    announce(j);
    if (j->plan.restored && jail_become_criu(j, &err) < 0)
        fail(j, "criu", JAIL_FAILED, &err);
    if (j->plan.runsc && jail_become_runsc(j, &err) < 0)
        fail(j, "runsc", JAIL_FAILED, &err);
    execve(TN_JAIL_HAND, j->plan.argv.count ? j->plan.argv.items : hand_alone,
           j->plan.env.items ? j->plan.env.items : no_strings);
    tn_fail_errno(&err, errno, "execute %s", j->plan.hand);
    fail(j, "program", JAIL_FAILED, &err);
}
