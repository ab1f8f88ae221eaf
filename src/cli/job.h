/* Work that must not be left half done.
 *
 * It happens on a thread of its own, while the main thread listens for SIGINT, SIGTERM and SIGHUP.
 */
#ifndef TN_CLI_JOB_H
#define TN_CLI_JOB_H

#include <stdbool.h>

#include "base/error.h"

struct job {
    /* The exit status, or -1 with err. */
    int (*work)(void *ctx, struct tn_error *err);
    /* A signal came, this one for the count-th time.  True: it was dealt with, the work goes on.
     * NULL is never. */
    bool (*signalled)(void *ctx, int number, int count);
    /* Leaves nothing behind; the process then ends by the signal.  The work may still be going on,
     * and is not waited for. */
    void (*abandon)(void *ctx);
    void *ctx;
};

/* Does it: what work returned.  Does not return when it was abandoned. */
int job_run(const struct job *job, struct tn_error *err);

/* Ends this process by that signal, as it would have ended without our care. */
_Noreturn void die_by(int number);

#endif
