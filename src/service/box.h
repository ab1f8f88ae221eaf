/* A box: a sandbox as the service has it, with the one state machine of its life (life.c).
 *
 * A box is a row of the database (tenant, session, wish, state) and, under the same id, a sandbox
 * of the runtime (store.h).  The row is written first and removed last.  Boxes in memory are a
 * copy, counted by references; every function here may be called from any thread.  A tenant of NULL
 * is the administrator, who sees all; to anybody else the box of another tenant does not exist. */
#ifndef TN_SERVICE_BOX_H
#define TN_SERVICE_BOX_H

#include "service/internal.h"
#include "service/key.h"

enum box_state {
    BOX_STARTING,
    BOX_RUNNING,
    BOX_PAUSED,
    BOX_STOPPED,
    BOX_ERROR,   /* why is in reason and cause; resume starts it again, delete removes it */
    BOX_MISSING, /* its backend does not know it any more; only delete is left */
    BOX_STATES,
    BOX_GONE = BOX_STATES, /* only as a goal: it is being deleted */
};
extern const char *const box_state_words[]; /* "starting", ..., "missing", "gone"; ends with NULL */

/* What went wrong with one in BOX_ERROR. */
enum box_cause {
    CAUSE_NONE,
    CAUSE_IMAGE,   /* not there, or not usable */
    CAUSE_QUOTA,   /* no room: limits, disk */
    CAUSE_ENGINE,  /* the backend failed or is not there */
    CAUSE_MEMORY,  /* killed: out of memory */
    CAUSE_TIMEOUT, /* not ready in time */
    CAUSE_ENDED,   /* the hand ended by itself */
};
extern const char *const box_cause_words[]; /* "none", "image", "quota", "engine", "memory", ... */

/* What its time-out does: a moment that counts while it runs, whether it is in use or not.  It is
 * deleted then, or put to rest; what rests has no time-out any more, until it gets a new one. */
enum box_timeout {
    TIMEOUT_PAUSE = 1, /* paused (stopped, where its backend can do no more), not deleted */
    TIMEOUT_WAKE = 2,  /* and a surface that has time-outs may wake it when it is used */
};
/* The new one of a box whose time-out was over, and that a request has woken in passing. */
#define BOX_WOKEN_SECONDS 300.0

/* What somebody wants. */
struct box_wish {
    const char *session;     /* id chosen by the client, unique within its tenant; NULL: none */
    const char *name;        /* for people, need not be unique; NULL */
    const char *template;    /* [template.NAME] it was made of, or NULL */
    const char *idempotency; /* the same key again gives the same box; NULL */
    const char *digest;      /* of the request that the idempotency key belongs to; NULL */
    struct tn_spec spec;     /* borrowed; keep, lease and name are the service's */
    double resource_factor;  /* multiplies cpus and memory; 0 is 1 */
    double idle_pause, idle_stop, ttl; /* seconds; negative: as the service says, 0: never */
    double timeout;           /* seconds from its creation; 0: none.  See enum box_timeout */
    unsigned timeout_how;     /* bits of enum box_timeout */
    struct tn_json *metadata; /* object of the client's own, or NULL; borrowed */
    bool closed;              /* a fork: it has no network, whatever its parent has */
};

/* A consistent look at a box, until box_view_done.  spec, but for its env, is shared by all
 * who look: read it, copy it (tn_spec_copy), never take a reference to a part of it (tn_json_ref).
 */
struct box_view {
    struct box *box; /* holds what does not change */
    char id[11];
    char *tenant, *key_id, *session, *name, *template, *runtime, *image, *reason, *session_key;
    char *isolation; /* JSON text or NULL */
    struct tn_spec spec;
    struct tn_json *metadata;
    enum box_state state;
    enum box_state goal; /* running, paused, stopped, gone: on its way there; else equal to state */
    enum box_cause cause;
    double created, started, used, expires; /* seconds since 1970; 0: never */
    double resource_factor, idle_pause, idle_stop;
    double stopped;       /* since when it is, without a start in between; 0: it is not */
    double timeout;       /* seconds since 1970; 0: none */
    unsigned timeout_how; /* bits of enum box_timeout */
    bool asleep;          /* stopped, or about to be, in place of a pause: a use wakes it */
    int queue_position;   /* while it waits for admission: 1 is next; else 0 */
    int restarts;
    struct tn_usage usage;  /* as last sampled */
    int64_t last_action;    /* id of the newest event that is an action, or -1 */
    char *last_action_text; /* "run: ls -l", or NULL */
    uint64_t version;       /* grows with every change of the box, over restarts too */
};
void box_view_done(struct box_view *v);
#define autoview TN_CLEANUP(box_view_done)

struct box;
void box_release(struct box *b);
static inline void guard_box(struct box **b)
{
    box_release(*b);
}
#define autobox TN_CLEANUP(guard_box)

/* --- finding ------------------------------------------------------------------------------- */

/* TN_E_NOT_FOUND with the same words whether it is not there or somebody else's. */
struct box *box_find(struct tn_service *s, const char *tenant, const char *id,
                     struct tn_error *err);
struct box *box_find_session(struct tn_service *s, const char *tenant, const char *session,
                             struct tn_error *err);
const char *box_id(const struct box *b);
const char *box_tenant(const struct box *b);
/* Whether a pause freezes its processes; where its runtime cannot, it is stopped instead. */
bool box_freezes(const struct box *b);
/* Whether a sample of it may say what it has written. */
bool box_tells_disk(const struct box *b);
struct tn_service *box_service(const struct box *b);
/* Whether its runtime is a service that may tell verdicts of its own. */
bool box_is_judged_there(const struct box *b);
void box_look(struct box *b, struct box_view *out);

/* Boxes in the order of creation, then id. */
struct box_filter {
    const char *tenant;                              /* NULL: all */
    unsigned states;                                 /* bits 1 << enum box_state; 0: all */
    const char *template, *runtime, *session, *name; /* NULL: all */
    const char *after;    /* only those that come after this id; NULL: from the first */
    double after_created; /* when that one was made, in case it is gone by now; 0: not known */
    bool newest_first;
    size_t limit; /* 0: all */
};
/* Non-zero from fn stops and is returned.  *more (may be NULL): there are others after the last. */
typedef int (*box_fn)(struct box *b, void *ctx);
int box_each(struct tn_service *s, const struct box_filter *f, box_fn fn, void *ctx, bool *more);
/* Whether the text is the session key of any box. */
bool box_has_session_key(struct tn_service *s, const char *text);
/* How many of the tenant (NULL: all) are in one of these states. */
int box_count(struct tn_service *s, const char *tenant, unsigned states);
/* Bytes of disk that those of the tenant may use together. */
int64_t box_disk_taken(struct tn_service *s, const char *tenant);

/* --- life ---------------------------------------------------------------------------------- */

/* Writes the row (state starting) and starts it in the background; the box is there at once.  A
 * warm one of its pool that is ready is handed out running.  A request with an idempotency key that
 * was seen before gets the first one's box (*again is set; TN_E_CONFLICT when the digests differ).
 * TN_E_CONFLICT: the session is taken.  TN_E_BUSY: a limit (admit.h); the text says which. */
struct box *box_create(struct tn_service *s, const struct caller *who, const struct box_wish *wish,
                       bool *again, struct tn_error *err);
/* The next wish with that idempotency key is a first one again, where the key stands for the box of
 * that id ("": of none), or for one that is gone. */
int box_forget_key(struct tn_service *s, const char *tenant, const char *key, const char *id,
                   struct tn_error *err);
/* A new box with the files of this one (snapshot NULL: as they are now), and with its spec but for
 * the labels and variables that the wish has, and its network if it is to have none. */
struct box *box_fork(struct box *b, const struct caller *who, const char *snapshot,
                     const struct box_wish *wish, struct tn_error *err);

enum box_order {
    ORDER_PAUSE,  /* where its runtime can only stop it is stopped: a use wakes it all the same */
    ORDER_RESUME, /* also starts a stopped or failed one */
    ORDER_STOP,
    ORDER_DELETE,
};
extern const char *const box_order_words[]; /* "pause", "resume", "stop", "delete" */
/* Brings it about, or joins whoever is at it; doing it twice is doing it once.  By the deadline it
 * has happened, or err says why not: TN_E_CONFLICT when its state forbids it (the table in life.c),
 * TN_E_TIMEOUT when it goes on in the background.  who NULL: the service itself, which is noted in
 * the audit log here; everything that callers do is noted by the surface that knows the request. */
int box_order(struct box *b, const struct caller *who, enum box_order order, int64_t deadline,
              struct tn_error *err);
/* The order of the service itself to one that it saw like that, without waiting for it.  TN_E_BUSY:
 * its times are others by now; or, if it is to be left alone when somebody uses it (`idle`), it is
 * in use, was used since, or another order is under way. */
int box_rest(struct box *b, enum box_order order, const struct box_view *seen, bool idle,
             struct tn_error *err);
/* Whether its hand has said that no command goes on since it was used at that time (box_view.used);
 * if not, it is asked in the background, and the steward hears of the end of that. */
bool box_is_quiet(struct box *b, double used);
/* Waits until its state is one of these bits, or it is gone (TN_E_GONE); TN_E_TIMEOUT. */
int box_wait(struct box *b, unsigned states, int64_t deadline, struct tn_error *err);
/* Waits until its version is beyond this one. */
int box_wait_change(struct box *b, uint64_t version, int64_t deadline, struct tn_error *err);

/* Other words of a box; NULL members stay as they are.  Times as in struct box_wish; ttl counts
 * from now. */
struct box_change {
    const char *name;         /* "": none */
    struct tn_json *metadata; /* borrowed */
    const double *idle_pause, *idle_stop, *ttl;
    const double *timeout; /* seconds from now; 0: none */
};
int box_change(struct box *b, const struct caller *who, const struct box_change *change,
               struct tn_error *err);

/* --- use ----------------------------------------------------------------------------------- */

/* Address and key of its hand while it runs; both are copies for the caller to free.  One that is
 * paused, or was stopped instead, is resumed first when the service is set to.  TN_E_BUSY (503)
 * when it is not running.  Counts as a use. */
int box_hand(struct box *b, char **address, char **key, int64_t deadline, struct tn_error *err);
/* The same, but one that its time-out put to rest stays there. */
int box_hand_in_time(struct box *b, char **address, char **key, int64_t deadline,
                     struct tn_error *err);
/* It did not answer: look what became of it (in the background; many calls are one).  Also goes on
 * with a delete that failed. */
void box_suspect(struct box *b);
/* The same for one that a backend tells of; ctx is the struct boxes. */
void boxes_changed(const char *id, void *ctx);
/* The same, and waits for the outcome: for the slow round. */
void box_check(struct box *b, int64_t deadline);
/* Its reason as last seen, for the caller to free; NULL: it has none. */
char *box_reason(struct box *b);

/* Whether it may start once more with what it has of the machine: TN_E_DENIED.  What was allowed
 * once may have been taken away since. */
int box_may_start(struct box *b, struct tn_error *err);
/* The rules of spec, which is its sandbox's as it is now, for a fork by that caller: what an
 * administrator gave to it beyond its maker's bounds, only an administrator hands on.  The strings
 * are those of spec; the caller frees the items. */
int box_hand_on_rules(struct box *b, const struct caller *who, const struct tn_spec *spec,
                      struct tn_str_list *out, struct tn_error *err);
/* Whether that rule denies what the operator denies to it: this caller cannot take it away. */
bool box_is_denied(const struct box *b, const struct caller *who, const char *rule);
/* In the transaction of its birth: what an administrator denies in its spec only an administrator
 * takes away. */
int box_born_denied(struct box *b, const struct caller *who, const struct tn_spec *spec,
                    struct tn_error *err);
/* Other rules for the gate of its network (tn_sandbox_change_rules).  Those that a caller without
 * the scope admin wants, and all that it has of its own, must be within the bounds of its maker:
 * TN_E_DENIED.  What an administrator adds is the operator's word, and stays. */
int box_change_rules(struct box *b, const struct caller *who, const struct tn_rules_change *wish,
                     struct tn_error *err);
/* Other variables for what is started in it from now on, and after a stop: an array of names that
 * are gone, then an object of texts; each may be NULL.  What its runtime or its image gives is gone
 * until the next start alone.  TN_E_UNSUPPORTED where the runtime cannot keep them. */
int box_change_env(struct box *b, const struct tn_json *unset, const struct tn_json *set,
                   struct tn_error *err);
/* Whether that caller (NULL: whoever made the box) may give it that rule. */
int box_may_reach(struct box *b, const struct caller *who, const char *rule, struct tn_error *err);
/* Connections of it that no rule allows and that wait: as tn_sandbox_let and tn_sandbox_let_through
 * have it. */
void box_let_through(struct box *b, const struct tn_action *action, struct tn_observation *o);
void box_refuse(struct box *b, const char *host, int port);
struct tn_rules;
/* The rules that its gate has by now, where its network is `allow`, for the caller to free. */
void box_rules(struct box *b, struct tn_rules *out);
/* Its network as tn_sandbox_put_network tells it. */
int box_put_network(struct box *b, struct tn_jw *w, struct tn_error *err);
/* What its gate has refused since the last call is noted in its journal and, as one line, in the
 * audit log. */
void box_note_refusals(struct box *b);
/* Looks whether it has met a limit, where its backend knows of any; waits for the outcome. */
void box_check_limits(struct box *b, int64_t deadline);
/* What is in its reason now that was not in `known` (what box_reason said before) and that nobody
 * has taken yet, for the observation of a command that failed (runtime/sandbox-report.h).  NULL:
 * nothing.  The caller frees it. */
char *box_take_report(struct box *b, const char *known);
/* What it uses now, for those that somebody looks at; costs a read of its cgroup, and a slice of
 * counting its files. */
int box_sample(struct box *b, struct tn_error *err);
/* Whether sampling it now leaves three quarters of a processor to others. */
bool box_sample_due(struct box *b);
/* What the last sample says of its disk; grown: since the last look, of which there is one. */
struct box_disk {
    int64_t counted; /* bytes; -1: nobody can say */
    bool partial;    /* so far: the next sample goes on counting */
    int64_t grown;
};
void box_disk_look(struct box *b, struct box_disk *out);
/* What it has written, as far as that is known; 0: nobody can say.  Samples it, perhaps. */
double box_disk_known(struct box *b);
/* Around a snapshot, which copies at most *bytes: TN_E_QUOTA when it has written all that it may,
 * or a key of those limits may hold no more; TN_E_BUSY when the service has too little left. */
int box_snapshot_begin(struct box *b, const struct key_limits *limits, double *bytes,
                       struct tn_error *err);
void box_snapshot_end(struct box *b, double bytes);
/* After one was deleted. */
void box_count_snapshots(struct box *b);
/* Around a rollback, which leaves it running, whatever it was before: one that does not run is
 * admitted and has room made for it as by a resume of that caller, and counts as running from here
 * on. */
int box_rollback_begin(struct box *b, const struct caller *who, int64_t deadline,
                       struct tn_error *err);
void box_rollback_end(struct box *b);
/* Whether there was a look since then, and everything was counted. */
bool box_disk_looked(struct box *b, int64_t since);
/* What it may write to its disk; 0: as much as there is. */
int64_t box_disk_limit(const struct box *b);
/* A reason of the steward's own, told where the sandbox itself has none; NULL: it is over. */
void box_set_notice(struct box *b, const char *text);
/* Seconds since it was set; very many: there is none. */
double box_notice_age(struct box *b);
/* A stream to a port inside it, by its hand as box_hand told it. */
int box_dial(struct box *b, const char *address, const char *key, int port, int64_t deadline,
             struct tn_error *err);
/* Its directory on the host, where its journal is (event/journal.h); lives as long as the box. */
const char *box_directory(const struct box *b);
/* Does fn with a handle of its sandbox for logs, snapshots, files; what fn changed (a roll back) is
 * seen when it returns.  Orders do not wait for it: the sandbox's own lock keeps changes apart. */
typedef int (*box_use_fn)(struct tn_sandbox *sb, void *ctx, struct tn_error *err);
int box_with_sandbox(struct box *b, box_use_fn fn, void *ctx, int64_t deadline,
                     struct tn_error *err);
/* Between the two it is in use and never idle: an action, a terminal, a stream, a preview.  Leaving
 * counts as a use. */
void box_enter_use(struct box *b);
void box_leave_use(struct box *b);
/* One more delivery to its webhooks: 0, or so many seconds until it may come again. */
double box_take_delivery(struct box *b);
bool box_in_use(struct box *b);
/* An action went through: for the lists of people. */
void box_note_action(struct box *b, int64_t event, const char *text);
/* Whoever watches it is told that something about it is new. */
void box_changed(struct box *b);

/* Its last samples, oldest first, at most `max`; how many.  Who asks watches: it is sampled every
 * other second for a minute from now on (steward.h). */
struct box_sample {
    double time; /* seconds since 1970 */
    struct tn_usage usage;
};
size_t box_samples(struct box *b, struct box_sample *out, size_t max);

/* --- the table of all ---------------------------------------------------------------------- */

/* Reads every row.  A request for a box waits until that box was looked at. */
struct boxes *boxes_new(struct tn_service *s, struct tn_error *err);
/* Once everything else of the service is there: asks the backends how they really are (in
 * parallel), goes on with what was under way when the last service died, and removes sandboxes of
 * ours that have no box. */
void boxes_begin(struct boxes *all);
/* How many were not looked at yet; 0: all are known (for /readyz). */
int boxes_unknown(struct boxes *all);
/* Writes down, in one transaction, when boxes were used last and with which action. */
void boxes_save_uses(struct boxes *all);
/* Stops every one that runs or is paused, in parallel: for a graceful stop that is asked to. */
void boxes_stop_all(struct boxes *all, int64_t deadline);
/* Whoever waits for a box (box_wait, box_order, ...) is sent away with TN_E_BUSY from now on; work
 * goes on.  For a stop that cannot wait for all requests. */
void boxes_let_go(struct boxes *all);
/* No work begins any more, and nobody waits; waits for what is under way.  False at the deadline:
 * somebody still works with steward, queue and boxes, which then may not be freed. */
bool boxes_close(struct boxes *all, int64_t deadline);
/* The same, and frees them (unless somebody still works); nothing of the sandboxes ends. */
void boxes_free(struct boxes *all, int64_t deadline);

#endif
