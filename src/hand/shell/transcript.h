/* The text a terminal would show, kept as text.
 *
 * Bytes from a PTY go in; what a person would read on the screen and in the scroll-back comes out
 * as UTF-8 lines: carriage returns and cursor movements have acted, colours and titles are gone,
 * tabs are blanks, wrapped rows are one line again.  While a program shows the alternate screen (an
 * editor, a pager), its text is what is read; afterwards the main text is back.
 *
 * A window of the newest rows is kept (wrapped rows count), within max_rows and max_bytes of text.
 * The screen is its last part; rows above it do not change any more.  What a program erases is
 * gone, from the screen and from here: after `clear` only what follows is read.  An idle transcript
 * takes a few KiB, memory grows with the contents, and clearing gives it back.
 *
 * Reading moves a mark.  What was read once and has changed since (a progress bar) is read again
 * from the start of its line.  Nothing here blocks or locks: one thread at a time. */
#ifndef TN_HAND_SHELL_TRANSCRIPT_H
#define TN_HAND_SHELL_TRANSCRIPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct tn_transcript;

/* max_rows is taken to be at least `rows`.  Never NULL. */
struct tn_transcript *tn_transcript_new(int columns, int rows, size_t max_rows, size_t max_bytes);
void tn_transcript_free(struct tn_transcript *t);
/* Rows are dropped `batch` at a time, and for the first time when there are `lead` fewer than
 * max_rows: as if so many had stood before the text.  Unless told, one by one. */
void tn_transcript_drop_by(struct tn_transcript *t, size_t batch, size_t lead);

void tn_transcript_feed(struct tn_transcript *t, const char *bytes, size_t n);

/* Another size.  Nothing is re-wrapped; rows that no longer fit on the screen go above it. */
void tn_transcript_resize(struct tn_transcript *t, int columns, int rows);

/* A new command: forgets the text, every mode and an escape sequence cut short; the size stays. */
void tn_transcript_clear(struct tn_transcript *t);

/* Appends the text since the mark and moves the mark to the end, that is to the cursor, or behind
 * the last text when that is below the cursor.  Lines are joined by \n; blanks at the end of each
 * and empty lines at the end are left out; an empty line is kept when text follows, in this call or
 * a later one. Returns 0, or -1 when `out` is failed (it must have room for max_bytes and a \n per
 * row): then it is as long as before and the mark has not moved. */
int tn_transcript_take(struct tn_transcript *t, struct tn_buf *out);
/* The same without moving the mark. */
int tn_transcript_peek(struct tn_transcript *t, struct tn_buf *out);
/* Puts the mark back to where it was before the last take, whose reader went away.  Once per take.
 */
void tn_transcript_untake(struct tn_transcript *t);
/* Whether the mark stands in the middle of a line: the next take gives the rest of that line, so a
 * \n at its start only ends what was read before. */
bool tn_transcript_mid_line(const struct tn_transcript *t);

/* Rows that fell out of the window since the last clear: more than 0 means that the text is cut. */
size_t tn_transcript_dropped(const struct tn_transcript *t);
/* Rows in the window, from the first to the last that was ever written to. */
size_t tn_transcript_rows(const struct tn_transcript *t);
/* Grows whenever the visible text changes; blanks, cursor movements and a row that is redrawn as it
 * was within one feed do not count.  Not reset by clear. */
uint64_t tn_transcript_changes(const struct tn_transcript *t);

#endif
