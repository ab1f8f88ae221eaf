/* What the editor shows: numbered text and listings of directories.
 *
 * Both are clipped to EDIT_RESPONSE_CHARS characters, with a notice. */
#ifndef TN_HAND_FILE_EDIT_VIEW_H
#define TN_HAND_FILE_EDIT_VIEW_H

#include <stdint.h>

#include "base/error.h"
#include "hand/file/text.h"

#define EDIT_RESPONSE_CHARS 16000

/* Appends "Here's the result of running `cat -n` on WHAT:" and the lines, numbered from `first`. */
void edit_view_numbered(struct tn_buf *out, struct tn_slice lf, const char *what, size_t first);

/* Appends "Here's the content of the file PATH displayed in Markdown format:" and the text. */
void edit_view_markdown(struct tn_buf *out, struct tn_slice text, const char *path);

/* Appends the listing of a directory, two levels deep, symbolic links followed, hidden entries only
 * counted.  Memory is bounded whatever the directories hold.  -1 with err when it cannot be opened
 * or the deadline passes; what cannot be read below it is listed without contents. */
int edit_view_directory(struct tn_buf *out, const char *path, int64_t deadline,
                        struct tn_error *err);

#endif
