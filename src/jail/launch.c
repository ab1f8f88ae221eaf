/* The launcher's half of a start: what must be done from outside. */
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "jail/criu.h"
#include "jail/gate.h"
#include "jail/message.h"
#include "jail/sys.h"

#define START_SECONDS 30.0
enum {
    CRIU_PROCESSES = 32, /* criu and its helpers */
    /* Of gVisor itself, and for each process inside: one to run it and one to watch it. */
    GVISOR_THREADS = 64,
    GVISOR_FACTOR = 2,
};

/* --- control groups ------------------------------------------------------------------------ */

/* What a killed keeper left of an earlier life has counters of its own: away with it. */
static int find_groups(struct jail *j, struct tn_error *err)
{
    const char *id = j->plan.id;

    if ((!j->cgroups_known && tn_cgroups_find(&j->cgroups, err) < 0) ||
        tn_cgroup_kill(&j->cgroups, id, tn_deadline_in(5), err) < 0)
        return -1;
    return tn_cgroup_remove(&j->cgroups, id, tn_deadline_in(5), err);
}

/* Whether the limit on processes has to be one of the user, in its namespace. */
static bool limit_by_user(const struct jail *j)
{
    return j->plan.pids > 0 && j->mapping == TN_JAIL_MAP_OWN && !j->plan.runsc &&
           !tn_cgroups_can_limit(&j->cgroups, TN_CGROUP_PIDS) && tn_nproc_is_per_namespace();
}

/* What the control group is to be told; 0: nothing. */
static int64_t most_threads(const struct jail *j)
{
    const struct tn_jail_plan *p = &j->plan;

    if (j->pids_by_rlimit || p->pids == 0)
        return 0;
    if (p->runsc)
        return GVISOR_FACTOR * p->pids + GVISOR_THREADS;
    return p->pids + (p->restored ? CRIU_PROCESSES : 0); /* until it has ended */
}

static int make_groups(struct jail *j, struct tn_error *err)
{
    const struct tn_jail_plan *p = &j->plan;
    const struct tn_cgroup_limits limits = {
        .memory = p->memory,
        .pids = most_threads(j),
        .cpus = p->cpus,
    };
    return tn_cgroup_make(&j->cgroups, p->id, &limits, err);
}

/* The launcher's part of the report. */
static void note_limits(struct jail *j)
{
    const struct tn_jail_plan *p = &j->plan;
    struct tn_jail_isolation *is = &j->isolation;
    const struct tn_cgroups *c = &j->cgroups;

    is->memory_limit = p->memory > 0;
    is->cpu_limit = p->cpus > 0;
    is->pids_limit = p->pids > 0;
    is->disk_limit = p->tmpfs_bytes > 0;
    is->wall_time_limit = p->wall_time > 0;
    is->kill_group = c->base[TN_CGROUP_UNIFIED] != NULL;
    is->freeze = c->base[TN_CGROUP_UNIFIED] || c->base[TN_CGROUP_FREEZER];
    is->mapping = j->mapping;
    is->idmapped = j->mapping == TN_JAIL_MAP_RANGE;
    is->counted_alone = j->counted_alone;
    is->inotify_limit = is->inotify_limit || is->counted_alone;
    is->terminals_limit = true;
}

/* --- the child ----------------------------------------------------------------------------- */

static pid_t clone_child(struct jail *j, int cgroup, int *pidfd)
{
    bool user = j->mapping == TN_JAIL_MAP_OWN || j->mapping == TN_JAIL_MAP_SUBIDS;
    struct clone_args args = {
        .flags = (j->plan.restored ? 0U : CLONE_NEWPID) | CLONE_PIDFD | CLONE_CLEAR_SIGHAND |
                 (user ? CLONE_NEWUSER : 0U),
        .pidfd = (uintptr_t)pidfd,
        .exit_signal = SIGCHLD,
        .cgroup = cgroup < 0 ? 0 : (uint64_t)cgroup,
    };

    j->in_group = cgroup >= 0;
    if (cgroup >= 0) {
        args.flags |= CLONE_INTO_CGROUP;
        pid_t pid = sys_clone3(&args);
        if (pid >= 0)
            return pid;
        args.flags &= ~CLONE_INTO_CGROUP; /* then it is moved there */
        j->in_group = false;
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

/* It has crashed, or was killed before it could say anything. */
static int end_unheard(const struct jail *j, struct tn_error *err)
{
    struct tn_cgroup_events events;

    tn_cgroup_events(&j->cgroups, j->plan.id, &events);
    if (events.oom_kills > 0) {
        tn_fail(err, TN_E_INTERNAL, "killed: out of memory (limit %lld KiB)",
                (long long)j->plan.memory >> 10);
        if (err)
            err->sys = ENOMEM;
        return -1;
    }
    return tn_fail(err, TN_E_INTERNAL, "ended without a word");
}

/* Listens to the child until it has become the program: 0; 1: ids cannot be mapped; -1. */
static int attend_child(struct jail *j, const char **step, struct tn_error *err)
{
    static struct jail_message message; /* its step is the caller's */
    int64_t deadline = tn_deadline_in(START_SECONDS + (j->plan.seed ? JAIL_SEED_SECONDS : 0) +
                                      (j->plan.files_fd ? j->plan.files_seconds : 0));
    bool ready = false;
    int wall = 0;

    for (;;) {
        int fd, r = jail_receive(j->control, &message, &fd, deadline, err);
        if (r < 0)
            return -1;
        if (r == 0)
            return ready ? 0 : end_unheard(j, err);
        switch (message.kind) {
        case JAIL_STORAGE:
            j->storage = fd;
            break;
        case JAIL_WALL:
            if (wall == TN_WALL_SOCKETS)
                return tn_fail(err, TN_E_INTERNAL, "too many sockets");
            j->gate.wall.fd[wall++] = fd;
            break;
        case JAIL_FILLED:
            deadline = tn_deadline_in(START_SECONDS);
            break;
        case JAIL_READY:
            j->isolation = message.isolation;
            if (j->isolation.reach ==
                TN_JAIL_REACH_NO_GATE) /* which an ordinary user's child has found out */
                jail_gate_do_without(j);
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
        case JAIL_USERNS:
            return tn_fail(err, TN_E_INTERNAL, "unexpected message %d", message.kind);
        }
    }
}

/* What failed here may have failed because the child did; then it has said so.  Returns -1, or 1
 * when the owners of files cannot be mapped. */
static int prefer_its_reason(const struct jail *j, const char **step, struct tn_error *err)
{
    static struct jail_message message; /* its step is the caller's */
    int fd;

    while (jail_receive(j->control, &message, &fd, tn_now(), NULL) > 0) {
        tn_close(fd);
        if (message.kind != JAIL_FAILED && message.kind != JAIL_UNMAPPABLE)
            continue;
        *step = message.step;
        if (err)
            *err = message.error;
        return message.kind == JAIL_FAILED ? -1 : 1;
    }
    return -1;
}

/* --- what is made outside ------------------------------------------------------------------ */

void jail_find_groups(struct jail *j)
{
    if (!j->cgroups_known)
        j->cgroups_known = tn_cgroups_find(&j->cgroups, NULL) == 0;
}

/* Most jails have a network of their own, which takes the kernel longest. */
void jail_prepare_launch(struct jail *j)
{
    if (j->privileged)
        jail_enter_network(j, NULL);
    jail_find_groups(j);
}

/* Inside, the plan's user owns what the owner of the directory owns outside; and whatever it makes
 * there is the owner's. */
static int supply_volume(struct jail *j, const struct tn_jail_mount *m, struct tn_error *err)
{
    struct jail_message message = {.kind = JAIL_USERNS};
    tn_autofd int fd = jail_open_volume(m, NULL);
    tn_autofd int userns = -1;
    struct stat st;

    /* One that cannot be opened, or is exchanged just now, the child complains about. */
    if (fd >= 0 && fstat(fd, &st) == 0) {
        userns = jail_make_userns(st.st_uid, j->base + (uid_t)j->plan.uid, st.st_gid,
                                  j->base + (gid_t)j->plan.gid, 1, err);
        if (userns < 0)
            return -1;
        message.uid = st.st_uid;
        message.gid = st.st_gid;
    }
    jail_send(j->control, &message, userns, NULL);
    return 0;
}

static int supply_volumes(struct jail *j, struct tn_error *err)
{
    for (size_t i = 0; j->mapping == TN_JAIL_MAP_RANGE && i < j->plan.mount_count; i++)
        if (supply_volume(j, &j->plan.mounts[i], err) < 0)
            return -1;
    return 0;
}

/* What the child needs from outside, in the order in which it asks for it: it joins its control
 * groups when it has the storage.  A child that has failed by then has said why: sending is no
 * place to find fault. */
static int supply_child(struct jail *j, pid_t pid, const char **step, struct tn_error *err)
{
    struct jail_message message = {.kind = JAIL_MAPPED};

    *step = "control groups";
    if (make_groups(j, err) < 0)
        return -1;
    if (j->mapping == TN_JAIL_MAP_SUBIDS) {
        *step = "user mapping";
        if (jail_map_subids(j, pid, err) < 0)
            return -1;
        jail_send(j->control, &message, -1, NULL);
    }
    if (j->privileged) {
        *step = "storage";
        if (jail_open_storage(j, err) < 0)
            return -1;
        message.kind = JAIL_STORAGE;
        jail_send(j->control, &message, j->storage, NULL);
        *step = "user namespace";
        if (jail_prepare_userns(j, err) < 0)
            return -1;
        message.kind = JAIL_USERNS;
        jail_send(j->control, &message, j->userns, NULL);
        if (supply_volumes(j, err) < 0)
            return -1;
    }
    *step = "control groups";
    if (!j->privileged && tn_cgroup_join(&j->cgroups, j->plan.id, pid, !j->in_group, err) < 0)
        return -1;
    message.kind = JAIL_GO;
    jail_send(j->control, &message, -1, NULL);
    *step = "keeper";
    return j->listener >= 0 ? 0 : jail_open_keeper(j, err);
}

/* The child is criu now.  When it has ended well its place is taken by the PID 1 that it made. */
static int await_criu(struct jail *j, pid_t *pid, int *pidfd, const char **step,
                      struct tn_error *err)
{
    struct pollfd p = {.fd = *pidfd, .events = POLLIN};
    int64_t deadline = tn_deadline_in(JAIL_RESTORE_SECONDS);
    int status = -1;

    *step = "criu";
    while (poll(&p, 1, tn_poll_ms(deadline)) <= 0)
        if (tn_now() >= deadline)
            return tn_fail(err, TN_E_TIMEOUT, "criu does not end");
    while (waitpid(*pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (jail_take_restored(j, status, pid, pidfd, err) < 0)
        return -1;
    const struct tn_cgroup_limits limits = {.pids = j->plan.pids};
    return tn_cgroup_make(&j->cgroups, j->plan.id, &limits, err);
}

/* 1: the owners of files cannot be mapped. */
static int attempt(struct jail *j, pid_t *pid, int *pidfd, const char **step, struct tn_error *err)
{
    int pair[2];

    *step = "control groups";
    j->pids_by_rlimit = limit_by_user(j);
    if (tn_cgroup_make_unified(&j->cgroups, j->plan.id, err) < 0)
        return -1;
    *step = "network";
    if ((jail_gets_network(j) ? jail_enter_network(j, err) : jail_leave_network(j, err)) < 0 ||
        (j->privileged && jail_raise_wall(j, err) < 0))
        return -1;
    *step = "namespaces";
    tn_autofd int cgroup = tn_cgroup_open_unified(&j->cgroups, j->plan.id);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return tn_fail_errno(err, errno, "socket pair");
    *pid = clone_child(j, cgroup, pidfd);
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
    *step = "network";
    int r = jail_leave_network(j, err) < 0 ? -1 : supply_child(j, *pid, step, err);
    jail_bury_holders();
    if (r == 0) {
        *step = "start";
        r = attend_child(j, step, err);
        if (r == 0 && j->plan.restored)
            r = await_criu(j, pid, pidfd, step, err);
    } else {
        r = prefer_its_reason(j, step, err);
    }
    j->control = -1;
    tn_close(TN_TAKE_FD(j->userns));
    if (r != 0) {
        end_child(*pid, *pidfd);
        tn_close(TN_TAKE_FD(*pidfd));
        tn_close(TN_TAKE_FD(j->storage));
    }
    return r;
}

/* --- the whole ----------------------------------------------------------------------------- */

int jail_spawn(struct jail *j, pid_t *pid, int *pidfd, const char **step, struct tn_error *err)
{
    *step = "control groups";
    if (find_groups(j, err) < 0)
        return -1;
    *step = "gate";
    if (jail_gate_begin(j, err) < 0)
        return -1;
    *step = "Landlock";
    if (j->plan.criu && jail_restrict_scope(j, err) < 0)
        return -1;
    int r = 1;
    for (int i = 0; i < 2 && r > 0; i++) {
        *step = "mapping";
        r = jail_choose_mapping(j, i > 0, err) < 0 ? -1 : attempt(j, pid, pidfd, step, err);
    }
    if (r != 0) {
        tn_cgroup_kill(&j->cgroups, j->plan.id, tn_deadline_in(5), NULL); /* what criu has made */
        tn_cgroup_remove(&j->cgroups, j->plan.id, tn_deadline_in(5), NULL);
        return -1;
    }
    note_limits(j);
    return 0;
}
