/* Control groups of sandboxes, on v2, on v1 and on both at once.
 *
 * Each hierarchy that is used holds a directory `tendon`, and in it one directory per sandbox,
 * named by its id: so everything is found again by listing, whoever died.  On v1 (and hybrid)
 * limits live in the hierarchies memory, pids and cpu, and a directory of the v2 tree, where one is
 * mounted, serves to kill, to freeze and to count; without it the v1 freezer does.  An ordinary
 * user has only what was delegated: the topmost v2 directory above its own process that it may
 * write to. */
#ifndef TN_JAIL_CGROUP_H
#define TN_JAIL_CGROUP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

enum tn_cgroup_kind {
    TN_CGROUP_UNIFIED, /* v2: all controllers that are not elsewhere, kill, freeze */
    TN_CGROUP_MEMORY,  /* the rest: hierarchies of v1 */
    TN_CGROUP_PIDS,
    TN_CGROUP_CPU,
    TN_CGROUP_FREEZER,
    TN_CGROUP_KINDS,
};

/* Where hierarchies are.  base is the directory that holds (or will hold) `tendon`. */
struct tn_cgroups {
    char *base[TN_CGROUP_KINDS];    /* NULL: not there, or not ours to write */
    bool controls[TN_CGROUP_KINDS]; /* v2: it has the controller memory, pids, cpu */
    char *why;                      /* why there is nothing, for people; NULL when there is */
};

/* Looks where the hierarchies are.  Changes nothing.  Finding nothing is no error. */
int tn_cgroups_find(struct tn_cgroups *c, struct tn_error *err);
/* The same from given texts, of /proc/self/mountinfo and /proc/self/cgroup; asks the file system
 * only for permissions and controllers. */
int tn_cgroups_parse(struct tn_cgroups *c, const char *mountinfo, const char *own,
                     struct tn_error *err);
void tn_cgroups_done(struct tn_cgroups *c);
#define tn_autocgroups TN_CLEANUP(tn_cgroups_done)

/* 0 is no limit. */
struct tn_cgroup_limits {
    int64_t memory; /* bytes; swap counts too */
    int64_t pids;
    double cpus;
};
/* Whether the hierarchies can enforce it. */
bool tn_cgroups_can_limit(const struct tn_cgroups *c, enum tn_cgroup_kind what);
/* Whether RLIMIT_NPROC counts per user namespace (Linux 5.14): what limits the processes of an
 * ordinary user's sandbox where no hierarchy does. */
bool tn_nproc_is_per_namespace(void);

/* Makes its directory in the v2 tree, if there is one: a process can be born in it. */
int tn_cgroup_make_unified(const struct tn_cgroups *c, const char *id, struct tn_error *err);
/* Makes the directories of the sandbox and sets its limits.  A limit that cannot be set is an error
 * that names it; what was made until then is removed. */
int tn_cgroup_make(const struct tn_cgroups *c, const char *id,
                   const struct tn_cgroup_limits *limits, struct tn_error *err);
/* A descriptor of the directory in v2 for CLONE_INTO_CGROUP; -1 when there is none. */
int tn_cgroup_open_unified(const struct tn_cgroups *c, const char *id);
/* Moves the process into the v1 directories (and into v2, if `unified`).  pid 0 is the caller,
 * which must have one thread: that is quick.  A sandbox without control groups is an error
 * (ENOENT): who is to be limited must not run unlimited. */
int tn_cgroup_join(const struct tn_cgroups *c, const char *id, pid_t pid, bool unified,
                   struct tn_error *err);

/* Directories of the groups that a process of somebody else's sandbox is in, of those whose path
 * bears `name` (an engine gives them that of the container); -1 where there is none.  Returns how
 * many there are, or -1. */
int tn_cgroups_of(const struct tn_cgroups *c, pid_t pid, const char *name, int fds[TN_CGROUP_KINDS],
                  struct tn_error *err);

/* Whether the process is in a control group of the sandbox; true when it cannot be told. */
bool tn_cgroup_holds(const char *id, pid_t pid);

/* Kills every process of the sandbox, and returns when none is left; nothing there is fine. */
int tn_cgroup_kill(const struct tn_cgroups *c, const char *id, int64_t deadline,
                   struct tn_error *err);
/* Stops (or continues) every process, and returns when it is so.  TN_E_UNSUPPORTED without cgroups;
 * TN_E_NOT_FOUND when the sandbox has none. */
int tn_cgroup_freeze(const struct tn_cgroups *c, const char *id, bool frozen, int64_t deadline,
                     struct tn_error *err);
bool tn_cgroup_is_frozen(const struct tn_cgroups *c, const char *id);

/* -1 is unknown. */
struct tn_cgroup_usage {
    int64_t memory, memory_peak, processes;
    double cpu_seconds;
};
void tn_cgroup_usage(const struct tn_cgroups *c, const char *id, struct tn_cgroup_usage *out);

/* What limits did, since the sandbox was made. */
struct tn_cgroup_events {
    int64_t oom_kills; /* processes killed */
    int64_t pids_hits; /* forks refused */
};
void tn_cgroup_events(const struct tn_cgroups *c, const char *id, struct tn_cgroup_events *out);

/* Removes the directories; processes must be gone (a moment of patience for those that just died is
 * included).  Nothing there is fine. */
int tn_cgroup_remove(const struct tn_cgroups *c, const char *id, int64_t deadline,
                     struct tn_error *err);

/* Every id that has a directory in some hierarchy, each once; non-zero from fn stops and is
 * returned.
 */
typedef int (*tn_cgroup_found_fn)(const char *id, void *ctx);
int tn_cgroups_list(const struct tn_cgroups *c, tn_cgroup_found_fn fn, void *ctx);

#endif
