/* What happens by itself: idle pause and stop, time to live, health, pools, strays.
 *
 * One thread with a heap of times, woken by changes; nothing is polled but the usage of boxes that
 * somebody watches, and a slow round over all as a net. */
#ifndef TN_SERVICE_KEEPER_H
#define TN_SERVICE_KEEPER_H

#include "service/box.h"

/* Begins at once; the boxes are there. */
struct steward *steward_new(struct tn_service *s, struct tn_error *err);
/* Ends its threads; what others still tell it then has no effect.  False: something is still being
 * made at the deadline, and what that uses must not be freed. */
bool steward_end(struct steward *k, int64_t deadline);
/* After steward_end, when nobody can tell it anything any more. */
void steward_free(struct steward *k);
/* The times of this box, or its state, have changed.  Takes no lock of any box. */
void steward_nudge(struct steward *k, struct box *b);
/* boxes_save_uses is called within a second.  Takes no lock of any box. */
void steward_save_uses_soon(struct steward *k);
/* Somebody looks at this box: box_sample is called every other second for a minute from now on. */
void steward_watch(struct steward *k, struct box *b);

/* disk.c: once a second.  A box that has written more than its limit is paused (stopped, where that
 * is all its backend can), and so is whoever writes the most when the disk is nearly full; its
 * reason says why.  Blocks while it measures, about a second. */
struct disk_watch {
    double left;     /* a second ago */
    double measured; /* left when the last round over the boxes began */
    int64_t due;     /* every box is to be looked at that was not since then */
    int64_t next;    /* when that is again, if anything is written; 0: it never was */
    int64_t rest;    /* until then, unless there is little left */
    struct disk_round {
        bool begun;
        char after[11];  /* the box that was looked at last, */
        double created;  /* and its age: it goes on from there */
        char writer[11]; /* whoever wrote the most since the last round */
        double wrote;
        char unknown[11]; /* one that is still to be looked at, or counted to the end */
    } round;
    bool unknown; /* the last round left such a one */
};
void disk_watch_tick(struct tn_service *s, struct disk_watch *w);

/* What is to be done with a box that nobody touches: the rule alone. */
enum keep {
    KEEP_AS_IT_IS,
    KEEP_PAUSE,
    KEEP_STOP,
    KEEP_END,       /* deleted instead of stopped; like the two above, not while it is in use */
    KEEP_CLEAR,     /* deleted since it was stopped for long enough; likewise */
    KEEP_DELETE,    /* this and what follows are done at once */
    KEEP_PAUSE_NOW, /* its time-out: in use or not */
    KEEP_STOP_NOW,
};
struct keep_times {
    enum box_state state, goal;
    bool in_use;
    unsigned abilities; /* of its backend: what it cannot, it is not asked for */
    double used, expires, idle_pause, idle_stop;
    double timeout;
    unsigned timeout_how;
    bool ephemeral;        /* it does not outlive its stop */
    double stopped, clear; /* since when it is stopped; deleted after so many seconds; 0: never */
};
/* *again: in how many seconds it is worth another look; negative: not before it is nudged. */
enum keep keep_verdict(const struct keep_times *t, double now, double *again);

/* Warm pools: rows of the database, made by the API or by [pool.NAME] of the configuration. */
struct pool_info {
    char *name;          /* [A-Za-z0-9._-]{1,64} */
    char *template;      /* [template.NAME] that the spec was made of, or NULL */
    struct tn_spec spec; /* all of it; no name */
    int64_t target;      /* so many wait when nothing happens */
    int64_t minimum;     /* below it, filling goes before creations in line */
    int64_t burst;       /* sandboxes made at a time when it is low; 0: the usual number */
    int64_t ready, making, claimed, missed; /* now; since the service started */
    char *problem;                          /* why it cannot be filled, or NULL */
    bool configured;                        /* by the configuration: the API cannot change it */
};
void pool_info_done(struct pool_info *p);
/* Makes it, or changes it (what no longer fits goes).  TN_E_CONFLICT: another one is of the same
 * kind, or the configuration has it.  Filling happens in the background. */
int pool_set(struct tn_service *s, const struct pool_info *wish, struct tn_error *err);
/* Its warm ones go in the background, also when the service is killed meanwhile. */
int pool_remove(struct tn_service *s, const char *name, struct tn_error *err);
typedef int (*pool_fn)(const struct pool_info *p, void *ctx);
int pool_each(struct tn_service *s, pool_fn fn, void *ctx, struct tn_error *err);
/* One was taken (or was not there): fill up.  spec is what tn_sandbox_claim was asked for; a spec
 * that no pool has is none of its business. */
void pool_used(struct tn_service *s, const struct tn_spec *spec, bool found);

#endif
