/* Growing pauses. */
#include "base/again.h"

#include <errno.h>
#include <sys/random.h>

enum { FIRST_PAUSE_MS = 100, LONGEST_PAUSE_MS = 4000 };
#define LONGEST_ASKED 3600.0

/* Between a half and all of it. */
static int with_jitter(int ms)
{
    unsigned random = 0;

    if (getrandom(&random, sizeof random, 0) != sizeof random)
        return ms;
    return ms / 2 + (int)(random % (unsigned)(ms / 2 + 1));
}

static int next_pause(int *ms, double asked)
{
    if (asked > 0)
        return (int)((asked < LONGEST_ASKED ? asked : LONGEST_ASKED) * 1000) +
               with_jitter(FIRST_PAUSE_MS);
    *ms = *ms < FIRST_PAUSE_MS         ? FIRST_PAUSE_MS
          : *ms * 2 < LONGEST_PAUSE_MS ? *ms * 2
                                       : LONGEST_PAUSE_MS;
    return with_jitter(*ms);
}

int tn_back_off(int *ms, double asked, int cancel, int64_t deadline, struct tn_error *err)
{
    struct pollfd p = {.fd = cancel > 0 ? cancel : -1, .events = POLLIN};
    int pause = next_pause(ms, asked);

    if (deadline != TN_NEVER && tn_now() + pause * TN_MILLI >= deadline)
        return tn_fail(err, TN_E_TIMEOUT, "not in time");
    if (poll(&p, 1, pause) <= 0)
        return 0;
    tn_fail(err, TN_E_GONE, "cancelled");
    if (err)
        err->sys = ECANCELED;
    return -1;
}
