/* The rows of one screen, the history above it, and the memory of what a reader has seen.
 *
 * The screen begins empty and rows come into being when they are written to, so a small output
 * costs little.  Rows are counted from 0 at the top of the screen (y) or, together with the
 * history, by a number that a row keeps while it scrolls.  A screen without history (the alternate
 * one) loses what scrolls off.  Together with the history it keeps within max_rows and max_bytes:
 * the oldest rows of the history go first, and the text of the topmost rows when there is no
 * history left.
 *
 * Changes are noticed per row and by comparing: a row that is erased and written again with the
 * same text between two calls of vt_screen_settle has not changed.  Positions must lie on the
 * screen; x may be the number of columns. */
#ifndef TN_HAND_SHELL_VT_SCREEN_H
#define TN_HAND_SHELL_VT_SCREEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hand/shell/vt-history.h"
#include "hand/shell/vt-row.h"

/* A place in the text: a row by number and a byte in it.  The byte may lie beyond the end of the
 * row, in blanks that nobody has written. */
struct vt_mark {
    uint64_t row;
    size_t byte;
};

struct vt_screen {
    int columns, rows;
    struct vt_row *lines; /* a ring of cap rows, `used` of them in use */
    int base, cap, used;
    size_t bytes;
    bool keeps_history;
    struct vt_history history;
    size_t max_rows, max_bytes;
    size_t batch; /* rows that go besides the one that is too many */
    size_t lead;  /* by how much fewer there may be before the first of them goes */

    struct vt_mark mark;  /* what lies before it was read and has not changed */
    struct vt_mark undo;  /* where the mark stood before */
    uint64_t changes;     /* of the visible text */
    struct vt_row before; /* row edited_y as it was when last compared */
    int edited_y;         /* or -1 */
};

/* max_rows is at least `rows`. */
void vt_screen_init(struct vt_screen *s, int columns, int rows, bool keeps_history, size_t max_rows,
                    size_t max_bytes);
/* Frees the contents and starts again empty, with both marks at the start. */
void vt_screen_reset(struct vt_screen *s);
/* The other size; rows that no longer fit go to the history.  Returns by how many rows the rest
 * moved up. */
int vt_screen_resize(struct vt_screen *s, int columns, int rows);

/* Text over what is there, or before it (what passes the last column is lost). */
void vt_screen_write(struct vt_screen *s, int x, int y, const char *text, size_t n, int width);
void vt_screen_insert(struct vt_screen *s, int x, int y, const char *text, size_t n, int width);
/* A zero-width character for the cell at x. */
void vt_screen_combine(struct vt_screen *s, int x, int y, const char *text, size_t n);
void vt_screen_insert_blanks(struct vt_screen *s, int x, int y, int n);
void vt_screen_delete(struct vt_screen *s, int x, int y, int n);
/* Makes columns from..to (exclusive) blank; a whole row also loses its links to the others. */
void vt_screen_erase(struct vt_screen *s, int y, int from, int to);
/* Makes rows from..to (exclusive) blank. */
void vt_screen_erase_rows(struct vt_screen *s, int from, int to);
void vt_screen_erase_history(struct vt_screen *s);

/* The next row continues this one. */
void vt_screen_wrap(struct vt_screen *s, int y);
bool vt_screen_wrapped(const struct vt_screen *s, int y);

/* Rows top..bottom (inclusive) move by n.  Upwards, what leaves the region goes to the history, as
 * tmux does it also for a region inside the screen; with keep false it is lost. */
void vt_screen_scroll_up(struct vt_screen *s, int top, int bottom, int n, bool keep);
void vt_screen_scroll_down(struct vt_screen *s, int top, int bottom, int n);

/* Finishes the comparison under way; to be called before marks or changes are looked at. */
void vt_screen_settle(struct vt_screen *s);

/* Rows by number: from first to end (exclusive). */
struct vt_line {
    const char *text;
    size_t len;
    bool wrapped;
};
uint64_t vt_screen_first(const struct vt_screen *s);
uint64_t vt_screen_end(const struct vt_screen *s);
struct vt_line vt_screen_line(const struct vt_screen *s, uint64_t number);

/* Where text written at x, y would go. */
struct vt_mark vt_screen_place(const struct vt_screen *s, int x, int y);

#endif
