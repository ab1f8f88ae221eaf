/* Moving a tree into a directory that may hold some of its names already. */
#ifndef TN_HAND_FILE_ZIP_MERGE_H
#define TN_HAND_FILE_ZIP_MERGE_H

#include "base/error.h"

/* Would it work: no directory of `from` meets anything but a directory in `to`, no file meets a
 * directory.  Links in `to` are not followed. */
int zip_merge_check(int from, int to, struct tn_error *err);
/* Moves all.  Where `to` has a directory its contents are merged, a file or link there is replaced.
 */
int zip_merge(int from, int to, struct tn_error *err);

#endif
