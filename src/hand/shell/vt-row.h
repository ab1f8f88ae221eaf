/* One row of a terminal's screen: UTF-8 text addressed by column.
 *
 * A row is as long as what was written to it; columns beyond its width are blank.  A cell is one
 * character of one or two columns with the zero-width characters that follow it.  Rows of plain
 * ASCII (len equals width, since every other character has more bytes than columns) are edited in
 * place; others are searched, from the place of the last edit if that helps.  Cutting a two-column
 * character in half leaves a blank. */
#ifndef TN_HAND_SHELL_VT_ROW_H
#define TN_HAND_SHELL_VT_ROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { VT_CELL_BYTES = 32 }; /* zero-width characters that would make a cell longer are dropped */

struct vt_row {
    char *text; /* not NUL-terminated */
    uint32_t len;
    uint32_t cap;
    int width; /* in columns */
    /* a cell that begins where the last edit ended, since the next edit often follows it */
    int hint_column;
    uint32_t hint_at;
    bool wrapped; /* the next row continues this one */
};

void vt_row_done(struct vt_row *r);

/* Empties it for further use; keeps small memory only. */
void vt_row_clear(struct vt_row *r);

/* Room for n more bytes at the end. */
void vt_row_grow(struct vt_row *r, size_t n);

/* Puts n bytes of text, width columns wide, in place of the columns from..to (exclusive).  Columns
 * after `to` move when the width differs.  A NULL text stands for blanks. */
void vt_row_replace(struct vt_row *r, int from, int to, const char *text, size_t n, int width);

/* Blanks at the end until it is `width` columns wide. */
void vt_row_pad(struct vt_row *r, int width);

/* Forgets the columns from `width` on. */
void vt_row_cut(struct vt_row *r, int width);

/* Adds a zero-width character to the cell that covers `column`. */
void vt_row_combine(struct vt_row *r, int column, const char *text, size_t n);

/* Length without the blanks at the end. */
size_t vt_row_visible(const char *text, size_t len);

/* The first byte where the two texts differ, blanks at the end apart; SIZE_MAX when nowhere. */
size_t vt_row_difference(const struct vt_row *a, const struct vt_row *b);

/* Text at the very end, where most of it goes; the caller has checked that nothing lies between. */
static inline void vt_row_append(struct vt_row *r, const char *text, size_t n, int width)
{
    if (r->cap - r->len < n)
        vt_row_grow(r, n);
    memcpy(r->text + r->len, text, n);
    r->len += (uint32_t)n;
    r->width += width;
}

#endif
