/* A rate: so many a second, and so many at once after a rest. */
#ifndef TN_SERVICE_BUCKET_H
#define TN_SERVICE_BUCKET_H

#include "base/clock.h"

/* {0} is full.  Its owner locks it. */
struct bucket {
    double taken;  /* not refilled yet */
    int64_t since; /* as of then */
};

/* Takes one: 0, or so many seconds until there is one again. */
static inline double bucket_take(struct bucket *b, double rate, double most)
{
    int64_t now = tn_now();
    double taken = b->taken - (double)(now - b->since) / 1e9 * rate;

    b->taken = taken > 0 ? taken : 0;
    b->since = now;
    if (b->taken > most - 1)
        return (b->taken - (most - 1)) / rate;
    b->taken += 1;
    return 0;
}

#endif
