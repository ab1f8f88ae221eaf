/* What happens by itself: idle pause and stop, time to live, health, pools, strays.
 *
 * One thread with a heap of times, woken by changes; nothing is polled but the usage of boxes that
 * somebody watches, and a slow round over all as a net. */
#ifndef TN_SERVICE_KEEPER_H
#define TN_SERVICE_KEEPER_H

#include "service/box.h"

struct keeper *keeper_new(struct tn_service *s, struct tn_error *err);
void keeper_free(struct keeper *k, int64_t deadline);
/* The times of this box have changed. */
void keeper_nudge(struct keeper *k, struct box *b);

/* Warm pools: rows of the database, made by the API or by [pool.NAME] of the configuration. */
struct pool_info {
    char *name, *template;
    struct tn_spec spec;
    int64_t target;  /* so many wait when nothing happens */
    int64_t minimum; /* below it, filling goes before creations in line */
    int64_t burst;   /* sandboxes made at a time when it is low */
    int64_t ready, making, claimed, missed; /* now; since the service started */
    char *problem;   /* why it cannot be filled, or NULL */
};
void pool_info_done(struct pool_info *p);
int pool_set(struct tn_service *s, const struct pool_info *wish, struct tn_error *err);
int pool_remove(struct tn_service *s, const char *name, struct tn_error *err);
typedef int (*pool_fn)(const struct pool_info *p, void *ctx);
int pool_each(struct tn_service *s, pool_fn fn, void *ctx, struct tn_error *err);
/* One was taken (or was not there): fill up. */
void pool_used(struct tn_service *s, const struct tn_spec *spec, bool found);

#endif
