/* When a box has been left alone for too long. */
#include "service/steward.h"

/* Until what was ordered, and has not happened, is ordered again. */
#define RETRY_SECONDS 60.0

/* Not for one that rests; one that failed or is on its way is deleted, or left alone. */
static bool timeout_counts(const struct keep_times *t)
{
    bool rests = t->goal == BOX_PAUSED || t->goal == BOX_STOPPED;

    return t->timeout > 0 && !rests &&
           (t->state == BOX_RUNNING || !(t->timeout_how & TIMEOUT_PAUSE));
}

static enum keep at_timeout(const struct keep_times *t)
{
    if (!(t->timeout_how & TIMEOUT_PAUSE))
        return KEEP_DELETE;
    return t->abilities & TN_CAN_PAUSE  ? KEEP_PAUSE_NOW
           : t->abilities & TN_CAN_STOP ? KEEP_STOP_NOW
                                        : KEEP_DELETE;
}

enum keep keep_verdict(const struct keep_times *t, double now, double *again)
{
    double used = t->in_use || t->used > now ? now : t->used;
    bool rests = t->state == t->goal;
    bool runs = rests && t->state == BOX_RUNNING;
    const struct {
        bool counts;
        double at;
        enum keep what;
    } dues[] = {
        {t->expires > 0, t->expires, KEEP_DELETE},
        {timeout_counts(t), t->timeout, at_timeout(t)},
        {(runs || (rests && t->state == BOX_PAUSED)) && t->idle_stop > 0 &&
             (t->abilities & TN_CAN_STOP),
         used + t->idle_stop, t->ephemeral ? KEEP_END : KEEP_STOP},
        {runs && t->idle_pause > 0 && (t->abilities & TN_CAN_PAUSE), used + t->idle_pause,
         KEEP_PAUSE},
        {rests && t->state == BOX_STOPPED && t->stopped > 0 && t->clear > 0, t->stopped + t->clear,
         KEEP_CLEAR},
    };

    *again = -1;
    if (t->goal == BOX_GONE)
        return KEEP_AS_IT_IS;
    for (size_t i = 0; i < TN_COUNT(dues); i++) {
        if (!dues[i].counts)
            continue;
        if (dues[i].at <= now) {
            *again = RETRY_SECONDS;
            return dues[i].what;
        }
        if (*again < 0 || dues[i].at - now < *again)
            *again = dues[i].at - now;
    }
    return KEEP_AS_IT_IS;
}
