/* The `read` action (its own source; the editor's view is in edit.h). */
#ifndef TN_HAND_FILE_READ_H
#define TN_HAND_FILE_READ_H

#include <stdint.h>

#include "hand/file/answer.h"
#include "hand/file/path.h"

struct tn_read_request {
    struct tn_slice path;
    const char *cwd; /* of the shell */
    int64_t start;   /* first line, from 0 */
    int64_t end;     /* line after the last one; -1: to the end */
};

/* Reads a text file, or a slice of its lines, with line endings as LF; images, PDFs and videos
 * (told by their extension) as data URLs.  Memory is the answer's alone, whose maximum limits what
 * can be read. With the user's rights; never blocks on pipes. */
void tn_file_read(const struct tn_file_user *user, const struct tn_read_request *request,
                  struct tn_file_answer *answer);

#endif
