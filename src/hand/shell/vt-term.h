/* A terminal without a display: cursor, modes and the sequences that move them, over two screens.
 *
 * It behaves as tmux does where terminals differ: the cursor may stand just behind the last column,
 * BS goes back over a wrapped line, rows that scroll out of any region of the main screen go to the
 * history.  It differs from tmux in this:
 *   - clearing the screen does not save its text to the history (nor does tmux when its option
 *     scroll-on-clear is off);
 *   - a wrapped line that moves down stays one line, and half of a wide character is a blank;
 *   - line drawing characters are Unicode ones;
 *   - bytes that are not UTF-8 show as U+FFFD, and C1 controls in UTF-8 act;
 *   - no reflow when the size changes. */
#ifndef TN_HAND_SHELL_VT_TERM_H
#define TN_HAND_SHELL_VT_TERM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hand/shell/vt-parse.h"
#include "hand/shell/vt-screen.h"

enum { VT_SIZE_MAX = 10000 }; /* columns and rows lie between 1 and this */

struct vt_modes {
    bool no_wrap;
    bool insert;
    bool origin;
    bool drawing[2]; /* G0 and G1 hold line drawing */
    int shift;       /* which of them is in use */
};

struct vt_cursor {
    bool saved;
    int x, y;
    struct vt_modes modes;
};

struct vt_term {
    struct vt_parser parser;
    int columns, rows;
    int x, y;        /* x == columns: the next character wraps */
    int top, bottom; /* scroll region, inclusive */
    struct vt_modes modes;
    struct vt_cursor saved;         /* DECSC */
    struct vt_cursor saved_by_mode; /* on entering the alternate screen */
    uint8_t *tabs;                  /* a bit per column; NULL: every 8 columns */
    uint32_t last;                  /* what REP repeats: the character just before it, or 0 */
    struct vt_screen main, alternate;
    struct vt_screen *screen; /* the one shown */
};

void vt_term_init(struct vt_term *t, int columns, int rows, size_t max_rows, size_t max_bytes);
/* Empties everything, frees its memory, resets every mode and forgets an unfinished sequence. */
void vt_term_reset(struct vt_term *t);
void vt_term_feed(struct vt_term *t, const char *bytes, size_t n);
void vt_term_resize(struct vt_term *t, int columns, int rows);

/* Between vt-term.c and vt-csi.c: a complete CSI sequence, whose parameters are in the parser, and
 * what such sequences share with plain controls. */
void vt_term_csi(struct vt_term *t, uint32_t final);
void vt_term_move(struct vt_term *t, int x, int y);
void vt_term_save(struct vt_term *t);
void vt_term_restore(struct vt_term *t);
void vt_term_tab(struct vt_term *t, int n); /* n stops forward, or back */
void vt_term_clear_tab(struct vt_term *t, int n);
void vt_term_repeat(struct vt_term *t, int n);
void vt_term_modes(struct vt_term *t, bool on);
void vt_term_soft_reset(struct vt_term *t);

#endif
