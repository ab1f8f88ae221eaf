/* One for all: threads that want work of one kind at the same moment have it done by one of them,
 * for all at once.  What is paid once (a lock, a transaction) is then shared by everybody there. */
#ifndef TN_BASE_GATHER_H
#define TN_BASE_GATHER_H

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>

/* One who waits; the first member of what the caller knows about the work. */
struct tn_waiter {
    struct tn_waiter *next;
    sem_t told;
    bool leads; /* told to do the work, not that it is done */
};

struct tn_gather {
    pthread_mutex_t lock; /* of the rest */
    struct tn_waiter *first, **last;
    bool led;   /* somebody is at work, or was told to be */
    bool alone; /* on one processor nobody works while another one waits awake */
};

void tn_gather_init(struct tn_gather *g);
/* Nobody may be there. */
void tn_gather_done(struct tn_gather *g);

/* Does the work of all on the list, in the order in which they came; never two at a time. */
typedef void (*tn_gather_fn)(struct tn_waiter *all, void *ctx);

/* Returns when `work` was done with a list on which `mine` is: by this thread, if nobody is at
 * work, or by another one that called this.  Whoever comes while work is done is on the next list,
 * which the first of them sees to.  All who gather here give the same function and ctx. */
void tn_gather(struct tn_gather *g, struct tn_waiter *mine, tn_gather_fn work, void *ctx);

#endif
