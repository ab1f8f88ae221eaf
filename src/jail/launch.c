/* The launcher's half of a start: what must be done from outside. */
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "jail/jail.h"
#include "jail/message.h"
#include "jail/sys.h"

#define START_SECONDS 30.0

/* --- control groups ------------------------------------------------------------------------ */

bool jail_nproc_is_per_namespace(void)
{
    struct utsname u;
    unsigned major, minor;

    return uname(&u) == 0 && sscanf(u.release, "%u.%u", &major, &minor) == 2 &&
           (major > 5 || (major == 5 && minor >= 14));
}

static int make_groups(struct jail *j, struct tn_error *err)
{
    const struct tn_jail_plan *p = &j->plan;
    struct tn_cgroup_limits limits = {.memory = p->memory, .pids = p->pids, .cpus = p->cpus};

    if (tn_cgroups_find(&j->cgroups, err) < 0)
        return -1;
    j->pids_by_rlimit = p->pids > 0 && j->mapping == TN_JAIL_MAP_OWN &&
                        !tn_cgroups_can_limit(&j->cgroups, TN_CGROUP_PIDS) &&
                        jail_nproc_is_per_namespace();
    if (j->pids_by_rlimit)
        limits.pids = 0;
    /* What a killed keeper left of an earlier life has counters of its own. */
    if (tn_cgroup_kill(&j->cgroups, p->id, tn_deadline_in(5), err) < 0 ||
        tn_cgroup_remove(&j->cgroups, p->id, tn_deadline_in(5), err) < 0 ||
        tn_cgroup_make(&j->cgroups, p->id, &limits, err) < 0)
        return -1;
    j->isolation.memory_limit = p->memory > 0;
    j->isolation.cpu_limit = p->cpus > 0;
    j->isolation.pids_limit = limits.pids > 0;
    j->isolation.disk_limit = p->tmpfs_bytes > 0;
    j->isolation.wall_time_limit = p->wall_time > 0;
    j->isolation.kill_group = j->cgroups.base[TN_CGROUP_UNIFIED] != NULL;
    j->isolation.freeze = j->cgroups.base[TN_CGROUP_UNIFIED] || j->cgroups.base[TN_CGROUP_FREEZER];
    return 0;
}

/* --- the child ----------------------------------------------------------------------------- */

static pid_t clone_child(struct jail *j, int cgroup, int *pidfd, bool *in_group)
{
    bool user = j->mapping == TN_JAIL_MAP_OWN || j->mapping == TN_JAIL_MAP_SUBIDS;
    bool network = j->plan.network == TN_JAIL_NET_NONE;
    struct clone_args args = {
        .flags = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_PIDFD |
                 CLONE_CLEAR_SIGHAND | (user ? CLONE_NEWUSER : 0U) | (network ? CLONE_NEWNET : 0U),
        .pidfd = (uintptr_t)pidfd,
        .exit_signal = SIGCHLD,
        .cgroup = cgroup < 0 ? 0 : (uint64_t)cgroup,
    };
    pid_t pid = -1;

    j->isolation.pid = j->isolation.ipc = j->isolation.uts = true;
    j->isolation.network = network;
    *in_group = cgroup >= 0;
    if (cgroup >= 0) {
        args.flags |= CLONE_INTO_CGROUP;
        pid = sys_clone3(&args);
        if (pid >= 0)
            return pid;
        args.flags &= ~CLONE_INTO_CGROUP; /* then it is moved there */
        *in_group = false;
    }
    return sys_clone3(&args);
}

static int end_child(pid_t pid, int pidfd)
{
    sys_pidfd_kill(pidfd);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    return -1;
}

/* Listens to the child until it has become the program: 0; 1: ids cannot be mapped; -1. */
static int attend_child(struct jail *j, pid_t pid, const char **step, struct tn_error *err)
{
    static struct jail_message message; /* its step is the caller's */
    int64_t deadline = tn_deadline_in(START_SECONDS);
    bool ready = false;

    for (;;) {
        int fd, r = jail_receive(j->control, &message, &fd, deadline, err);
        if (r < 0)
            return -1;
        if (r == 0)
            return ready ? 0 : tn_fail(err, TN_E_INTERNAL, "ended without a word");
        switch (message.kind) {
        case JAIL_WANT_MAP:
            message.kind = JAIL_MAPPED;
            if (jail_map_subids(j, pid, err) < 0 || jail_send(j->control, &message, -1, err) < 0)
                return -1;
            break;
        case JAIL_STORAGE:
            j->storage = fd;
            break;
        case JAIL_READY:
            j->isolation = message.isolation;
            ready = true;
            break;
        case JAIL_FAILED:
        case JAIL_UNMAPPABLE:
            *step = message.step;
            if (err)
                *err = message.error;
            return message.kind == JAIL_FAILED ? -1 : 1;
        case JAIL_GO:
        case JAIL_MAPPED:
            return tn_fail(err, TN_E_INTERNAL, "unexpected message %d", message.kind);
        }
    }
}

static int start_child(struct jail *j, pid_t *pid, int *pidfd, const char **step,
                       struct tn_error *err)
{
    const struct jail_message go = {.kind = JAIL_GO};
    tn_autofd int cgroup = tn_cgroup_open_unified(&j->cgroups, j->plan.id);
    int pair[2];
    bool in_group;

    *step = "namespaces";
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return tn_fail_errno(err, errno, "socket pair");
    *pid = clone_child(j, cgroup, pidfd, &in_group);
    if (*pid == 0) {
        close(pair[0]);
        j->control = pair[1];
        jail_inside(j);
    }
    int sys = errno;
    close(pair[1]);
    tn_autofd int control = pair[0];
    if (*pid < 0)
        return tn_fail_errno(err, sys, "make namespaces");
    j->control = control;
    *step = "control groups";
    int r = tn_cgroup_join(&j->cgroups, j->plan.id, *pid, !in_group, err);
    if (r == 0)
        jail_send(control, &go, -1, NULL); /* a child that has failed by now said why */
    *step = "start";
    if (r == 0)
        r = attend_child(j, *pid, step, err);
    j->control = -1;
    if (r != 0)
        end_child(*pid, *pidfd);
    return r;
}

/* --- the whole ----------------------------------------------------------------------------- */

/* Root opens what it is made of outside, where it has the rights to show it with other owners. */
static int open_as_root(struct jail *j, const char **step, struct tn_error *err)
{
    *step = "user namespace";
    if (jail_prepare_userns(j, err) < 0)
        return -1;
    if (!j->privileged)
        return 0;
    *step = "sources";
    int r = jail_open_sources(j, err);
    if (r == 0)
        r = jail_open_storage(j, err);
    if (r == 0 && j->plan.storage)
        r = jail_mount_storage(j, j->storage, err);
    return r;
}

/* 1: ids cannot be mapped. */
static int attempt(struct jail *j, pid_t *pid, int *pidfd, const char **step, struct tn_error *err)
{
    int r = open_as_root(j, step, err);

    if (r == 0)
        r = start_child(j, pid, pidfd, step, err);
    if (r != 0)
        jail_close_sources(j);
    return r;
}

int jail_launch(struct jail *j, pid_t *pid, int *pidfd, const char **step, struct tn_error *err)
{
    *step = "mapping";
    if (jail_choose_mapping(j, false, err) < 0)
        return -1;
    *step = "control groups";
    if (make_groups(j, err) < 0)
        return -1;
    int r = attempt(j, pid, pidfd, step, err);
    if (r > 0)
        r = jail_choose_mapping(j, true, err) < 0 ? -1 : attempt(j, pid, pidfd, step, err);
    if (r != 0) {
        tn_cgroup_remove(&j->cgroups, j->plan.id, tn_deadline_in(5), NULL);
        return -1;
    }
    j->isolation.mapping = j->mapping;
    j->isolation.idmapped = j->mapping == TN_JAIL_MAP_RANGE;
    return 0;
}
