/* Who may start now: limits, and a line for the rest. */
#ifndef TN_SERVICE_ADMIT_H
#define TN_SERVICE_ADMIT_H

#include "service/box.h"

/* Whether this caller may have one more box of that size at all: quotas of its key (TN_E_QUOTA),
 * the disk (TN_E_BUSY); the text names the limit and what to do.  Called under the table's lock
 * with the counts already taken (so that two requests cannot both have the last place); never
 * blocks.  Where the service pauses old sandboxes, limits->max_running is left to admit_make_room.
 */
struct quota_use {
    int64_t sandboxes, running, memory, pids;
    int64_t disk;      /* of all that exist */
    int64_t everybody; /* that run, of all tenants */
    double cpus;
    double seconds; /* wanted: time to live; 0: for ever */
};
int admit_check(const struct tn_service *s, const struct key_limits *limits,
                const struct quota_use *used, const struct quota_use *wanted, struct tn_error *err);

/* Whether a tenant that uses so many bytes of disk may have so many more: TN_E_QUOTA. */
int admit_disk(const struct key_limits *limits, double used, double wanted, struct tn_error *err);

/* The part of it that concerns the machine: what it keeps of its disk and memory. */
int admit_reserve(const struct tn_service *s, struct tn_error *err);
/* The same before so many bytes are copied, which are then spoken for until admit_copied. */
int admit_copy(const struct tn_service *s, double bytes, struct tn_error *err);
void admit_copied(const struct tn_service *s, double bytes);
/* Bytes that are left where the state directory is; -1: it does not say. */
double admit_disk_left(const struct tn_service *s);

/* The line for creations (and resumes): at most options.max_starts at a time, first come first
 * served within a tenant, tenants in turn, so that a burst of one does not hold up another; nor do
 * slow starts: a tenant that has none gets one beyond those after a few seconds.  Pools wait in a
 * line of their own, which never has more than half of the turns. */
struct queue *queue_new(const struct tn_service_options *options);
void queue_free(struct queue *q); /* nobody is in line any more */
struct place_in_line;
/* Joins the line at once; queue_wait blocks until it is our turn (0), or TN_E_TIMEOUT at the
 * deadline, or TN_E_GONE when queue_cancel was called by another thread meanwhile.  Whatever comes
 * of it, queue_leave follows. */
struct place_in_line *queue_join(struct queue *q, const char *tenant);
/* For filling a pool: after all creations, or before them when it is urgent. */
struct place_in_line *queue_join_pool(struct queue *q, bool urgent);
int queue_wait(struct place_in_line *p, int64_t deadline, struct tn_error *err);
int queue_position(struct place_in_line *p); /* 1 is next, 0: admitted or cancelled */
void queue_cancel(struct place_in_line *p);  /* wakes queue_wait */
void queue_leave(struct place_in_line *p);   /* done, or given up; frees it */

struct queue_numbers {
    int turns;   /* at a time */
    int busy;    /* of them */
    int waiting; /* without the pools' */
};
struct queue_numbers queue_numbers(struct queue *q);

/* Before this box runs (a start or a resume; after its turn in line, without the table's lock):
 * when max_sandboxes run already, or max_running of its key's limits (NULL: none), pauses the
 * oldest of its own tenant (RUNNING ones by creation, oldest first, single failures ignored); for
 * max_sandboxes then the oldest of all, where options.pause_others says so.  TN_E_BUSY or
 * TN_E_QUOTA when that is switched off or does not help. The place is kept for it until it is seen
 * in another state than starting or paused. */
int admit_make_room(struct tn_service *s, struct box *for_whom, const struct key_limits *limits,
                    int64_t deadline, struct tn_error *err);
/* Pauses the oldest running boxes of the tenant (NULL: all) beyond `max`, single failures ignored.
 * max below 1 is TN_E_INVALID.  How many, or -1. */
int pause_old_sandboxes(struct tn_service *s, const char *tenant, int64_t max, int64_t deadline,
                        struct tn_error *err);

#endif
