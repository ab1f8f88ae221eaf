/* What is done to sandboxes through their control groups, and what is learnt from them. */
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/clock.h"
#include "jail/cgroup-internal.h"

enum {
    PROCS_MAX = 1 << 20,
    LOOK_AGAIN_MS = 10,
};

static bool past(int64_t deadline)
{
    return deadline != TN_NEVER && tn_now() >= deadline;
}

/* The file of the first hierarchy in which the sandbox has a directory; NULL when it has none. */
static char *anywhere(const struct tn_cgroups *c, const char *id, const char *file)
{
    for (int i = 0; i < TN_CGROUP_KINDS; i++) {
        tn_autofree char *path = cgroup_path(c, (enum tn_cgroup_kind)i, id, file);
        if (path && access(path, F_OK) == 0)
            return TN_TAKE_PTR(path);
    }
    return NULL;
}

static char *there(const struct tn_cgroups *c, enum tn_cgroup_kind kind, const char *id,
                   const char *file)
{
    tn_autofree char *path = cgroup_path(c, kind, id, file);
    return path && access(path, F_OK) == 0 ? TN_TAKE_PTR(path) : NULL;
}

/* --- waiting for the v2 file cgroup.events, which wakes up poll ------------------------------- */

static int wait_event(const struct tn_cgroups *c, const char *id, const char *key, int64_t value,
                      int64_t deadline, struct tn_error *err)
{
    tn_autofree char *path = cgroup_path(c, TN_CGROUP_UNIFIED, id, "cgroup.events");
    tn_autofd int fd = open(path, O_RDONLY | O_CLOEXEC);
    char text[256];

    if (fd < 0)
        return errno == ENOENT ? 0 : tn_fail_errno(err, errno, "%s", path);
    for (;;) {
        ssize_t n = pread(fd, text, sizeof text - 1, 0);
        if (n < 0)
            return errno == ENODEV ? 0 : tn_fail_errno(err, errno, "%s", path);
        text[n] = '\0';
        if (cgroup_number(text, key) == value)
            return 0;
        if (past(deadline))
            return tn_fail(err, TN_E_TIMEOUT, "%s: %s is not %lld in time", path, key,
                           (long long)value);
        /* Somebody else may remove the group meanwhile, and that wakes nobody up. */
        struct pollfd p = {.fd = fd, .events = POLLPRI};
        int left = tn_poll_ms(deadline);
        poll(&p, 1, left < 0 || left > LOOK_AGAIN_MS ? LOOK_AGAIN_MS : left);
    }
}

/* --- waiting for processes, where nothing else wakes up
 * ---------------------------------------------- */

/* Until the process ends, or the deadline. */
static void wait_process(pid_t pid, int64_t deadline)
{
    tn_autofd int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    struct pollfd p = {.fd = fd, .events = POLLIN};

    if (fd >= 0)
        poll(&p, 1, tn_poll_ms(deadline));
    else
        sched_yield(); /* it is just ending, or being buried */
}

/* The first process of a list such as cgroup.procs, or 0. */
static pid_t first_process(const char *procs)
{
    char text[32];

    return cgroup_read(procs, text, sizeof text) ? (pid_t)strtol(text, NULL, 10) : 0;
}

/* --- kill ---------------------------------------------------------------------------------- */

static void kill_each(const char *procs)
{
    tn_autofree char *text = tn_malloc(PROCS_MAX);

    cgroup_read(procs, text, PROCS_MAX);
    for (char *at = text, *end; *at; at = end + strspn(end, "\n")) {
        long pid = strtol(at, &end, 10);
        if (end == at)
            break;
        if (pid > 0)
            kill((pid_t)pid, SIGKILL);
    }
}

static void thaw_v1(const struct tn_cgroups *c, const char *id)
{
    tn_autofree char *freezer = there(c, TN_CGROUP_FREEZER, id, "freezer.state");

    if (freezer) /* what it holds does not even die */
        cgroup_write(freezer, "THAWED");
}

static int kill_until_empty(const struct tn_cgroups *c, const char *id, int64_t deadline,
                            struct tn_error *err)
{
    tn_autofree char *procs = anywhere(c, id, "cgroup.procs");
    pid_t pid;

    while (procs && (pid = first_process(procs)) > 0) {
        kill_each(procs);
        thaw_v1(c, id);
        if (past(deadline))
            return tn_fail(err, TN_E_TIMEOUT, "processes of %s did not end in time", id);
        wait_process(pid, deadline);
    }
    return 0;
}

int tn_cgroup_kill(const struct tn_cgroups *c, const char *id, int64_t deadline,
                   struct tn_error *err)
{
    tn_autofree char *path = there(c, TN_CGROUP_UNIFIED, id, "cgroup.kill");

    if (path && cgroup_write(path, "1") == 0) {
        thaw_v1(c, id);
        return wait_event(c, id, "populated", 0, deadline, err);
    }
    return kill_until_empty(c, id, deadline, err);
}

/* --- freeze -------------------------------------------------------------------------------- */

static int freeze_v1(const char *path, bool frozen, int64_t deadline, struct tn_error *err)
{
    const char *goal = frozen ? "FROZEN" : "THAWED";
    char text[64];

    do {
        /* Written again each time: a process that forked meanwhile may have slipped through. */
        if (cgroup_write(path, goal) < 0)
            return tn_fail_errno(err, errno, "%s", path);
        if (cgroup_read(path, text, sizeof text) && strncmp(text, goal, strlen(goal)) == 0)
            return 0;
        sched_yield(); /* the kernel tells nobody when it is done */
    } while (!past(deadline));
    return tn_fail(err, TN_E_TIMEOUT, "%s: not %s in time", path, goal);
}

int tn_cgroup_freeze(const struct tn_cgroups *c, const char *id, bool frozen, int64_t deadline,
                     struct tn_error *err)
{
    tn_autofree char *v2 = there(c, TN_CGROUP_UNIFIED, id, "cgroup.freeze");
    tn_autofree char *v1 = there(c, TN_CGROUP_FREEZER, id, "freezer.state");

    if (v2) {
        if (cgroup_write(v2, frozen ? "1" : "0") < 0)
            return tn_fail_errno(err, errno, "%s", v2);
        return wait_event(c, id, "frozen", frozen, deadline, err);
    }
    if (v1)
        return freeze_v1(v1, frozen, deadline, err);
    if (!c->base[TN_CGROUP_UNIFIED] && !c->base[TN_CGROUP_FREEZER])
        return tn_fail(err, TN_E_UNSUPPORTED, "cannot freeze: %s",
                       c->why ? c->why : "there is no freezer");
    return tn_fail(err, TN_E_NOT_FOUND, "%s has no control group", id);
}

bool tn_cgroup_is_frozen(const struct tn_cgroups *c, const char *id)
{
    tn_autofree char *v2 = there(c, TN_CGROUP_UNIFIED, id, "cgroup.events");
    tn_autofree char *v1 = there(c, TN_CGROUP_FREEZER, id, "freezer.state");
    char text[256];

    if (v2)
        return cgroup_read(v2, text, sizeof text) && cgroup_number(text, "frozen") == 1;
    return v1 && cgroup_read(v1, text, sizeof text) && strncmp(text, "FROZEN", 6) == 0;
}

/* --- numbers ------------------------------------------------------------------------------- */

/* The number in a file of the hierarchy that controls `what`. */
static int64_t number(const struct tn_cgroups *c, enum tn_cgroup_kind what, const char *id,
                      const char *v2_file, const char *v1_file, const char *key)
{
    int kind = cgroup_where(c, what);
    char text[CGROUP_TEXT_MAX];

    if (kind < 0)
        return -1;
    tn_autofree char *path = cgroup_path(c, (enum tn_cgroup_kind)kind, id,
                                         kind == TN_CGROUP_UNIFIED ? v2_file : v1_file);
    return cgroup_read(path, text, sizeof text) ? cgroup_number(text, key) : -1;
}

void tn_cgroup_usage(const struct tn_cgroups *c, const char *id, struct tn_cgroup_usage *out)
{
    tn_autofree char *cpu = cgroup_path(c, TN_CGROUP_UNIFIED, id, "cpu.stat");
    char text[CGROUP_TEXT_MAX];
    int64_t microseconds =
        cpu && cgroup_read(cpu, text, sizeof text) ? cgroup_number(text, "usage_usec") : -1;

    *out = (struct tn_cgroup_usage){
        .memory = number(c, TN_CGROUP_MEMORY, id, "memory.current", "memory.usage_in_bytes", NULL),
        .memory_peak =
            number(c, TN_CGROUP_MEMORY, id, "memory.peak", "memory.max_usage_in_bytes", NULL),
        .processes = number(c, TN_CGROUP_PIDS, id, "pids.current", "pids.current", NULL),
        .cpu_seconds = microseconds < 0 ? -1 : (double)microseconds / 1e6,
    };
}

void tn_cgroup_events(const struct tn_cgroups *c, const char *id, struct tn_cgroup_events *out)
{
    int64_t oom =
        number(c, TN_CGROUP_MEMORY, id, "memory.events", "memory.oom_control", "oom_kill");
    int64_t pids = number(c, TN_CGROUP_PIDS, id, "pids.events", "pids.events", "max");

    out->oom_kills = oom < 0 ? 0 : oom;
    out->pids_hits = pids < 0 ? 0 : pids;
}

/* --- removal ------------------------------------------------------------------------------- */

int tn_cgroup_remove(const struct tn_cgroups *c, const char *id, int64_t deadline,
                     struct tn_error *err)
{
    for (int i = 0; i < TN_CGROUP_KINDS; i++) {
        tn_autofree char *path = cgroup_path(c, (enum tn_cgroup_kind)i, id, NULL);
        tn_autofree char *procs = cgroup_path(c, (enum tn_cgroup_kind)i, id, "cgroup.procs");
        while (path && rmdir(path) < 0 && errno != ENOENT) {
            if (errno != EBUSY || past(deadline))
                return tn_fail_errno(err, errno, "remove the control group %s", path);
            wait_process(first_process(procs), deadline);
        }
    }
    return 0;
}
