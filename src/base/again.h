/* Pauses for what gives no sign when it changes. */
#ifndef TN_BASE_AGAIN_H
#define TN_BASE_AGAIN_H

#include <poll.h>
#include <stdbool.h>

#include "base/clock.h"
#include "base/error.h"

/* A pause of so many nanoseconds, after which one looks again.  False at once when the deadline
 * would pass meanwhile.  Where there is a descriptor to wait on, that is the better way. */
static inline bool tn_look_again_after(int64_t pause, int64_t deadline)
{
    if (deadline != TN_NEVER && tn_now() + pause >= deadline)
        return false;
    struct timespec t = {.tv_sec = pause / (1000 * TN_MILLI), .tv_nsec = pause % (1000 * TN_MILLI)};
    ppoll(NULL, 0, &t, NULL);
    return true;
}

/* The same in milliseconds. */
static inline bool tn_look_again_in(int ms, int64_t deadline)
{
    return tn_look_again_after(ms * TN_MILLI, deadline);
}

/* The next of growing pauses with jitter: those who were refused together do not come again
 * together.  *ms is 0 before the first.  asked: it is as many seconds as the other side wants
 * instead, an hour at most; 0: that does not say.  -1: TN_E_TIMEOUT, at once, when the deadline
 * would pass meanwhile; TN_E_GONE with ECANCELED when cancel (0: none) became readable. */
int tn_back_off(int *ms, double asked, int cancel, int64_t deadline, struct tn_error *err);

#endif
