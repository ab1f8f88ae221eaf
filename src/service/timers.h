/* A heap of times, one for each name: which is next is known at once, a change costs its logarithm.
 * For one thread at a time. */
#ifndef TN_SERVICE_TIMERS_H
#define TN_SERVICE_TIMERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct timers {
    struct timer **heap;
    size_t count, room;
    void *by_id; /* tree of search.h */
};

void timers_done(struct timers *t);
/* TN_NEVER takes it out. */
void timers_set(struct timers *t, const char *id, int64_t due);
bool timers_has(const struct timers *t, const char *id);
/* When the first is due; TN_NEVER: there is none. */
int64_t timers_next(const struct timers *t);
/* Takes the first out when it is due at `now`. */
bool timers_take(struct timers *t, int64_t now, char id[11]);

#endif
