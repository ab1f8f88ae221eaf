/* What files held before they were edited, so that edits can be undone.
 *
 * The contents lie in files of a directory that belongs to the history alone; memory holds only an
 * index.  At most EDIT_HISTORY_DEPTH entries are kept per path, EDIT_HISTORY_ENTRIES and
 * EDIT_HISTORY_BYTES over all; the oldest go first.  Nothing survives a restart.  Not thread-safe.
 */
#ifndef TN_HAND_FILE_EDIT_HISTORY_H
#define TN_HAND_FILE_EDIT_HISTORY_H

#include "base/error.h"
#include "hand/file/text.h"

#define EDIT_HISTORY_DEPTH 10
#define EDIT_HISTORY_ENTRIES 1024
#define EDIT_HISTORY_BYTES (64u << 20)

struct edit_history;

/* Removes what is there.  The directory (mode 0700; its parent must exist) is made with the first
 * entry. */
struct edit_history *edit_history_new(const char *dir, struct tn_error *err);
void edit_history_free(struct edit_history *h); /* removes the directory too */

/* Remembers bytes as the newest state of path.  `created` says that the file did not exist and
 * bytes are what it was created with.  On failure the path has no history left, because a gap in it
 * would undo two edits at once. */
int edit_history_push(struct edit_history *h, const char *path, bool created, struct tn_slice bytes,
                      struct tn_error *err);

/* The newest state of path into bytes: 1, or 0 when there is none, or -1 with err. */
int edit_history_last(struct edit_history *h, const char *path, bool *created, struct tn_buf *bytes,
                      struct tn_error *err);
void edit_history_drop_last(struct edit_history *h, const char *path);
void edit_history_forget(struct edit_history *h, const char *path);

#endif
