/* The launcher's own state, shared by its files.
 *
 * Two processes: the launcher (later the keeper) outside, and the one it clones, which builds the
 * jail around itself and becomes PID 1.  Both work on their copy of struct jail; `control` is the
 * socket between them.  Functions return 0, or -1 with err. */
#ifndef TN_JAIL_JAIL_H
#define TN_JAIL_JAIL_H

#include <sys/types.h>

#include "base/buf.h"
#include "base/error.h"
#include "gate/keeper.h"
#include "jail/cgroup.h"
#include "jail/isolation.h"
#include "jail/parcel.h"
#include "jail/plan.h"

enum {
    JAIL_IDS = 65536, /* ids of a range */
    JAIL_SYSTEM_MOUNTS = 6,
};
#define JAIL_RANGE_FIRST UINT32_C(0x70000000) /* nobody gives these numbers to people */
#define JAIL_RANGE_SLOTS UINT32_C(4096)
#define JAIL_FD_HIGH (TN_NURSERY_FD + 1)   /* from here on no parcel asks for a number */
#define JAIL_SEED_SECONDS 600.0            /* a seed may be large */
#define JAIL_NOBODY (JAIL_RANGE_FIRST - 1) /* owns nothing anywhere */

/* A directory that the root file system is made of: a detached mount, shown with shifted owners
 * where ids are mapped. */
struct jail_source {
    const char *path; /* borrowed from the plan; host paths: also where it appears inside */
    int mount;        /* -1: attached already, or there is none of its own */
    bool there;       /* a directory, not a link and not missing */
    bool joined;      /* host paths: it is seen through the host's root, see host.c */
    bool stacked;     /* it lies on an overlay itself: no room for a view */
    char *link;       /* host paths: it is this symbolic link; else NULL */
    mode_t mode;
};

/* A device of the host that is to be attached, where nodes of one's own cannot be made. */
struct jail_device {
    int mount;
    char *target;
};

/* Where connections to the hand go in, see door.c; -1: no such thing. */
struct jail_door {
    int listener, pair; /* outside */
    int inside;         /* the hand's end of the pair */
    int held;           /* a connection that the pair has no room for yet */
};

struct jail {
    struct tn_jail_plan plan;
    struct tn_gate_keeper gate; /* see gate.h */
    struct tn_cgroups cgroups;
    struct tn_jail_isolation isolation;
    bool privileged;  /* root where it was started, not only in a user namespace of its own */
    uid_t caller_uid; /* who started the launcher */
    gid_t caller_gid;
    int mapping;       /* enum tn_jail_mapping; never auto */
    bool gains;        /* set-uid programs give rights, inside: nobody there is one of outside */
    uid_t base;        /* root inside is this user outside */
    bool user_xattrs;  /* overlays keep their notes in user.overlay.*: not root of the machine */
    int userns;        /* its user namespace, when made in advance; else -1 */
    int directory;     /* plan.directory */
    int storage;       /* holds upper/ and work/, owners as inside */
    int storage_mount; /* the same as a detached mount, mapped; -1 until made */
    int control;
    int hand, cpu_info;  /* detached mounts of the program and of /sys/devices/system/cpu */
    int runsc, sidecars; /* and of runsc, and what it has beside it; -1: none */
    struct jail_door door;
    int output, child_output; /* pipe of what the program writes */
    int log;                  /* and the file it ends up in; -1: none */
    int listener;             /* of the keeper */
    int owner;                /* pidfd; -1: none */
    int left_network;         /* the launcher's own, while it is in that of the jail; or -1 */
    bool cgroups_known;       /* cgroups says where they are */
    bool in_group;            /* the child was born in its control group of v2 */
    bool shares;              /* it writes to directories of the host, see tn_jail_plan_shares */
    bool counted_alone;       /* its user namespace has an owner of its own */
    bool pids_by_rlimit;      /* the limit on processes is one of this user in this namespace */
    struct jail_source *lowers, *host_paths;
    struct jail_source host_root;   /* for the joined ones */
    struct tn_str_list hidden;      /* paths of the host, without the links on the way there */
    int *volumes;                   /* detached mounts, one per plan.mounts */
    int system[JAIL_SYSTEM_MOUNTS]; /* detached mounts, see system.c; -1: not wanted */
    struct jail_device *devices;
    size_t device_count;
    int images;   /* restored: TN_JAIL_SUSPENDED; else -1 */
    char **parts; /* restored: targets of what is laid out, see criu-restore.c */
    size_t part_count;
    struct tn_buf resolver; /* the host's resolv.conf */
    int authority;          /* a detached mount of its certificate; 0: none */
    int *bundles;           /* of the roots with it: one more than there are tn_root_bundles */
    int *policies;          /* and of what browsers are told: as many as tn_root_policies */
    int root;               /* inside: the root directory */
};

/* --- identity.c: who is who ------------------------------------------------------------------ */

/* Decides the mapping (retry: a range turned out to be impossible, err says where). */
int jail_choose_mapping(struct jail *j, bool retry, struct tn_error *err);
/* A user namespace in which outside..outside+count are inside..; -1 with err.  A child that is
 * about to end is left behind. */
int jail_make_userns(uid_t inside, uid_t outside_uid, gid_t inside_gid, gid_t outside_gid,
                     uint32_t count, struct tn_error *err);
/* Waits for such children. */
void jail_bury_holders(void);
/* For mappings that have their namespace made in advance. */
int jail_prepare_userns(struct jail *j, struct tn_error *err);
/* In a new user namespace: that user of outside is root here, and nobody else exists. */
int jail_map_own(uid_t uid, gid_t gid, struct tn_error *err);
/* Inside, mapping own: writes its own maps.  subids: waits until the launcher has. */
int jail_map_self(struct jail *j, struct tn_error *err);
/* Outside, mapping subids: runs newuidmap and newgidmap for the child. */
int jail_map_subids(struct jail *j, pid_t child, struct tn_error *err);
/* Inside, an ordinary user's: of what the kernel counts to that user only a part may be taken. */
int jail_take_shares(struct jail *j, struct tn_error *err);
/* Makes the files that this process creates belong to root inside, keeping its capabilities. */
int jail_act_as_root(const struct jail *j, struct tn_error *err);
/* Acts on files as that user and group with these capabilities alone, of this thread, until
 * jail_act_again.  Other groups are given up for good: nobody here needs them. */
struct jail_actor {
    uid_t uid;
    gid_t gid;
    uint64_t effective;
};
int jail_act_as(uid_t id, uint64_t capabilities, struct jail_actor *before, struct tn_error *err);
int jail_act_again(const struct jail_actor *before, struct tn_error *err);
int jail_enter_userns(struct jail *j, struct tn_error *err);
int jail_become_user(struct jail *j, struct tn_error *err);

/* --- source.c, storage.c: what the root is made of ------------------------------------------- */

/* A volume's source, O_PATH; a link anywhere in it is an error. */
int jail_open_volume(const struct tn_jail_mount *m, struct tn_error *err);
/* Inside: makes a detached mount of everything the plan names. */
int jail_open_sources(struct jail *j, struct tn_error *err);
/* Inside, once the user namespace is known.  1: the owners of files cannot be mapped on one of the
 * file systems (err names it). */
int jail_map_sources(struct jail *j, struct tn_error *err);

/* Inside: the layer that had to be filled first, to its place in the scaffold.  1: as above. */
int jail_open_filled(struct jail *j, struct tn_error *err);

/* Opens or makes plan.storage, or the tmpfs, with upper/ and work/ in it: j->storage. */
int jail_open_storage(struct jail *j, struct tn_error *err);
/* Inside: j->storage_mount; called before and after the scaffold is there. */
int jail_clone_storage(struct jail *j, bool scaffold, struct tn_error *err);

/* --- root.c, host.c: the file system -------------------------------------------------------- */

int jail_make_private(struct jail *j, struct tn_error *err);
/* A directory that every machine has and that neither criu nor its libraries lie in. */
#define JAIL_LAYOUT "/sys/module"
/* Mounts the scaffold (a small tmpfs) and enters it. */
int jail_make_scaffold(struct jail *j, struct tn_error *err);
/* Attaches storage and sources there, under the names that root.c tells. */
int jail_attach_sources(struct jail *j, struct tn_error *err);
/* 1: not with mapped owners. */
int jail_make_root(struct jail *j, struct tn_error *err);
/* After it nothing of the host is left but what was attached. */
int jail_enter_root(struct jail *j, struct tn_error *err);

/* Makes the directory `name` here and attaches the mount on it; takes the mount. */
int jail_attach_here(int *mount, const char *name, struct tn_error *err);
/* An overlay on the directory `on`; lowers is a list with colons, and all is relative to the
 * scaffold.  follow: the skeleton's redirects count. */
int jail_mount_overlay(const struct jail *j, const char *on, const char *lowers, const char *upper,
                       const char *work, bool follow, struct tn_error *err);
/* Fills the scaffold's skel/@ with what a root must have. */
int jail_fill_skeleton(struct jail *j, struct tn_error *err);
/* Whether the layer, or a directory at its top, belongs to somebody who does not exist inside. */
bool jail_is_foreign(const struct jail *j, const char *layer);
/* Makes the directories of such a layer once more below `on`, as this user's own. */
int jail_shadow(const char *layer, const char *on, struct tn_error *err);
/* Hides what must be hidden in joined host paths; *lower is the layer that has them, NULL when
 * there are none. */
int jail_prepare_host(struct jail *j, const char **lower, struct tn_error *err);
/* Mounts the host's directories that are not joined. */
int jail_mount_host_paths(struct jail *j, struct tn_error *err);

#define JAIL_DPKG "/var/lib/dpkg"

/* In the layer `mask` over the directory `host`: directories with the same modes as there, down to
 * the last part of path. */
int jail_follow_directories(int host, int mask, const char *path);
/* Covers it there.  Nothing to hide is fine, and so is what lies in something that is hidden. */
int jail_hide(int host, int mask, const char *path, struct tn_error *err);

/* --- hidden.c, credentials.c: what a jail does not see of the host's directories -------------- */

/* Fills j->hidden, by what the scaffold has. */
void jail_find_hidden(struct jail *j);
/* Hides what of it is in that host path: the directory `host`, with the layer `mask` above it. */
int jail_hide_found(const struct jail *j, const char *host_path, int host, int mask,
                    struct tn_error *err);
/* Files that may hold a credential, some of them patterns in the last part; NULL ends them. */
extern const char *const jail_settings[];
bool jail_holds_credential(int fd);

/* --- etc.c: files of the system that a jail has of its own ----------------------------------- */

/* In the layer `mask` over the host's /etc, where what is hidden has been: its own instead. */
int jail_write_etc(const struct jail *j, int host, int mask, struct tn_error *err);
/* The same for /usr and JAIL_DPKG: python, pip and dpkg work. */
int jail_change_usr(int host, int mask, struct tn_error *err);
int jail_change_dpkg(int host, int mask, struct tn_error *err);
/* hosts and hostname for images that have none... */
int jail_write_default_names(struct jail *j, int etc, struct tn_error *err);
/* ...and, once the root is there, for those that have others. */
int jail_correct_names(struct jail *j, struct tn_error *err);
/* The same when it is called otherwise from now on; for whoever looks at its /etc from outside. */
int jail_change_names(int etc, const char *old, const char *name, struct tn_error *err);

/* --- rename.c: a name for a jail that runs ---------------------------------------------------- */

/* Host name, /etc/hostname and /etc/hosts become those of a jail that was made with the name. For
 * the keeper; TN_E_UNSUPPORTED where that is not root's. */
int jail_take_name(struct jail *j, pid_t pid, int pidfd, const char *name, struct tn_error *err);

/* --- beneath.c: paths inside ------------------------------------------------------------------ */

/* Opens a path of the jail (absolute; links are followed as the jail would), or makes it: missing
 * directories belong to root inside.  An O_PATH descriptor, or -1. */
int jail_open_inside(const struct jail *j, const char *path, bool directory, struct tn_error *err);
/* Attaches a detached mount there; takes it.  The target must not be a link. */
int jail_attach(const struct jail *j, int mount, const char *target, bool directory,
                struct tn_error *err);
/* A detached mount of a new file system; options are key=value or key, NULL at the end. */
int jail_new_mount(const char *type, const char *const *options, unsigned attributes,
                   struct tn_error *err);

/* --- system.c: /proc, /sys, /dev and other things every root has --------------------------- */

int jail_prepare_system(struct jail *j, struct tn_error *err); /* before the root is entered */
int jail_attach_system(struct jail *j, struct tn_error *err);
int jail_mask_proc(struct jail *j, struct tn_error *err);
/* Attaches what runsc itself needs (/proc and /dev) below that directory of the scaffold. */
int jail_attach_own_system(struct jail *j, const char *below, struct tn_error *err);
/* Where system[i] belongs. */
const char *jail_system_target(int i);
#define JAIL_CPU_INFO "/sys/devices/system/cpu"
int jail_lock_cpu_info(struct jail *j, struct tn_error *err);

/* --- volume.c ------------------------------------------------------------------------------- */

int jail_prepare_volumes(struct jail *j, struct tn_error *err);
int jail_attach_volumes(struct jail *j, struct tn_error *err);
int jail_make_workspace(struct jail *j, struct tn_error *err);
int jail_read_resolver(struct jail *j, struct tn_error *err);
int jail_write_resolver(struct jail *j, struct tn_error *err);

/* --- roots.c: whom programs inside believe ---------------------------------------------------- */

/* In the scaffold, where the plan has an authority: the files with it, as detached mounts... */
int jail_write_roots(struct jail *j, struct tn_error *err);
/* ...and, in the root, where programs look for such.  The variables that lead there join the
 * environment, where it has none of that name. */
int jail_show_roots(struct jail *j, struct tn_error *err);
/* The same of a running container with that root and those mounts (its namespace): the files in
 * the directory, which its engine has mounted, are written, and its bundles are covered.  Again for
 * each keeper that it gets. */
int jail_show_roots_of_container(int directory, int root, int mounts, const char *authority,
                                 struct tn_error *err);

/* --- gvisor.c, door.c: a jail on a kernel of its own ------------------------------------------ */

#define JAIL_SIDECARS "/gvisor-bin" /* what runsc looks for beside itself */
/* In the scaffold: everything that runsc runs in, and what it is told. */
int jail_make_walls(struct jail *j, struct tn_error *err);
int jail_enter_walls(struct jail *j, struct tn_error *err);
/* In the walls: has runsc run one more program in that jail, in that directory.  Only returns when
 * that fails. */
int jail_ask_runsc(const char *id, const char *directory, char *const *program,
                   struct tn_error *err);
/* Only returns when that fails. */
int jail_become_runsc(const struct jail *j, struct tn_error *err);
/* Outside, before the child is made. */
int jail_open_door(struct jail *j, struct tn_error *err);
/* Inside: the pair under the number of the plan. */
int jail_take_door(struct jail *j, struct tn_error *err);
/* In the keeper: what to wait for, and what to do then. */
struct pollfd;
void jail_poll_door(const struct jail_door *d, struct pollfd *p);
void jail_serve_door(struct jail_door *d);

/* --- network.c ----------------------------------------------------------------------------- */

/* Moves the calling process into a network with nothing but loopback, unless the plan wants that of
 * the host. */
int jail_make_network(const struct jail *j, struct tn_error *err);
/* In a network that an engine has made: loopback is up, for IPv6 too, which engines turn off. */
int jail_prepare_loopback(struct tn_error *err);
/* An ordinary user's process enters the user namespace that the namespace belongs to, which this
 * user has made, and has all rights there.  Nobody comes back.  Nothing for root. */
int jail_become_owner(int namespace, struct tn_error *err);
/* Whether the child is born into its network; an ordinary user's makes its own. */
bool jail_gets_network(const struct jail *j);
/* In the launcher, which is in the network of the jail until it has a child there. */
int jail_enter_network(struct jail *j, struct tn_error *err);
int jail_leave_network(struct jail *j, struct tn_error *err);
/* In the network of a jail whose plan wants it gated: the wall, to j->gate.  Where that is optional
 * and cannot be, the caller is in a network of its own afterwards, and that is the plan. */
int jail_raise_wall(struct jail *j, struct tn_error *err);

/* --- confine.c: what a process may do ------------------------------------------------------ */

int jail_set_limits(struct jail *j, struct tn_error *err);
/* A session keyring of its own. */
int jail_leave_keyring(struct jail *j, struct tn_error *err);
/* Landlock and the filters take CAP_SYS_ADMIN in the user namespace: before it is dropped, since a
 * jail may do without no_new_privs.  Landlock: absence is no error. */
int jail_restrict_scope(struct jail *j, struct tn_error *err);
int jail_filter_calls(struct jail *j, struct tn_error *err);
#define JAIL_FILTERS 3 /* with the one for jails that write to directories of the host */
int jail_drop_capabilities(struct jail *j, struct tn_error *err);
/* The only one of these filters that runsc can live with: where j->shares. */
int jail_filter_set_id(struct jail *j, struct tn_error *err);
/* For runsc alone: a pause would kill programs on its kernel otherwise. */
int jail_filter_listeners(struct jail *j, struct tn_error *err);
/* Nothing where j->gains. */
int jail_no_new_privileges(struct jail *j, struct tn_error *err);
/* The Landlock version of this kernel, 0 when it has none. */
int jail_landlock_version(void);

/* --- inside.c, launch.c, keeper.c, probe.c ------------------------------------------------- */

/* In the child: everything up to exec.  Never returns. */
_Noreturn void jail_inside(struct jail *j);
/* What can be done before the plan is known; what fails here will fail again when it is needed. */
void jail_prepare_launch(struct jail *j);
/* The part of it that can be done once for many. */
void jail_find_groups(struct jail *j);
/* Starts the jail; on success *pid and *pidfd are those of its PID 1. */
int jail_spawn(struct jail *j, pid_t *pid, int *pidfd, const char **step, struct tn_error *err);
/* Waits for the end of the jail, and cleans up.  Returns the exit code. */
int jail_keep(struct jail *j, pid_t pid, int pidfd);
/* Opens the log, and the socket of keeper-protocol.h. */
int jail_open_keeper(struct jail *j, struct tn_error *err);
int jail_probe(void);

/* Removes TN_JAIL_TRASH* in the directory, and what a suspend that was cut off left there, without
 * making anybody wait. */
void jail_clear_trash(const struct jail *j);

#endif
