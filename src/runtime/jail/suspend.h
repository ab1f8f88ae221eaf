/* Suspend to disk: what stands in its way.
 *
 * CRIU would have to write down the processes of a jail and make them anew in another one.  The one
 * that Debian 12 has does not even start on x86 with Linux 6.13 or newer, where this was written;
 * docs/internals/jail-layers.md tells what was tried.  So the goal `suspended` is refused, with the
 * first reason that holds on the machine at hand. */
#ifndef TN_RUNTIME_JAIL_SUSPEND_H
#define TN_RUNTIME_JAIL_SUSPEND_H

#include <stdint.h>

#include "base/error.h"

/* Why not, on the heap: for `tendon doctor` and for the error. */
char *jail_suspend_obstacle(int64_t deadline);

#endif
