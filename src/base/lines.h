/* Lines, each of a bounded length, out of bytes as they come. */
#ifndef TN_BASE_LINES_H
#define TN_BASE_LINES_H

#include "base/buf.h"

/* The most that may be added at once. */
#define TN_LINES_PIECE ((size_t)64 << 10)

struct tn_lines {
    struct tn_buf in;
    size_t max;     /* of a line, without its end */
    size_t at;      /* where the next line begins */
    size_t scanned; /* bytes from there that hold no line end */
    bool skipping;  /* in a line that is too long */
};

void tn_lines_init(struct tn_lines *l, size_t max);
void tn_lines_done(struct tn_lines *l);

/* n bytes came, TN_LINES_PIECE at most.  All lines of before must have been taken. */
void tn_lines_add(struct tn_lines *l, const void *bytes, size_t n);

enum { TN_LINES_NONE = -1, TN_LINES_TOO_LONG = -2 };
/* The next whole line: its length, with *text ended by a NUL instead of its "\n" or "\r\n", valid
 * until the next call of any of these.  TN_LINES_NONE when there is none yet.  TN_LINES_TOO_LONG,
 * once and as soon as that is known, in the place of a line that is: it is skipped. */
ssize_t tn_lines_next(struct tn_lines *l, const char **text);

#endif
