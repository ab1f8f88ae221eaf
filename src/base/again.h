/* A pause for what gives no sign when it changes. */
#ifndef TN_BASE_AGAIN_H
#define TN_BASE_AGAIN_H

#include <poll.h>
#include <stdbool.h>

#include "base/clock.h"

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

#endif
