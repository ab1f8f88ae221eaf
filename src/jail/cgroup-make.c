/* Making the control groups of a sandbox, and moving a process into them. */
#include <fcntl.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "jail/cgroup-internal.h"

enum {
    PERIOD_US = 100000,
    QUOTA_LEAST_US = 1000,
};

static const char *const limit_names[TN_CGROUP_KINDS] = {
    [TN_CGROUP_MEMORY] = "memory",
    [TN_CGROUP_PIDS] = "pids",
    [TN_CGROUP_CPU] = "cpus",
};

/* --- directories --------------------------------------------------------------------------- */

/* The directory above all sandboxes, with its controllers handed down (v2).  What cannot be handed
 * down shows when a limit is set. */
static int make_folder(const struct tn_cgroups *c, enum tn_cgroup_kind kind)
{
    static const char *const hand_down[] = {"+memory", "+pids", "+cpu"};
    tn_autofree char *folder = tn_asprintf("%s/" CGROUP_FOLDER, c->base[kind]);
    tn_autofree char *above = tn_asprintf("%s/cgroup.subtree_control", c->base[kind]);
    tn_autofree char *control = tn_asprintf("%s/cgroup.subtree_control", folder);

    if (mkdir(folder, 0755) < 0 && errno != EEXIST)
        return -1;
    for (size_t i = 0; kind == TN_CGROUP_UNIFIED && i < TN_COUNT(hand_down); i++) {
        if (!c->controls[TN_CGROUP_MEMORY + i])
            continue;
        cgroup_write(above, hand_down[i]);
        cgroup_write(control, hand_down[i]);
    }
    return 0;
}

static int make_directory(const struct tn_cgroups *c, enum tn_cgroup_kind kind, const char *id,
                          struct tn_error *err)
{
    tn_autofree char *path = cgroup_path(c, kind, id, NULL);

    if (mkdir(path, 0755) == 0 || errno == EEXIST)
        return 0;
    if (errno == ENOENT && make_folder(c, kind) == 0 && mkdir(path, 0755) == 0)
        return 0;
    return tn_fail_errno(err, errno, "control group %s", path);
}

/* --- limits -------------------------------------------------------------------------------- */

static int set(const struct tn_cgroups *c, int kind, const char *id, const char *file,
               const char *text)
{
    tn_autofree char *path = cgroup_path(c, (enum tn_cgroup_kind)kind, id, file);
    return cgroup_write(path, text);
}

/* A file that does not exist on every kernel. */
static int set_if_there(const struct tn_cgroups *c, int kind, const char *id, const char *file,
                        const char *text)
{
    return set(c, kind, id, file, text) < 0 && errno != ENOENT ? -1 : 0;
}

static int limit_memory(const struct tn_cgroups *c, int kind, const char *id,
                        const struct tn_cgroup_limits *limits)
{
    char bytes[32];

    snprintf(bytes, sizeof bytes, "%lld", (long long)limits->memory);
    if (kind == TN_CGROUP_UNIFIED)
        return set(c, kind, id, "memory.max", bytes) < 0 ||
                       set_if_there(c, kind, id, "memory.swap.max", "0") < 0
                   ? -1
                   : 0;
    return set(c, kind, id, "memory.limit_in_bytes", bytes) < 0 ||
                   set_if_there(c, kind, id, "memory.memsw.limit_in_bytes", bytes) < 0
               ? -1
               : 0;
}

static int limit_pids(const struct tn_cgroups *c, int kind, const char *id,
                      const struct tn_cgroup_limits *limits)
{
    char count[32];

    snprintf(count, sizeof count, "%lld", (long long)limits->pids);
    return set(c, kind, id, "pids.max", count);
}

static int limit_cpu(const struct tn_cgroups *c, int kind, const char *id,
                     const struct tn_cgroup_limits *limits)
{
    int64_t quota = (int64_t)(limits->cpus * PERIOD_US);
    char text[64];

    if (quota < QUOTA_LEAST_US)
        quota = QUOTA_LEAST_US;
    if (kind == TN_CGROUP_UNIFIED) {
        snprintf(text, sizeof text, "%lld %d", (long long)quota, PERIOD_US);
        return set(c, kind, id, "cpu.max", text);
    }
    snprintf(text, sizeof text, "%lld", (long long)quota);
    return set(c, kind, id, "cpu.cfs_quota_us", text); /* the period is 100 ms from the start */
}

typedef int (*limit_fn)(const struct tn_cgroups *c, int kind, const char *id,
                        const struct tn_cgroup_limits *limits);
static const limit_fn limiters[TN_CGROUP_KINDS] = {
    [TN_CGROUP_MEMORY] = limit_memory,
    [TN_CGROUP_PIDS] = limit_pids,
    [TN_CGROUP_CPU] = limit_cpu,
};

static bool wanted(const struct tn_cgroup_limits *limits, int what)
{
    const bool is[TN_CGROUP_KINDS] = {
        [TN_CGROUP_MEMORY] = limits->memory > 0,
        [TN_CGROUP_PIDS] = limits->pids > 0,
        [TN_CGROUP_CPU] = limits->cpus > 0,
    };
    return is[what];
}

static int set_limits(const struct tn_cgroups *c, const char *id,
                      const struct tn_cgroup_limits *limits, struct tn_error *err)
{
    for (int what = TN_CGROUP_MEMORY; what <= TN_CGROUP_CPU; what++) {
        if (!wanted(limits, what))
            continue;
        int kind = cgroup_where(c, (enum tn_cgroup_kind)what);
        if (kind < 0)
            return tn_fail(err, TN_E_UNSUPPORTED, "the limit on %s cannot be enforced: %s",
                           limit_names[what],
                           c->why ? c->why : "no control group here has that controller");
        if (limiters[what](c, kind, id, limits) < 0)
            return tn_fail_errno(err, errno, "the limit on %s cannot be enforced",
                                 limit_names[what]);
    }
    return 0;
}

/* Memory and processes are counted even without a limit; the freezer only serves where nothing else
 * does it. */
static bool always_made(const struct tn_cgroups *c, int kind)
{
    return c->base[kind] && kind != TN_CGROUP_CPU &&
           (kind != TN_CGROUP_FREEZER || !c->base[TN_CGROUP_UNIFIED]);
}

static bool needed(const struct tn_cgroups *c, int kind, const struct tn_cgroup_limits *limits)
{
    return always_made(c, kind) || (c->base[kind] && kind == TN_CGROUP_CPU && limits->cpus > 0);
}

int tn_cgroup_make(const struct tn_cgroups *c, const char *id,
                   const struct tn_cgroup_limits *limits, struct tn_error *err)
{
    int r = 0;

    for (int i = 0; i < TN_CGROUP_KINDS && r == 0; i++)
        if (needed(c, i, limits))
            r = make_directory(c, (enum tn_cgroup_kind)i, id, err);
    if (r == 0)
        r = set_limits(c, id, limits, err);
    if (r < 0)
        tn_cgroup_remove(c, id, tn_now(), NULL);
    return r;
}

int tn_cgroup_make_unified(const struct tn_cgroups *c, const char *id, struct tn_error *err)
{
    return c->base[TN_CGROUP_UNIFIED] ? make_directory(c, TN_CGROUP_UNIFIED, id, err) : 0;
}

int tn_cgroup_open_unified(const struct tn_cgroups *c, const char *id)
{
    tn_autofree char *path = cgroup_path(c, TN_CGROUP_UNIFIED, id, NULL);
    return path ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
}

int tn_cgroup_join(const struct tn_cgroups *c, const char *id, pid_t pid, bool unified,
                   struct tn_error *err)
{
    char text[32];

    snprintf(text, sizeof text, "%d", (int)pid);
    for (int i = unified ? TN_CGROUP_UNIFIED : TN_CGROUP_MEMORY; i < TN_CGROUP_KINDS; i++) {
        /* A thread that moves itself through `tasks` waits for nobody; everything else waits for an
         * RCU grace period, which takes milliseconds. */
        const char *file = pid == 0 && i != TN_CGROUP_UNIFIED ? "tasks" : "cgroup.procs";
        tn_autofree char *path = cgroup_path(c, (enum tn_cgroup_kind)i, id, file);
        if (path && cgroup_write(path, text) < 0 && (errno != ENOENT || always_made(c, i)))
            return tn_fail_errno(err, errno, "join the control group %s", path);
    }
    return 0;
}
