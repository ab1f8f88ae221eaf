/* The plan of one jail: everything the launcher `tendon-jail` needs to know, and nothing else.
 *
 * The backend (runtime/jail) fills it and writes it as JSON to a descriptor that the launcher
 * inherits; the launcher reads it with the same table.  All paths are those of the host and
 * absolute, unless the comment says "inside".
 *
 *     tendon-jail PLAN_FD REPORT_FD [START_FD]
 *                                        launches, reports, and stays as the keeper of the jail;
 *                                        START_FD is closed once the report is written
 *     tendon-jail --parcel SOCKET_FD
 *                                        the same for one that is started before its plan is known:
 *                                        all these come in a parcel (parcel.h), under the numbers
 *                                        below; first it says who it is: a struct tn_proc
 *     tendon-jail --probe
 *                                        what this machine offers, as JSON (see probe.c)
 *
 * The report is one line.  {"pid": INIT, "start": TICKS, "keeper": PID, "keeper_start": TICKS,
 * "isolation": {...}} once the program runs as PID 1 of the jail; {"error": "...", "step": "...",
 * "code": "..."} and an exit code otherwise; then no process, mount or
 * control group is left.  code is a name of base/error.h.
 *
 * What appears in `directory`:
 *     keeper.sock  the keeper listens here (keeper-protocol.h)
 *     end.json     how the jail ended (struct tn_jail_end); written by the keeper, if it lived */
#ifndef TN_JAIL_PLAN_H
#define TN_JAIL_PLAN_H

#include "base/error.h"
#include "base/field.h"

/* What comes in a parcel with the descriptors that the plan names. */
enum { TN_JAIL_PLAN_FD = 3, TN_JAIL_REPORT_FD = 4, TN_JAIL_START_FD = 6, TN_JAIL_VAULT_FD = 8 };

#define TN_JAIL_TRASH "discarded-" /* what is called so in `directory` is removed after a start */
#define TN_JAIL_SUSPENDED "suspended" /* what a suspended jail is made anew from, see criu.h */
#define TN_JAIL_SOCKET "hand.sock"
#define TN_JAIL_RULES "network.rules" /* new rules for the gate, see keeper-protocol.h */
/* What the keeper of a container's gate locks, with the process that it is for (container.c). */
#define TN_JAIL_KEEPER_LOCK "keeper.lock"
#define TN_JAIL_KEEPER_OF "%lld %llu\n"
#define TN_JAIL_HAND "/.tendon/hand" /* where the program of the plan is inside, read-only */

/* Who root inside is. */
enum tn_jail_mapping {
    TN_JAIL_MAP_AUTO,  /* root: range, else identity; an ordinary user: own */
    TN_JAIL_MAP_RANGE, /* 65536 ids of the sandbox's own; files are shown through idmapped mounts,
                          so owners on disk are those seen inside */
    TN_JAIL_MAP_IDENTITY, /* a user namespace in which every id is itself */
    TN_JAIL_MAP_OWN,      /* the caller is root inside and nobody else exists */
    TN_JAIL_MAP_SUBIDS,   /* own, and the ranges of /etc/subuid by newuidmap; some milliseconds */
    TN_JAIL_MAP_NONE,     /* no user namespace; only for root */
};
extern const char *const tn_jail_mappings[];

enum tn_jail_network {
    TN_JAIL_NET_NONE, /* loopback only */
    TN_JAIL_NET_HOST,
    TN_JAIL_NET_OPEN,  /* behind a gate: the internet, and never the host */
    TN_JAIL_NET_ALLOW, /* behind a gate: what `allow` names */
};
extern const char *const tn_jail_networks[];

/* How gVisor sees the system calls of what runs on it; none: there is no gVisor. */
enum tn_jail_platform { TN_JAIL_PLATFORM_NONE, TN_JAIL_PLATFORM_SYSTRAP, TN_JAIL_PLATFORM_KVM };
extern const char *const tn_jail_platforms[];

/* A volume.  source is canonical: a symbolic link anywhere in it is refused, so that nobody can
 * exchange a part of it after it was checked.  target is inside; missing parts are made, and links
 * in it are followed as the jail would follow them. */
struct tn_jail_mount {
    char *source, *target;
    bool read_only;
    bool overlay; /* writes go to storage/volumes/N and nowhere else */
};

struct tn_jail_plan {
    char *id;        /* [a-z0-9]{1,32}: names cgroups, and the id range */
    char *directory; /* of this sandbox alone; exists */

    /* The root file system: an overlay of layers, the first on top.  With host_paths, those
     * directories of the host lie below them.  A layer is what storage/upper was at some time (or,
     * without host_paths, any directory with a root file system): copy it whole, and never look
     * into it, for with host_paths it has a shape of its own.  Whiteouts are character devices 0:0;
     * opaque directories have the attribute trusted.overlay.opaque=y, or user.overlay.opaque=y, see
     * tn_jail_in_first_userns.  Layers from elsewhere must not have other attributes *.overlay.*.
     * A layer that is a file is an image of one (erofs.h), and the caller's alone. */
    struct tn_str_list lowers;
    struct tn_str_list
        host_paths; /* "/usr", ...; missing ones are skipped, links are kept as links */
    struct tn_str_list etc_hidden; /* entries of /etc ("shadow", "ssl/private", "ssh/ssh_host_*");
                                      what the world may not read is never shown anyway */
    char *storage; /* directory for upper/ and work/ (made if missing); with tmpfs_bytes: NULL */
    int64_t tmpfs_bytes; /* > 0: upper and work live on a tmpfs of that size instead; the keeper
                            hands out its descriptor */
    char *seed;          /* a directory whose content is copied to upper/ of that tmpfs */
    int64_t shm_bytes;   /* size of /dev/shm; 0: 64 MiB */
    int64_t tmp_bytes;   /* > 0: /tmp is a tmpfs of that size; 0: it is part of the root */

    struct tn_jail_mount *mounts;
    size_t mount_count;
    struct tn_str_list devices; /* further /dev/... to pass through */

    char *hostname;
    char *workspace;          /* inside; made if missing, and owned by uid and gid; or NULL */
    int mapping;              /* enum tn_jail_mapping */
    int network;              /* enum tn_jail_network */
    struct tn_str_list allow; /* rules of the gate (gate/rules.h) */
    double ask_seconds;       /* that a connection without a rule may wait, with allow; 0: none */
    char *gate;               /* the program tendon-gate; for the last two */
    bool gate_optional;       /* where the kernel cannot have a gate: none, instead of a failure */
    int64_t vault_fd;         /* > 0: a file in memory for the gate (gate/vault.h), which nobody
                                 else reads, the launcher neither */
    char *authority;          /* with it: the certificate that the gate signs with, PEM; it is shown
                                 inside (gate/roots.h), and believed there */
    int64_t uid, gid;         /* inside, of the program */
    bool new_privs; /* set-uid programs give rights (sudo works), where root inside has none of
                         another user outside: mappings range and subids; a jail that may be
                         suspended has no_new_privs always */

    /* Limits; 0 is none.  What cannot be enforced makes the launch fail and is named. */
    int64_t memory, file_size; /* bytes */
    int64_t pids, open_files;
    double cpus, wall_time;

    char *hand;              /* the program; appears inside as TN_JAIL_HAND and is executed there */
    struct tn_str_list argv; /* its arguments with argv[0]; NULL: TN_JAIL_HAND alone */
    struct tn_str_list env;  /* NAME=value: all of its environment */
    struct tn_int_list fds;  /* descriptors it inherits under the same numbers (> 2) */
    char *log;               /* where its output goes, appended; NULL: nowhere */

    /* Suspending (criu.h): the program that will do it, NULL for a jail that never is suspended.
     * Then the program listens on directory/TN_JAIL_SOCKET under the number socket_fd, and that
     * socket is made by the jail.  restored: not started but made anew from the images. */
    char *criu;
    int64_t socket_fd;
    bool restored;

    /* gVisor (gvisor.c): the program runsc, NULL for a jail on the kernel of this machine, and its
     * platform.  Then socket_fd is a listening socket that the keeper serves, and the program gets
     * one end of a pair (net/pair.h) under that number. */
    char *runsc;
    int platform; /* enum tn_jail_platform */

    int64_t files_fd; /* > 0: a pipe; the first layer is complete when there is a byte in it, and
                         need not exist before; if the pipe is closed before, it never will be */
    double files_seconds; /* nor when it takes longer than that */

    int64_t owner_pid, owner_start; /* when this process ends so does the jail, and `directory` is
                                       removed; 0: none */
};

void tn_jail_plan_init(struct tn_jail_plan *plan);
void tn_jail_plan_done(struct tn_jail_plan *plan);
#define tn_autoplan TN_CLEANUP(tn_jail_plan_done)

/* One more entry of plan->mounts, with null strings. */
struct tn_jail_mount *tn_jail_plan_add_mount(struct tn_jail_plan *plan);

void tn_jail_plan_to_json(const struct tn_jail_plan *plan, struct tn_jw *w);
/* Unknown keys are errors.  Ends with tn_jail_plan_check. */
int tn_jail_plan_from_json(const struct tn_json *json, struct tn_jail_plan *plan,
                           struct tn_error *err);
int tn_jail_plan_check(const struct tn_jail_plan *plan, struct tn_error *err);
int tn_jail_check_hostname(const char *name, struct tn_error *err);

/* Whether what the jail writes can end up in a directory of the host, as somebody's there. */
bool tn_jail_plan_shares(const struct tn_jail_plan *plan);

/* Whether this process is in the user namespace that the machine started with: only there do
 * overlays of root use trusted.overlay.*; elsewhere it is user.overlay.*, as for ordinary users. */
bool tn_jail_in_first_userns(void);

/* How a jail ended: directory/end.json. */
struct tn_jail_end {
    struct tn_opt_int status; /* exit code of PID 1 */
    struct tn_opt_int signal; /* or the signal that ended it */
    int64_t oom_kills;        /* processes killed because of the memory limit, in all its life */
    int64_t pids_hits;        /* forks refused because of the process limit */
    bool wall_time;           /* ended because its time was up */
    double at;                /* seconds since 1970 */
};
extern const struct tn_fields tn_jail_end_fields;

/* Reads directory/end.json; TN_E_NOT_FOUND when there is none (still running, or the keeper was
 * killed). */
int tn_jail_end_read(const char *directory, struct tn_jail_end *end, struct tn_error *err);
int tn_jail_end_write(int directory, const struct tn_jail_end *end, struct tn_error *err);

#endif
