/* Between the files that implement box.h. */
#ifndef TN_SERVICE_BOX_INTERNAL_H
#define TN_SERVICE_BOX_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "service/admit.h"
#include "service/box.h"
#include "service/bucket.h"
#include "service/life.h"

/* Samples that are remembered of each. */
#define BOX_SAMPLES 120

/* So long after a start of the service whoever asks for a box waits until it was looked at. */
#define KNOWN_SECONDS 10.0

/* A sandbox of the service has this label in its spec: one without a box is nobody's. */
#define BOX_LABEL "service.tendon"

/* By what a box is found. */
struct box_names {
    char id[11];
    const char *tenant, *session;
};

struct box {
    struct box_names names; /* first: trees of boxes compare it */
    struct boxes *all;
    struct tn_service *s;
    atomic_int refs;

    /* These never change once it is in the table. */
    char *tenant, *key_id, *session, *template, *runtime, *parent, *snapshot, *directory;
    struct tn_spec spec; /* as it was wished */
    double created, resource_factor;
    unsigned timeout_how;
    int64_t memory, pids, disk; /* limits, for quotas; 0: none */
    int64_t claim;              /* bytes that it holds beside, and each of its snapshots does */
    double cpus;

    pthread_mutex_t lock; /* of everything below; never held over I/O */
    pthread_cond_t changed;
    char *name;
    struct tn_json *metadata;
    double expires, idle_pause, idle_stop, timeout;
    enum box_state state, goal;
    enum box_cause cause;
    char *reason, *secret, *address, *isolation;
    char *notice;    /* why the steward put it to rest, until that is over */
    int64_t noticed; /* when */
    int cleanings;   /* wakes since then */
    char *reported;  /* sentences of the reason that observations have told */
    bool made;       /* its sandbox was complete once */
    bool claimed;    /* it was warm: no line, only a look whether it lives */
    bool lost;       /* the warm one that it claimed is another's: its worker's */
    bool known;      /* it was looked at since the service started */
    bool unstarted;  /* nothing happened since its start failed, which left it stopped */
    bool asleep;     /* it was stopped instead of being paused: a use wakes it */
    bool gone;
    double started, used, stopped;
    bool use_unsaved;      /* it is on the list of those used, */
    struct box *next_used; /* under used_lock */
    enum tn_blame blame;   /* of the work that failed last; its worker's */
    int restarts;
    int uses;
    double quiet;             /* the time of use after which its hand said that nothing runs */
    struct bucket deliveries; /* that webhooks took */
    int64_t last_action;
    char *last_action_text;
    struct tn_usage usage; /* the disk: as last counted in whole, or more */
    int64_t disk_counted;  /* in the count that is under way, or was the last; -1: none was */
    int64_t disk_seen;     /* by the steward when it looked last; -1: never */
    int64_t disk_looked;   /* when that was */
    int64_t sample_due;    /* sampled then, it costs a quarter of a processor */
    double copies;         /* bytes of snapshots that are being taken, at most */
    int64_t snapshots;     /* that it has, with those that are being taken: */
    int taking;
    int rollbacks;              /* under way: each leaves it running */
    struct box_sample *samples; /* BOX_SAMPLES of them, or NULL; sample n is at n % BOX_SAMPLES */
    size_t sample_count;
    uint64_t version, ceiling; /* no version beyond the ceiling is told before the row has it */
    uint64_t told;             /* the version that watchers have heard of */
    bool dirty;                /* the row is behind */

    bool working;                /* a worker is at it, */
    enum life_work doing;        /* and does that */
    bool look;                   /* it is to be looked at */
    bool ask;                    /* its hand is to be asked whether a command runs */
    int64_t start_began;         /* when the start was asked for */
    struct place_in_line *place; /* from when a start was asked for until it has ended */
    bool changes_env;            /* a request changes spec.env, with its hand */
    int cancel;                  /* an eventfd that ends a pull, or -1 */
    bool asked;                  /* who wanted it to run last is known: */
    struct key_limits asker;     /* what that key may have */
    uint64_t order;              /* number of the newest order, */
    uint64_t settled;            /* of the newest that was carried out or given up, */
    uint64_t done[BOX_GONE + 1]; /* of the newest when each goal was reached last, */
    uint64_t failed;             /* and of the newest that failed: */
    struct tn_error failure;
    int pidfd;                 /* of its hand, or -1: box-end.c */
    struct box *next_unserved; /* under work_lock */

    pthread_mutex_t row; /* keeps the writes of its row in order; taken before lock */
};

struct boxes {
    struct tn_service *s;
    pthread_mutex_t lock;     /* of what follows */
    void *by_id, *by_session; /* trees of search.h */
    struct box **order;       /* by creation, then id */
    size_t count, room;
    struct {
        char id[11], tenant[65];
        double created;
    } past[1024]; /* the newest that were removed: pages may go on after them */
    size_t past_count;

    pthread_mutex_t used_lock; /* taken last */
    struct box *used;          /* since their uses were saved */

    pthread_mutex_t births; /* over counting and adding, so that nobody gets the last place twice */

    pthread_mutex_t work_lock;
    pthread_cond_t work_done, work_wanted;
    int workers;
    struct box *unserved; /* have to be worked on, and no thread could be started; in order */
    pthread_t reserve;    /* sees to those */
    bool reserve_running;
    atomic_bool let_go;  /* nobody waits any more */
    atomic_bool closing; /* no work begins any more */
    atomic_bool begun;   /* boxes_begin was called */
    int64_t known_by;    /* after that nobody waits for a look who has no deadline of its own */
    atomic_int unknown;  /* boxes that were not looked at yet */
    atomic_size_t next;  /* of those, in the order below */
    struct box **found;
    size_t found_count;
    double purged; /* idempotency rows */

    int epoll, epoll_end; /* box-end.c */
    pthread_t end_thread;
    bool end_running;
};

/* --- box.c --------------------------------------------------------------------------------- */

struct box *box_new(struct tn_service *s);
struct box *box_ref(struct box *b);
/* Puts it into the table, which holds one reference. */
void boxes_add(struct boxes *all, struct box *b);
void boxes_remove(struct boxes *all, struct box *b);
/* A reference, or NULL. */
struct box *boxes_find(struct boxes *all, const char *id);
struct box *boxes_find_session(struct boxes *all, const char *tenant, const char *session);
/* References to all (of the filter, only `after`, `after_created` and `newest_first` count, and
 * that `after` is one of its tenant's); the caller releases each and frees the list. */
struct box **boxes_after(struct boxes *all, const struct box_filter *f, size_t *count);
double wall_clock(void);
void replace(char **text, const char *value);
/* Waits on b->changed, under b->lock; TN_E_TIMEOUT, or TN_E_BUSY when the service stops. */
int box_sleep(struct box *b, int64_t deadline, struct tn_error *err);
/* -1: says that it was. */
int box_deleted(const struct box *b, struct tn_error *err);
/* Under its lock: something has changed. */
void box_bump(struct box *b);
/* Without its lock, after box_bump: writes the row, tells whoever wants to know. */
void box_tell(struct box *b);

/* --- box-find.c ---------------------------------------------------------------------------- */

/* Under its lock: it runs, or will in a moment. */
bool box_counts_as_running(const struct box *b);
/* What the boxes of a tenant use; without `but`. */
void boxes_use(struct boxes *all, const char *tenant, const struct box *but, struct quota_use *out);

/* --- box-row.c ----------------------------------------------------------------------------- */

/* Inside a transaction. */
int box_insert(struct tn_db *db, struct box *b, struct tn_error *err);
void box_save(struct box *b);
/* That one instead of the spec of its row; the caller holds row. */
int row_spec(struct box *b, const struct tn_spec *spec, struct tn_error *err);
/* JSON text on the heap; NULL when it is too large for a row. */
char *row_json(const struct tn_json *json);
int box_erase_row(struct box *b, struct tn_error *err);
/* Every row as a box, in the table. */
int boxes_load(struct boxes *all, struct tn_error *err);

/* --- box-spec.c ---------------------------------------------------------------------------- */

/* The canonical name of the backend that the spec names, or of the configured one. */
const struct tn_backend *spec_backend(struct tn_service *s, const struct tn_spec *spec,
                                      struct tn_error *err);
/* What the sandbox of a box is made of: limits by the factor, kept, marked as ours. */
int sandbox_spec(struct box *b, struct tn_spec *out, struct tn_error *err);
/* Fills in its limits, for quotas. */
int measure(struct box *b, struct tn_error *err);

/* --- work.c -------------------------------------------------------------------------------- */

/* Under its lock: sees to it that a worker does what is to be done. */
void box_work(struct box *b);
/* The thread for boxes that get none of their own; it ends with boxes_close. */
int reserve_open(struct boxes *all, struct tn_error *err);
void reserve_close(struct boxes *all);
/* Without its lock: starts one that was warm in the caller's own thread, until the deadline; what
 * that does not bring about is left to a worker.  False: another has it, and the box is gone. */
bool box_work_warm(struct box *b, int64_t deadline);
/* Under its lock: what happened to it, by the table. */
void box_happened(struct box *b, enum life_event event, enum box_cause cause, const char *reason);

/* --- box-use.c ----------------------------------------------------------------------------- */

/* What whoever made it may have now; where that key is gone, what any other of its tenant may: 1.
 * 0: there is none, and nobody to be limited. */
int box_limits(const struct box *b, struct key_limits *out, struct tn_error *err);
/* One that was put to rest for its disk is woken a few times to clean up, not without end.
 * TN_E_QUOTA names the limit. */
int box_may_clean(struct box *b, struct tn_error *err);
/* Without its lock: counts anew what it has written, if that is what keeps it from running. */
void box_recount(struct box *b);

/* --- work-do.c ----------------------------------------------------------------------------- */

/* The works of the table; each fills *event with what it brought about. */
typedef int (*work_fn)(struct box *b, int64_t deadline, enum life_event *event,
                       struct tn_error *err);
extern const work_fn work_functions[LIFE_WORKS];
/* Under its lock: its place in the line of starts.  A worker leaves it, once it has one. */
void box_join_line(struct box *b);
void box_leave_line(struct box *b);
/* Under its lock: a start that is under way need not go on. */
void box_give_up_start(struct box *b);
/* How it really is. */
void box_look_at_sandbox(struct box *b);
/* Asks its hand whether a command runs: that is a use. */
void box_ask_hand(struct box *b);
/* What a failed start is called. */
enum box_cause cause_of(const struct tn_error *err, enum tn_blame blame);
struct tn_sandbox *box_attach(struct box *b, struct tn_error *err);

/* --- recover.c ----------------------------------------------------------------------------- */

/* Waits until it was looked at since the service started (does it, if nobody is at it): until the
 * deadline, and for KNOWN_SECONDS after that start in any case. */
int box_await_known(struct box *b, int64_t deadline, struct tn_error *err);

/* --- box-end.c ----------------------------------------------------------------------------- */

void ends_open(struct boxes *all);
void ends_close(struct boxes *all);
/* Looks at the box as soon as the hand of this sandbox ends. */
void ends_watch(struct box *b, struct tn_sandbox *sb);
/* Under its lock. */
void ends_forget(struct box *b);

/* The audit log's line about what nobody's request asked for; err NULL: it went well. */
void box_audit(struct box *b, const struct caller *who, const char *what,
               const struct tn_error *err);

#endif
