/* The private directory of one run.
 *
 * It is locked as long as its owner lives, and removed by it.  One whose owner was killed has a
 * free lock: the next run of the same user removes it. */
#ifndef TN_CLI_SCRATCH_H
#define TN_CLI_SCRATCH_H

#include "base/error.h"

struct scratch {
    char *path; /* absolute */
    int fd;     /* the directory itself; holds the lock */
};

#define SCRATCH_INIT \
    {                \
        .fd = -1     \
    }

/* Removes what others left behind, then makes a directory of mode 0700 below $TMPDIR (or /tmp). */
int scratch_open(struct scratch *s, struct tn_error *err);
/* Removes it with everything in it.  -1 with err when something resisted; it is closed in any case.
 */
int scratch_close(struct scratch *s, struct tn_error *err);

#endif
