#include "hand/shell/transcript.h"

#include <assert.h>

#include "hand/shell/vt-term.h"

struct tn_transcript {
    struct vt_term term;
    struct vt_screen *taken; /* the screen that was read last, while it is there */
};

struct tn_transcript *tn_transcript_new(int columns, int rows, size_t max_rows, size_t max_bytes)
{
    struct tn_transcript *t = tn_calloc(1, sizeof *t);
    vt_term_init(&t->term, columns, rows, max_rows, max_bytes);
    return t;
}

void tn_transcript_drop_by(struct tn_transcript *t, size_t batch, size_t lead)
{
    struct vt_screen *s = &t->term.main;
    assert(batch > 0 && batch + lead < s->max_rows);
    s->batch = batch - 1;
    s->lead = lead;
}

void tn_transcript_free(struct tn_transcript *t)
{
    if (t)
        vt_term_reset(&t->term);
    free(t);
}

void tn_transcript_feed(struct tn_transcript *t, const char *bytes, size_t n)
{
    vt_term_feed(&t->term, bytes, n);
}

void tn_transcript_resize(struct tn_transcript *t, int columns, int rows)
{
    vt_term_resize(&t->term, columns, rows);
}

void tn_transcript_clear(struct tn_transcript *t)
{
    vt_term_reset(&t->term);
    t->taken = NULL;
}

/* --- reading -------------------------------------------------------------------------------- */

/* The mark, or the start of the window when that has moved past it. */
static struct vt_mark start_of_new_text(const struct vt_screen *s)
{
    uint64_t first = vt_screen_first(s);
    return s->mark.row < first ? (struct vt_mark){.row = first} : s->mark;
}

/* The end of the visible text of the line first..last (rows) from `from` on; false when there is
 * none. */
static bool end_of_line(const struct vt_screen *s, struct vt_mark from, uint64_t last,
                        struct vt_mark *end)
{
    for (uint64_t row = last + 1; row-- > from.row;) {
        struct vt_line line = vt_screen_line(s, row);
        size_t visible = vt_row_visible(line.text, line.len);
        if (visible > (row == from.row ? from.byte : 0)) {
            *end = (struct vt_mark){.row = row, .byte = visible};
            return true;
        }
    }
    return false;
}

static void add_rows(const struct vt_screen *s, struct vt_mark from, struct vt_mark end,
                     struct tn_buf *out)
{
    for (uint64_t row = from.row; row <= end.row; row++) {
        struct vt_line line = vt_screen_line(s, row);
        size_t start = row == from.row ? from.byte : 0;
        size_t stop = row == end.row ? end.byte : line.len;
        if (stop > start)
            tn_buf_add(out, line.text + start, stop - start);
    }
}

int tn_transcript_peek(struct tn_transcript *t, struct tn_buf *out)
{
    const struct vt_screen *s = t->term.screen;
    size_t len_before = out->len;
    size_t newlines = 0;
    uint64_t end = vt_screen_end(s);
    struct vt_mark at = start_of_new_text(s), stop;

    while (at.row < end && tn_buf_ok(out)) {
        uint64_t last = at.row;
        while (last + 1 < end && vt_screen_line(s, last).wrapped)
            last++;
        if (end_of_line(s, at, last, &stop)) {
            for (; newlines > 0; newlines--)
                tn_buf_putc(out, '\n');
            add_rows(s, at, stop, out);
        }
        newlines++;
        at = (struct vt_mark){.row = last + 1};
    }
    if (tn_buf_ok(out))
        return 0;
    tn_buf_cut(out, len_before);
    return -1;
}

static struct vt_mark end_of_text(const struct vt_term *t)
{
    const struct vt_screen *s = t->screen;
    struct vt_mark cursor = vt_screen_place(s, t->x, t->y);

    for (uint64_t row = vt_screen_end(s); row-- > cursor.row + 1;) {
        struct vt_line line = vt_screen_line(s, row);
        if (vt_row_visible(line.text, line.len) > 0)
            return (struct vt_mark){.row = row, .byte = line.len};
    }
    return cursor;
}

int tn_transcript_take(struct tn_transcript *t, struct tn_buf *out)
{
    struct vt_screen *s = t->term.screen;

    if (tn_transcript_peek(t, out) < 0)
        return -1;
    s->undo = s->mark;
    s->mark = end_of_text(&t->term);
    t->taken = s;
    return 0;
}

void tn_transcript_untake(struct tn_transcript *t)
{
    if (t->taken)
        t->taken->mark = t->taken->undo;
}

bool tn_transcript_mid_line(const struct tn_transcript *t)
{
    return start_of_new_text(t->term.screen).byte > 0;
}

/* --- numbers -------------------------------------------------------------------------------- */

size_t tn_transcript_dropped(const struct tn_transcript *t)
{
    return (size_t)t->term.main.history.dropped;
}

size_t tn_transcript_rows(const struct tn_transcript *t)
{
    const struct vt_screen *s = &t->term.main;
    return (size_t)(vt_screen_end(s) - vt_screen_first(s));
}

uint64_t tn_transcript_changes(const struct tn_transcript *t)
{
    return t->term.main.changes + t->term.alternate.changes;
}
