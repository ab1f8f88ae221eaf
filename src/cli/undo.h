/* What programs did to the terminal this program runs in, and how it is taken back.
 *
 * Who detaches in the middle of a program must get the terminal back as it was; but what no program
 * has changed is not touched: to leave another screen that is not there would move the cursor to
 * wherever it was saved last. */
#ifndef TN_CLI_UNDO_H
#define TN_CLI_UNDO_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

struct undo {
    uint32_t changed; /* which rows of the table in undo.c are not as usual */
    enum { UNDO_TEXT, UNDO_ESCAPE, UNDO_CSI, UNDO_STRING, UNDO_STRING_ESCAPE } at;
    char sequence[64]; /* so far, without its introducer */
    size_t length;
};

/* These bytes were written to the terminal; they may be cut anywhere. */
void undo_watch(struct undo *u, const char *bytes, size_t n);
/* Appends what makes it as usual again. */
void undo_put(const struct undo *u, struct tn_buf *out);

#endif
