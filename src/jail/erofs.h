/* A tree of files as one file: an EROFS image, which the kernel mounts without a block device.
 *
 * Writing one file with a thousand files in it takes a fraction of the time that creating a
 * thousand files takes.  Only root can mount such an image, and only on some kernels
 * (tn_erofs_works); and not every tree is worth one or has a place in one: tn_erofs_write says so
 * with TN_E_UNSUPPORTED, and tn_tree_copy is the other way. */
#ifndef TN_JAIL_EROFS_H
#define TN_JAIL_EROFS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "jail/tree-copy.h"

/* Everything in the directory `from` into the empty file `to`, as tn_tree_copy would: the same
 * things are kept, left behind and counted.  Both are borrowed.  TN_E_UNSUPPORTED: a large file
 * with holes, much content (mounted twice it would be in memory twice), too many files, or
 * attributes beyond what the format has room for. */
int tn_erofs_write(int from, int to, int64_t deadline, struct tn_tree_count *count,
                   struct tn_error *err);

/* A detached mount of the image that the descriptor (O_PATH suffices) is of: read-only, without
 * devices and set-uid programs. */
int tn_erofs_mount(int image, struct tn_error *err);

/* Whether images in the directory can be mounted by this process and those that it starts, with all
 * kinds of attributes; tried, in some hundred microseconds.  Nothing is left in the directory. */
bool tn_erofs_works(int dir);

#endif
