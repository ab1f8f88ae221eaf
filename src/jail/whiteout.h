/* How overlayfs writes down that something of the layers below is gone. */
#ifndef TN_JAIL_WHITEOUT_H
#define TN_JAIL_WHITEOUT_H

#include "base/error.h"

/* Makes the whiteout `name` in dir: a character device 0:0, which needs no privilege. */
int tn_whiteout_make(int dir, const char *name, struct tn_error *err);
/* Marks the directory (any descriptor of it) as one that hides those below it.  Marked for mounts
 * with and without `userxattr`, as far as this process may. */
int tn_opaque_set(int dir, struct tn_error *err);

#endif
