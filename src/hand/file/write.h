/* The `write` action. */
#ifndef TN_HAND_FILE_WRITE_H
#define TN_HAND_FILE_WRITE_H

#include <stdint.h>

#include "hand/file/answer.h"
#include "hand/file/path.h"

struct tn_write_request {
    struct tn_slice path;
    const char *cwd; /* of the shell */
    struct tn_slice content;
    int64_t start; /* lines before this one (from 0) stay; 0: none */
    int64_t end;   /* lines from this one on stay; -1: none */
};

/* Writes the lines of content, each with a line ending (also the last), in place of the file or of
 * a range of its lines.  A new file has mode 0664 and gets its missing parents; an existing one
 * keeps mode and owner.  A whole file is written with LF; lines put into a range get the ending
 * that the file uses, and lines that stay are not touched.  With the user's rights. */
void tn_file_write(const struct tn_file_user *user, const struct tn_write_request *request,
                   struct tn_file_answer *answer);

#endif
