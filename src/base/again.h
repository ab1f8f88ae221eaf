/* A pause for what gives no sign when it changes. */
#ifndef TN_BASE_AGAIN_H
#define TN_BASE_AGAIN_H

#include <poll.h>
#include <stdbool.h>

#include "base/clock.h"

/* A pause of so many milliseconds, after which one looks again.  False at once when the deadline
 * would pass meanwhile.  Where there is a descriptor to wait on, that is the better way. */
static inline bool tn_look_again_in(int ms, int64_t deadline)
{
    if (deadline != TN_NEVER && tn_now() + ms * TN_MILLI >= deadline)
        return false;
    poll(NULL, 0, ms);
    return true;
}

#endif
