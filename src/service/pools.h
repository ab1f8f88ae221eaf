/* Between the files of the pools and the steward; what others may ask is in steward.h.
 *
 * What a pool has is in the store alone: rows of sandboxes that nobody has claimed.  The statement
 * that adds one counts them, so a pool never has more than its target, however many fill it and
 * whoever died meanwhile.  What pools there are is in the database too (pools.c); a pool that was
 * removed keeps its row until the last of its sandboxes is gone.  pool-work.c fills and drains. */
#ifndef TN_SERVICE_POOLS_H
#define TN_SERVICE_POOLS_H

#include <pthread.h>

#include "service/steward.h"

struct pool {
    struct pool *next;
    struct pool_info info;
    char *runtime; /* with the digest: its name in the store */
    char digest[17];
    bool gone;         /* removed: it is only drained */
    bool listed;       /* the database has it */
    bool look;         /* something may be missing, or too much */
    int workers, pins; /* who else refers to it */
    int64_t ready;     /* about: as last counted, less what was claimed since */
    int64_t last_use, not_before;
    double backoff; /* seconds; 0: all is well */
};

struct pools {
    struct tn_service *s;
    pthread_mutex_t rows; /* over a change of rows and reading them again; taken before lock */
    pthread_mutex_t lock; /* of what follows; never held over I/O */
    pthread_cond_t changed;
    struct pool *first;
    struct pool_worker *workers;
    bool stopping, running;
    pthread_t thread;
};

/* Rows of the database, then what the configuration says; begins to fill. */
struct pools *pools_new(struct tn_service *s, struct tn_error *err);
void pools_free(struct pools *p); /* after pools_end */
/* The slow round: warm ones that have ended are replaced. */
void pools_check(struct pools *p, int64_t deadline);
/* Reads the rows again, after one has changed.  Under rows. */
int pools_reload(struct pools *p, struct tn_error *err);
/* A pool that was removed has nothing left. */
void pools_forget(struct pools *p, const char *runtime, const char *digest);

/* pool-work.c */
int pools_begin(struct pools *p, struct tn_error *err);
/* False: something is still being made at the deadline. */
bool pools_end(struct pools *p, int64_t deadline);

struct pools *steward_pools(const struct steward *k);

#endif
