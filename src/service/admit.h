/* Who may start now: limits, and a line for the rest. */
#ifndef TN_SERVICE_ADMIT_H
#define TN_SERVICE_ADMIT_H

#include "service/box.h"

/* Whether this caller may have one more box of that size at all: quotas of its key, disk.  -1 with
 * TN_E_BUSY (429 for quotas) and the limit's name.  Called under the table's lock with the counts
 * already taken (so that two requests cannot both have the last place). */
struct quota_use {
    int64_t sandboxes, running, memory;
    double cpus;
};
int admit_check(const struct tn_service *s, const struct key_limits *limits,
                const struct quota_use *used, const struct quota_use *wanted, struct tn_error *err);

/* The line for creations (and resumes): at most options.max_starts at a time, first come first
 * served between tenants in turn, so that a burst of one does not hold up another. */
struct queue *queue_new(const struct tn_service_options *options);
void queue_free(struct queue *q);
struct place_in_line;
/* Joins the line at once; queue_wait blocks until it is our turn (0), or TN_E_TIMEOUT at the
 * deadline, or TN_E_GONE when queue_leave was called by another thread meanwhile. */
struct place_in_line *queue_join(struct queue *q, const char *tenant);
int queue_wait(struct place_in_line *p, int64_t deadline, struct tn_error *err);
int queue_position(struct place_in_line *p); /* 1 is next, 0: admitted */
void queue_cancel(struct place_in_line *p);  /* wakes queue_wait */
void queue_leave(struct place_in_line *p);   /* done, or given up; frees it */

/* Before one more box runs: when max_sandboxes run already, pauses the oldest (spec 10.2: RUNNING
 * ones by creation, oldest first, single failures ignored), or TN_E_BUSY when that is switched off
 * or does not help. */
int admit_make_room(struct tn_service *s, const struct box *for_whom, int64_t deadline,
                    struct tn_error *err);
/* Pauses the oldest running boxes of the tenant (NULL: all) beyond `max`; fn is told each id. */
typedef void (*paused_fn)(const char *id, void *ctx);
int pause_old_sandboxes(struct tn_service *s, const char *tenant, int64_t max, paused_fn fn,
                        void *ctx, int64_t deadline, struct tn_error *err);

#endif
