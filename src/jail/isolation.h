/* What a jail really has around it.  Reported at its start; nothing in it is a guess. */
#ifndef TN_JAIL_ISOLATION_H
#define TN_JAIL_ISOLATION_H

#include <stdbool.h>

#include "base/field.h"

/* What its network leads to. */
enum tn_jail_reach {
    TN_JAIL_REACH_UNKNOWN, /* it was started by an older version */
    TN_JAIL_REACH_NONE,
    TN_JAIL_REACH_HOST,
    TN_JAIL_REACH_OPEN,
    TN_JAIL_REACH_ALLOW,
    TN_JAIL_REACH_NO_GATE, /* nothing: it would be open, but this kernel cannot have a gate */
};
extern const char *const tn_jail_reaches[];
const char *tn_jail_reach_sentence(int reach);

struct tn_jail_isolation {
    bool user, pid, mount, network, ipc, uts, cgroup; /* namespaces of its own */
    int mapping;                                      /* enum tn_jail_mapping, never auto */
    bool idmapped;   /* files are shown with shifted owners: root inside owns nothing outside */
    bool world_only; /* of the host's directories only what everybody may read can be read */
    bool seccomp;
    bool landlock; /* signals and abstract sockets do not reach out of it */
    bool no_new_privs;
    bool capabilities; /* only the harmless ones are left */
    bool memory_limit, cpu_limit, pids_limit, disk_limit;
    bool file_size_limit, open_files_limit, wall_time_limit;
    bool kill_group; /* its processes can be killed all at once, by cgroup */
    bool freeze;     /* and frozen */
    bool gated;      /* all that leaves its network passes the gate */
    int reach;       /* enum tn_jail_reach */
    bool inotify_limit, terminals_limit;
    bool counted_alone; /* what the kernel counts by user is counted for this jail alone */
    bool no_set_id; /* no file becomes set-uid or set-gid or gets capabilities; only where a volume
                       that can be written to carries the host's own ids */
    int gvisor;     /* enum tn_jail_platform: what runs inside has gVisor for its kernel */
};

extern const struct tn_fields tn_jail_isolation_fields;

#endif
