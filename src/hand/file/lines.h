/* The lines of a file of any size, read as a stream. */
#ifndef TN_HAND_FILE_LINES_H
#define TN_HAND_FILE_LINES_H

#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

/* Counts the lines of the file (universal newlines, an unfinished last one counts) and checks that
 * it is UTF-8: TN_E_MEDIA_TYPE when it is not. */
int lines_count(int fd, uint64_t *count, struct tn_error *err);

/* Appends lines first..end-1 (from 0), their endings turned into LF. */
int lines_copy(int fd, uint64_t first, uint64_t end, struct tn_buf *out, struct tn_error *err);

#endif
