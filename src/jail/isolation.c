#include "jail/isolation.h"

#include "jail/plan.h"

const char *const tn_jail_reaches[] = {
    [TN_JAIL_REACH_UNKNOWN] = "unknown",
    [TN_JAIL_REACH_NONE] = "none",
    [TN_JAIL_REACH_HOST] = "host",
    [TN_JAIL_REACH_OPEN] = "open",
    [TN_JAIL_REACH_ALLOW] = "allow",
    [TN_JAIL_REACH_NO_GATE] = "no gate",
    NULL,
};

const char *tn_jail_reach_sentence(int reach)
{
    static const char *const sentences[] = {
        [TN_JAIL_REACH_UNKNOWN] = "not known: it was started by an older version",
        [TN_JAIL_REACH_NONE] = "nothing but itself",
        [TN_JAIL_REACH_HOST] = "all that this machine reaches, its own loopback and its neighbours "
                               "too",
        [TN_JAIL_REACH_OPEN] = "the internet, and never this machine, its private networks or a "
                               "cloud's metadata address",
        [TN_JAIL_REACH_ALLOW] = "what its rules name, and nothing else",
        [TN_JAIL_REACH_NO_GATE] = "nothing but itself: the default is the internet behind a gate, "
                                  "but this kernel lacks nf_tables with nft_tproxy",
    };
    return sentences[reach];
}

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
    TN_WORD("reach", ISOLATION, reach, tn_jail_reaches, .fallback = "unknown",
            .help = "what its network leads to"),
};

const struct tn_fields tn_jail_isolation_fields = TN_FIELDS(rows);
