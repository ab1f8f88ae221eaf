/* The folder STATE/images as image.h describes it: locks, temporary directories, publishing. */
#ifndef TN_RUNTIME_JAIL_IMAGE_CACHE_H
#define TN_RUNTIME_JAIL_IMAGE_CACHE_H

#include <stdint.h>

#include "base/error.h"

struct jail_cache {
    int dir;  /* STATE/images */
    int lock; /* its lock file: an open file of its own, so that threads exclude each other too */
};
#define JAIL_CACHE_INIT       \
    {                         \
        .dir = -1, .lock = -1 \
    }
#define jail_autocache TN_CLEANUP(jail_cache_close)

/* Makes it when missing; removes what killed processes left. */
int jail_cache_open(const char *state, struct jail_cache *c, struct tn_error *err);
/* Gives back every lock. */
void jail_cache_close(struct jail_cache *c);

/* The lock that belongs to a name, against all other processes and caches. */
int jail_cache_lock(struct jail_cache *c, const char *name, int64_t deadline, struct tn_error *err);

/* An empty directory for a layer: its descriptor; *name is its name, which the caller frees. */
int jail_cache_make(struct jail_cache *c, char **name, struct tn_error *err);
/* The directory becomes layer-DIGEST, unless there is one already: then it is removed. */
int jail_cache_publish(struct jail_cache *c, const char *name, const char *digest,
                       struct tn_error *err);
void jail_cache_discard(struct jail_cache *c, const char *name);
bool jail_cache_has(const struct jail_cache *c, const char *digest);

#endif
