/* Between the files of the jail backend. */
#ifndef TN_RUNTIME_JAIL_JAIL_H
#define TN_RUNTIME_JAIL_JAIL_H

#include <pthread.h>

#include "base/child.h"
#include "base/proc.h"
#include "gate/keeper-protocol.h"
#include "jail/cgroup.h"
#include "jail/plan.h"
#include "jail/tree-copy.h"
#include "runtime/backend.h"
#include "runtime/gated.h"
#include "runtime/jail/storage.h"

#define JAIL_PROGRAM TN_GATED_KEEPER

#define JAIL_PATH_ENTRY "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

#define JAIL_LOG "hand.log"
#define JAIL_STARTING "starting"       /* a FIFO: some launcher has it open */
#define JAIL_STOPPED "stopped"         /* a mark: it was stopped on purpose */
#define JAIL_PAUSED "paused"           /* a mark: stopped by signals, for want of control groups */
#define JAIL_COPYING TN_KEEPER_COPYING /* a mark: frozen while the process it names copies files */

struct jail_turns {
    pthread_mutex_t lock;
    pthread_cond_t left; /* somebody */
    int inside, most;
};

/* Trees that are being counted; see measure.c. */
struct jail_walks {
    pthread_mutex_t lock;
    struct jail_walk {
        char id[64]; /* of the sandbox; "": free */
        struct tn_tree_walk *walk;
        bool busy;     /* a thread is at it */
        int64_t stale; /* after that it is nobody's */
    } all[8];
};

/* As whom this process acts, and a launcher of it; see nursery.c. */
struct jail_user {
    uid_t uid;
    gid_t gid;
    uint64_t groups; /* a number for all of them */
};

/* A process that launches a jail; nobody's child. */
struct jail_launcher {
    int socket; /* where its parcel goes; open on its side until it has reported; -1: there is none
                 */
    int report; /* where its report comes from, once it has its parcel */
    unsigned nursery;         /* number of the one that was asked for it; 0: it was executed */
    struct jail_user user;    /* who had it started */
    struct jail_turns *turns; /* where it still counts */
};
#define JAIL_LAUNCHER_NONE ((struct jail_launcher){.socket = -1, .report = -1})

/* A process that forks launchers. */
struct jail_nursery {
    pthread_mutex_t lock;
    int socket;            /* -1: there is none */
    unsigned number;       /* how many there have been */
    struct jail_user user; /* who started it */
    bool asked;            /* before */
    bool comes;            /* it is being started */
};

struct jail_engine {
    const struct tn_host *host;
    struct jail_turns turns;
    struct tn_cgroups cgroups;
    char *launcher; /* path of tendon-jail */
    pthread_mutex_t early_lock;
    pthread_cond_t early_came;
    bool early_comes;           /* it is being started */
    struct jail_launcher early; /* one that waits for somebody to need it */
    struct jail_nursery nursery;
    struct jail_walks walks;
    int images;        /* whether layers can be images; see layer-fill.c */
    unsigned built_in; /* limits whose default nobody has set: enum jail_limit bits */
};

/* --- turns.c --------------------------------------------------------------------------------- */

void jail_turns_init(struct jail_turns *g);
void jail_turns_done(struct jail_turns *g);
/* Waits for its turn, a second at most and not beyond the deadline; every call needs a leave. */
void jail_turns_enter(struct jail_turns *g, int64_t deadline);
void jail_turns_leave(struct jail_turns *g);

/* --- limits.c ------------------------------------------------------------------------------- */

enum jail_limit {
    JAIL_LIMIT_MEMORY = 1 << 0,
    JAIL_LIMIT_CPUS = 1 << 1,
    JAIL_LIMIT_PIDS = 1 << 2,
};

/* Which of the configured limits are only our own defaults. */
unsigned jail_limits_built_in(const struct tn_config *config);
/* The spec's, and where it is silent the configured ones.  Of these, what this machine cannot
 * enforce is left out if it is only our own default. */
int jail_limits(const struct jail_engine *e, const struct tn_spec *spec, struct tn_limits *out,
                struct tn_error *err);
/* "64 MiB" */
void jail_size_text(char out[32], uint64_t bytes);

/* --- root.c --------------------------------------------------------------------------------- */

/* Fills the part of a fresh storage that lies below all layers. */
int jail_root_find(const struct jail_engine *e, const struct tn_subject *subject,
                   struct jail_storage *s, int64_t deadline, struct tn_error *err);
/* Puts layers and what lies below them into the plan. */
int jail_root_plan(const struct jail_engine *e, const struct jail_storage *s,
                   struct tn_jail_plan *plan, struct tn_error *err);

/* --- mounts.c ------------------------------------------------------------------------------- */

/* Volumes, devices and GPUs of the spec. */
/* Whether it has volumes by which it writes to directories of the host; -1. */
int jail_mounts_share(const struct tn_spec *spec, struct tn_error *err);
int jail_mounts_plan(const struct jail_engine *e, const struct tn_spec *spec,
                     struct tn_jail_plan *plan, struct tn_error *err);

/* --- ref.c ---------------------------------------------------------------------------------- */

/* What place.ref says. */
struct jail_ref {
    int64_t pid, start;           /* of PID 1 of the jail */
    int64_t keeper, keeper_start; /* of its keeper */
    int64_t memory, pids, disk;   /* limits, to name them */
    double wall_time;
    char *workspace; /* inside */
    int64_t holds;   /* what the launcher reported: a bit for each row of its table that is true */
    int mapping;     /* enum tn_jail_mapping */
    int gvisor;      /* enum tn_jail_platform */
    int reach;       /* enum tn_jail_reach */
};
void jail_ref_done(struct jail_ref *ref);
#define jail_autoref TN_CLEANUP(jail_ref_done)

void jail_ref_read(const struct tn_subject *subject, struct jail_ref *ref);
char *jail_ref_write(const struct jail_ref *ref);
/* Takes the isolation over from a report. */
int jail_ref_isolate(struct jail_ref *ref, const struct tn_json *report, struct tn_error *err);
/* The isolation as text, on the heap, or NULL. */
char *jail_ref_isolation(const struct jail_ref *ref);
/* Whether its network is behind the gate. */
bool jail_ref_is_gated(const struct jail_ref *ref);
/* What that gate lets through now, which may have changed since it was started. */
void jail_ref_set_reach(const struct tn_subject *subject, struct jail_ref *ref);
/* Whether the jail runs; then ref says what is so, also when subject's own was out of date.  Ends
 * with jail_ref_done in either case. */
bool jail_ref_find(const struct tn_subject *subject, struct jail_ref *ref, int64_t deadline);

/* --- launch.c ------------------------------------------------------------------------------- */

/* The environment inside, without the key. */
void jail_environment(const struct tn_subject *subject, const struct jail_storage *s,
                      struct tn_str_list *env);
/* Starts the jail on its storage and fills place. */
/* What no jail of this user could keep. */
int jail_check(const struct tn_host *host, const struct tn_spec *spec, struct tn_error *err);
int jail_launch(struct jail_engine *e, const struct tn_subject *subject,
                const struct jail_storage *s, struct tn_place *place, int64_t deadline,
                struct tn_error *err);

/* The same in two steps, while its layers are still being filled: files is the end to read from of
 * a pipe; a byte in it says that they are complete, its end that they never will be.  -1: they are.
 * Every begin needs a done. */
struct jail_start {
    struct jail_launcher launcher;
    struct jail_ref ref;
};
int jail_launch_begin(struct jail_engine *e, const struct tn_subject *subject,
                      const struct jail_storage *s, int files, struct jail_start *start,
                      int64_t deadline, struct tn_error *err);
int jail_launch_finish(const struct tn_subject *subject, struct jail_start *start,
                       struct tn_place *place, int64_t deadline, struct tn_error *err);
void jail_start_done(struct jail_start *start);

/* --- launcher.c ----------------------------------------------------------------------------- */

/* Numbers that the plan knows them by. */
#define JAIL_LISTEN_FD 5
#define JAIL_FILES_FD 7

/* Starts tendon-jail in this mode, nobody's child, with one end of a socket pair as that
 * descriptor. Returns the other one, or -1. */
int jail_program_start(const struct jail_engine *e, const char *mode, int number, int64_t deadline,
                       struct tn_error *err);
/* A jail will be started soon: its launcher comes up meanwhile, and makes what all jails need.
 * Without one nothing is different but the time. */
void jail_launcher_expect(struct jail_engine *e);
/* The last one ends. */
void jail_launcher_expect_none(struct jail_engine *e);
/* Tells a launcher what to do; socket, files and vault may be -1. */
int jail_launcher_start(struct jail_engine *e, const struct tn_subject *subject,
                        const struct tn_jail_plan *plan, int socket, int files, int vault,
                        struct jail_launcher *l, int64_t deadline, struct tn_error *err);
/* Waits for its report. */
int jail_launcher_finish(struct jail_launcher *l, struct jail_ref *ref, struct tn_place *place,
                         int64_t deadline, struct tn_error *err);
/* One that was not needed ends by itself; one that was not heard is killed, with its children. */
void jail_launcher_done(struct jail_launcher *l);
/* Waits for the launcher of a process that was killed in the middle of a start. */
int jail_await_start(const struct tn_subject *subject, int64_t deadline, struct tn_error *err);

/* --- gvisor.c ------------------------------------------------------------------------------- */

/* Puts runsc into the plan (NULL: would), for a jail that wants it; TN_E_UNSUPPORTED says what is
 * in its way on this machine, or in the way of what else it wants. */
int jail_plan_gvisor(const struct tn_host *host, const struct tn_spec *spec,
                     struct tn_jail_plan *plan, struct tn_error *err);
/* What tendon doctor says of it. */
void jail_tell_gvisor(const struct tn_host *host, tn_symptom_fn fn, void *ctx);

/* --- nursery.c ------------------------------------------------------------------------------ */

void jail_nursery_init(struct jail_nursery *n);
void jail_nursery_done(struct jail_nursery *n);
/* Asks for a launcher that gets its parcel from this socket; does not wait.  Returns the number of
 * the nursery; 0: there is none.  One that dies or finds no process for it closes the socket. */
unsigned jail_nursery_ask(struct jail_nursery *n, int parcel);
/* The same, but starts a nursery if need be.  0: nobody has asked before, another thread is
 * starting it, or it cannot be had; then the program has to be started. */
unsigned jail_nursery_bear(struct jail_engine *e, int parcel, int64_t deadline);
/* That one does not do what it was asked for: the next who asks has another started. */
void jail_nursery_leave(struct jail_nursery *n, unsigned number);
struct jail_user jail_user_now(void);
bool jail_user_is(const struct jail_user *user); /* still the same */

/* --- state.c -------------------------------------------------------------------------------- */

int jail_inspect(void *engine, const struct tn_subject *subject, struct tn_place *place,
                 int64_t deadline, struct tn_error *err);
bool jail_has_mark(const struct tn_subject *subject, const char *name);
int jail_set_mark(const struct tn_subject *subject, const char *name, bool there,
                  struct tn_error *err);
/* Sets JAIL_COPYING for this process; abandoned: for nobody, so that whoever looks next thaws it.
 */
int jail_mark_copying(const struct tn_subject *subject, bool abandoned, struct tn_error *err);
char *jail_address(const struct tn_subject *subject);

/* --- drive.c -------------------------------------------------------------------------------- */

int jail_drive(void *engine, const struct tn_subject *subject, enum tn_goal goal,
               struct tn_place *place, int64_t deadline, struct tn_error *err);
/* tn_backend.process: PID 1. */
struct tn_proc jail_process(void *engine, const struct tn_subject *subject);
/* Ends every process of the jail; storage stays as it is. */
int jail_kill(struct jail_engine *e, const struct tn_subject *subject, int64_t deadline,
              struct tn_error *err);
/* Stops all processes where they are, or lets them go on. */
int jail_freeze(struct jail_engine *e, const struct tn_subject *subject, const struct jail_ref *ref,
                bool frozen, int64_t deadline, struct tn_error *err);
/* The same for who copies its files: should this process die, the keeper thaws it, or whoever looks
 * at it next (jail_is_frozen).  The second must follow the first, also when that failed. */
int jail_freeze_to_copy(struct jail_engine *e, const struct tn_subject *subject,
                        const struct jail_ref *ref, int64_t deadline, struct tn_error *err);
int jail_thaw_copied(struct jail_engine *e, const struct tn_subject *subject,
                     const struct jail_ref *ref, struct tn_error *err);
/* Paused, that is: a moment of copying does not count, and one whose process was killed ends here.
 */
bool jail_is_frozen(struct jail_engine *e, const struct tn_subject *subject,
                    const struct jail_ref *ref, int64_t deadline);

/* --- copy.c --------------------------------------------------------------------------------- */

/* tn_tree_copy, also of what the jail has closed to the user who owns it. */
int jail_copy(const struct jail_engine *e, int from, int to, int64_t deadline,
              struct tn_tree_count *count, struct tn_error *err);

/* --- layer-fill.c --------------------------------------------------------------------------- */

/* Fills a layer that jail_layer_make has made with what is in upper. */
int jail_layer_fill(struct jail_engine *e, int layer, int upper, int64_t deadline,
                    struct tn_tree_count *count, struct tn_error *err);

/* --- snapshot.c ----------------------------------------------------------------------------- */

int jail_snapshot(void *engine, const struct tn_subject *subject, const char *name,
                  int64_t deadline, struct tn_error *err);
int jail_forget(void *engine, const struct tn_subject *subject, const char *name, int64_t deadline,
                struct tn_error *err);
int jail_rollback(void *engine, const struct tn_subject *subject, const char *name,
                  struct tn_place *place, int64_t deadline, struct tn_error *err);
int jail_fork(void *engine, const struct tn_subject *subject, const char *name,
              const struct tn_subject *child, struct tn_place *place, int64_t deadline,
              struct tn_error *err);
/* Bytes of the tmpfs that a disk limit is made of; -1 when a keeper cannot be asked. */
int jail_tmpfs_room(const struct tn_subject *subject, int64_t *used, int64_t *left,
                    int64_t deadline);
/* A descriptor of the changed files of a jail, wherever they are; -1.  running: the jail runs. */
int jail_open_upper(const struct tn_subject *subject, bool running, int64_t deadline,
                    struct tn_error *err);
/* Before a jail with a disk limit ends: its changed files, which would end with it, to disk. */
int jail_save_upper(const struct jail_engine *e, const struct tn_subject *subject, int upper,
                    int64_t deadline, struct tn_error *err);

/* --- measure.c ------------------------------------------------------------------------------- */

void jail_walks_init(struct jail_walks *g);
void jail_walks_done(struct jail_walks *g);
/* Bytes of the tree upper of that sandbox, or -1; at most a slice of time.  *partial: that much at
 * least, and the next call goes on counting. */
int64_t jail_measure_tree(struct jail_engine *e, const char *id, int upper, bool *partial);

/* --- unlinked.c ------------------------------------------------------------------------------ */

/* Bytes of files of a running jail that have no name any more and are open or mapped.  upper is its
 * tree of changed files. */
uint64_t jail_unlinked(const struct jail_ref *ref, int upper);

/* --- network.c ------------------------------------------------------------------------------- */

/* As those of the backend. */
int jail_network(const struct tn_host *host, const struct tn_spec *spec, const char *ref,
                 const struct tn_str_list **allow);
int jail_reload(void *engine, const struct tn_subject *subject, int64_t deadline,
                struct tn_error *err);

/* --- use.c, doctor.c ------------------------------------------------------------------------ */

int jail_put(void *engine, const struct tn_subject *subject, const char *path, const void *bytes,
             size_t n, mode_t mode, int64_t deadline, struct tn_error *err);
int jail_exec(void *engine, const struct tn_subject *subject, const char *const *argv,
              struct tn_buf *out, int *status, int64_t deadline, struct tn_error *err);
int jail_rename(void *engine, const struct tn_subject *subject, int64_t deadline,
                struct tn_error *err);
int jail_logs(void *engine, const struct tn_subject *subject, bool follow, tn_log_fn fn, void *ctx,
              int64_t deadline, struct tn_error *err);
int jail_usage(void *engine, const struct tn_subject *subject, struct tn_usage *out,
               struct tn_error *err);
int jail_doctor(const struct tn_host *host, tn_symptom_fn fn, void *ctx, struct tn_error *err);

#endif
