/* Monotonic time and deadlines, in nanoseconds.  A deadline is a point in time; TN_NEVER is none.
 */
#ifndef TN_BASE_CLOCK_H
#define TN_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define TN_SECOND INT64_C(1000000000)
#define TN_MILLI INT64_C(1000000)
#define TN_NEVER INT64_MAX

static inline int64_t tn_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * TN_SECOND + t.tv_nsec;
}

/* The deadline `seconds` from now; negative or absurdly large means TN_NEVER. */
static inline int64_t tn_deadline_in(double seconds)
{
    return seconds < 0 || seconds > 1e9 ? TN_NEVER : tn_now() + (int64_t)(seconds * 1e9);
}

/* The same, but no later than that other one. */
static inline int64_t tn_deadline_within(double seconds, int64_t deadline)
{
    int64_t soon = tn_deadline_in(seconds);
    return soon < deadline ? soon : deadline;
}

/* Milliseconds left for poll(): 0 when passed, -1 for TN_NEVER, rounded up so that poll never
 * spins. */
static inline int tn_poll_ms(int64_t deadline)
{
    if (deadline == TN_NEVER)
        return -1;
    int64_t left = deadline - tn_now();
    if (left <= 0)
        return 0;
    left = (left + TN_MILLI - 1) / TN_MILLI;
    return left > INT32_MAX ? INT32_MAX : (int)left;
}

static inline struct timespec tn_timespec(int64_t t)
{
    return (struct timespec){.tv_sec = t / TN_SECOND, .tv_nsec = t % TN_SECOND};
}

#endif
