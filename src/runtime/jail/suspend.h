/* Suspend to disk: what stands in its way on this machine.
 *
 * How it is done: jail/criu.h.  docs/suspend.md tells what survives it. */
#ifndef TN_RUNTIME_JAIL_SUSPEND_H
#define TN_RUNTIME_JAIL_SUSPEND_H

#include "runtime/jail/jail.h"

/* Why not, on the heap: for `tendon doctor` and for errors.  NULL: nothing; then *criu (may be
 * NULL) is the program, on the heap.  That it works is found out once for each version of it and of
 * the kernel, and written down. */
char *jail_suspend_obstacle(const struct jail_engine *e, char **criu, int64_t deadline);

/* Gives up what a suspended jail would be made anew from. */
int jail_forget_memory(const struct tn_subject *subject, struct tn_error *err);

#endif
