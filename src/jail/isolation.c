#include "jail/isolation.h"

#include "jail/plan.h"

#define ISOLATION struct tn_jail_isolation
#define FLAG(member, text) TN_BOOL(#member, ISOLATION, member, .help = text)

/* Backends keep flags by their row (a bit each): new ones go to the end. */
static const struct tn_field rows[] = {
    FLAG(user, "user namespace"),
    FLAG(pid, "process namespace"),
    FLAG(mount, "mount namespace, with a root of its own"),
    FLAG(network, "network namespace with nothing but loopback"),
    FLAG(ipc, "System V and POSIX message queues of its own"),
    FLAG(uts, "host name of its own"),
    FLAG(cgroup, "control group namespace"),
    TN_WORD("mapping", ISOLATION, mapping, tn_jail_mappings, .help = "who root inside is"),
    FLAG(idmapped, "files are shown through idmapped mounts"),
    FLAG(world_only, "of the host's directories only what everybody may read can be read"),
    FLAG(seccomp, "system calls are filtered"),
    FLAG(landlock, "signals and abstract sockets do not reach out"),
    FLAG(no_new_privs, "no program gives more rights than its caller has"),
    FLAG(capabilities, "the capability bounding set is reduced"),
    FLAG(memory_limit, "memory is limited"),
    FLAG(cpu_limit, "processor time is limited"),
    FLAG(pids_limit, "the number of processes is limited"),
    FLAG(disk_limit, "the disk is limited"),
    FLAG(file_size_limit, "the size of a file is limited"),
    FLAG(open_files_limit, "open files are limited"),
    FLAG(wall_time_limit, "its time is limited"),
    FLAG(kill_group, "a control group ends all of its processes at once"),
    FLAG(freeze, "a control group can freeze it"),
    FLAG(no_set_id,
         "no file becomes set-uid or set-gid or gets capabilities: it writes to the host"),
    FLAG(inotify_limit, "inotify is counted for it alone, or it has a share of the user's"),
    FLAG(terminals_limit, "terminals are limited"),
    FLAG(counted_alone,
         "what the kernel counts by user (signals, pipes, ...) is counted for it alone"),
    FLAG(gated, "what leaves its network passes the gate, which never leads to the host"),
    TN_WORD("gvisor", ISOLATION, gvisor, tn_jail_platforms, .fallback = "none",
            .help = "platform of gVisor, the kernel inside; none: that of this machine"),
};

const struct tn_fields tn_jail_isolation_fields = TN_FIELDS(rows);
