#include "hand/shell/vt-screen.h"

#include "base/guard.h"

enum { FIRST_LINES = 16 };

static struct vt_row *line_at(const struct vt_screen *s, int y)
{
    return &s->lines[(s->base + y) & (s->cap - 1)];
}

static uint64_t number_of(const struct vt_screen *s, int y)
{
    return s->history.pushed + (uint64_t)y;
}

void vt_screen_init(struct vt_screen *s, int columns, int rows, bool keeps_history, size_t max_rows,
                    size_t max_bytes)
{
    *s = (struct vt_screen){
        .columns = columns,
        .rows = rows,
        .keeps_history = keeps_history,
        .max_rows = max_rows > (size_t)rows ? max_rows : (size_t)rows,
        .max_bytes = max_bytes,
        .edited_y = -1,
    };
    vt_history_init(&s->history, max_bytes);
}

void vt_screen_reset(struct vt_screen *s)
{
    for (int i = 0; i < s->cap; i++)
        free(s->lines[i].text);
    free(s->lines);
    s->lines = NULL;
    s->base = s->cap = s->used = 0;
    s->bytes = 0;
    vt_history_reset(&s->history);
    s->mark = s->undo = (struct vt_mark){0};
    vt_row_done(&s->before);
    s->edited_y = -1;
}

/* --- rows by number ------------------------------------------------------------------------- */

uint64_t vt_screen_first(const struct vt_screen *s)
{
    return vt_history_first(&s->history);
}

uint64_t vt_screen_end(const struct vt_screen *s)
{
    return number_of(s, s->used);
}

struct vt_line vt_screen_line(const struct vt_screen *s, uint64_t number)
{
    if (number < s->history.pushed) {
        const struct vt_history_row *h = vt_history_row(&s->history, number);
        const char *text = h->len > 0 ? s->history.ring + h->at : NULL;
        return (struct vt_line){.text = text, .len = h->len, .wrapped = h->wrapped};
    }
    const struct vt_row *r = line_at(s, (int)(number - s->history.pushed));
    return (struct vt_line){.text = r->text, .len = r->len, .wrapped = r->wrapped};
}

struct vt_mark vt_screen_place(const struct vt_screen *s, int x, int y)
{
    struct vt_mark m = {.row = number_of(s, y)};
    const struct vt_row *r = y < s->used ? line_at(s, y) : &(struct vt_row){0};
    m.byte = r->len + (size_t)(x > r->width ? x - r->width : 0);
    return m;
}

/* --- what changed --------------------------------------------------------------------------- */

static uint64_t start_of_line(const struct vt_screen *s, uint64_t row)
{
    while (row > vt_screen_first(s) && vt_screen_line(s, row - 1).wrapped)
        row--;
    return row;
}

static void lower_mark(const struct vt_screen *s, struct vt_mark *m, uint64_t row, size_t byte)
{
    if (row < m->row || (row == m->row && byte < m->byte))
        *m = (struct vt_mark){.row = start_of_line(s, row)};
}

static void note_change(struct vt_screen *s, uint64_t row, size_t byte)
{
    s->changes++;
    lower_mark(s, &s->mark, row, byte);
    lower_mark(s, &s->undo, row, byte);
}

void vt_screen_settle(struct vt_screen *s)
{
    if (s->edited_y < 0)
        return;
    int y = s->edited_y;
    s->edited_y = -1;
    size_t at = vt_row_difference(&s->before, y < s->used ? line_at(s, y) : &(struct vt_row){0});
    if (at != SIZE_MAX)
        note_change(s, number_of(s, y), at);
}

/* Remembers the row before its first edit, so that settling can tell what came of it. */
static void begin_edit(struct vt_screen *s, int y)
{
    if (s->edited_y == y)
        return;
    vt_screen_settle(s);
    const struct vt_row *r = line_at(s, y);
    vt_row_clear(&s->before);
    if (r->len > 0)
        vt_row_append(&s->before, r->text, r->len, r->width);
    s->edited_y = y;
}

/* Text added at the end of a row needs no comparison. */
static void note_append(struct vt_screen *s, int y, size_t at, const char *text, size_t n)
{
    size_t blanks = 0;
    while (blanks < n && text[blanks] == ' ')
        blanks++;
    if (blanks < n)
        note_change(s, number_of(s, y), at + blanks);
}

/* --- limits --------------------------------------------------------------------------------- */

/* The screen alone is too much: the text of the topmost rows goes, but never that of row y. */
static void shed_rows(struct vt_screen *s, int y)
{
    for (int i = 0; i < s->used && s->bytes > s->max_bytes; i++) {
        struct vt_row *r = line_at(s, i);
        if (i == y || r->len == 0)
            continue;
        s->bytes -= r->len;
        vt_row_clear(r);
        s->history.dropped++;
    }
}

static void keep_limits(struct vt_screen *s, int y)
{
    size_t used = (size_t)s->used, rows = s->history.count + used;
    size_t max_rows = s->max_rows - (s->history.dropped ? 0 : s->lead);
    if (rows <= max_rows && s->history.bytes + s->bytes <= s->max_bytes)
        return;
    size_t bytes = s->max_bytes > s->bytes ? s->max_bytes - s->bytes : 0;
    size_t keep = rows > max_rows ? s->max_rows - s->batch : rows;
    vt_history_trim(&s->history, keep > used ? keep - used : 0, bytes);
    if (s->bytes > s->max_bytes)
        shed_rows(s, y);
}

static void grow_lines(struct vt_screen *s, int used)
{
    int cap = s->cap ? s->cap : FIRST_LINES;
    while (cap < used)
        cap *= 2;
    struct vt_row *lines = tn_calloc((size_t)cap, sizeof *lines);
    for (int i = 0; i < s->cap; i++)
        lines[i] = *line_at(s, i);
    free(s->lines);
    s->lines = lines;
    s->base = 0;
    s->cap = cap;
}

/* Rows not in use are empty, so that more of them come into use by counting. */
static void use_rows(struct vt_screen *s, int used)
{
    if (used <= s->used)
        return;
    if (used > s->cap)
        grow_lines(s, used);
    s->used = used;
}

static void clear_line(struct vt_screen *s, int y)
{
    struct vt_row *r = line_at(s, y);
    s->bytes -= r->len;
    vt_row_clear(r);
}

/* --- edits within a row --------------------------------------------------------------------- */

static struct vt_row *edit_row(struct vt_screen *s, int y)
{
    use_rows(s, y + 1);
    begin_edit(s, y);
    return line_at(s, y);
}

static void edited(struct vt_screen *s, int y, size_t len_before)
{
    s->bytes = s->bytes - len_before + line_at(s, y)->len;
    keep_limits(s, y);
}

void vt_screen_write(struct vt_screen *s, int x, int y, const char *text, size_t n, int width)
{
    use_rows(s, y + 1);
    struct vt_row *r = line_at(s, y);
    size_t len_before = r->len;

    if (x >= r->width) {
        vt_row_pad(r, x);
        if (s->edited_y != y)
            note_append(s, y, r->len, text, n);
        vt_row_append(r, text, n, width);
    } else {
        begin_edit(s, y);
        vt_row_replace(r, x, x + width, text, n, width);
    }
    edited(s, y, len_before);
}

void vt_screen_insert(struct vt_screen *s, int x, int y, const char *text, size_t n, int width)
{
    struct vt_row *r = edit_row(s, y);
    size_t len_before = r->len;
    vt_row_replace(r, x, x, text, n, width);
    vt_row_cut(r, s->columns);
    edited(s, y, len_before);
}

void vt_screen_combine(struct vt_screen *s, int x, int y, const char *text, size_t n)
{
    use_rows(s, y + 1);
    struct vt_row *r = line_at(s, y);
    size_t len_before = r->len;

    if (x + 1 < r->width)
        begin_edit(s, y);
    else if (s->edited_y != y)
        note_append(s, y, r->len, text, n);
    vt_row_combine(r, x, text, n);
    edited(s, y, len_before);
}

void vt_screen_insert_blanks(struct vt_screen *s, int x, int y, int n)
{
    if (y < s->used && x < line_at(s, y)->width)
        vt_screen_insert(s, x, y, NULL, 0, n);
}

void vt_screen_delete(struct vt_screen *s, int x, int y, int n)
{
    if (y >= s->used || x >= line_at(s, y)->width)
        return;
    struct vt_row *r = edit_row(s, y);
    size_t len_before = r->len;
    int width_before = r->width;
    vt_row_replace(r, x, x + n, NULL, 0, 0);
    if (r->wrapped)
        vt_row_pad(r, width_before);
    edited(s, y, len_before);
}

bool vt_screen_wrapped(const struct vt_screen *s, int y)
{
    return y < s->used && line_at(s, y)->wrapped;
}

/* Row y is no longer continued by the next; y is -1 for the last row of the history. */
static void unwrap(struct vt_screen *s, int y)
{
    if (y < 0 ? !vt_history_unwrap(&s->history) : !vt_screen_wrapped(s, y))
        return;
    if (y >= 0)
        line_at(s, y)->wrapped = false;
    note_change(s, number_of(s, y), SIZE_MAX);
}

void vt_screen_erase(struct vt_screen *s, int y, int from, int to)
{
    if (y >= s->used)
        return;
    struct vt_row *r = line_at(s, y);
    size_t len_before = r->len;
    if (r->len == 0 || (from >= r->width && !r->wrapped))
        return;

    begin_edit(s, y);
    if (from == 0 && to >= s->columns) {
        unwrap(s, y - 1);
        unwrap(s, y);
    }
    if (!r->wrapped && (to >= r->width || to >= s->columns))
        vt_row_cut(r, from);
    else
        vt_row_replace(r, from, to, NULL, 0, to - from);
    edited(s, y, len_before);
}

void vt_screen_wrap(struct vt_screen *s, int y)
{
    use_rows(s, y + 1);
    struct vt_row *r = line_at(s, y);
    if (r->wrapped)
        return;
    r->wrapped = true;
    lower_mark(s, &s->mark, number_of(s, y), SIZE_MAX);
    lower_mark(s, &s->undo, number_of(s, y), SIZE_MAX);
    if (y + 1 < s->used)
        s->changes++;
}

/* --- whole rows ----------------------------------------------------------------------------- */

void vt_screen_erase_rows(struct vt_screen *s, int from, int to)
{
    if (from >= to)
        return;
    vt_screen_settle(s);
    unwrap(s, from - 1);
    int end = to < s->used ? to : s->used;
    for (int y = from; y < end; y++) {
        const struct vt_row *r = line_at(s, y);
        if (r->wrapped || vt_row_visible(r->text, r->len) > 0) {
            note_change(s, number_of(s, y), 0);
            break;
        }
    }
    for (int y = from; y < end; y++)
        clear_line(s, y);
    if (end == s->used && from < s->used)
        s->used = from;
}

void vt_screen_erase_history(struct vt_screen *s)
{
    if (s->history.count > 0)
        s->changes++;
    vt_history_erase(&s->history);
}

static void reverse(struct vt_screen *s, int from, int to)
{
    for (; from < to; from++, to--) {
        struct vt_row *a = line_at(s, from), *b = line_at(s, to);
        struct vt_row held = *a;
        *a = *b;
        *b = held;
    }
}

/* The first n of the rows from..to (inclusive) become the last. */
static void rotate(struct vt_screen *s, int from, int to, int n)
{
    reverse(s, from, from + n - 1);
    reverse(s, from + n, to);
    reverse(s, from, to);
}

static void push_rows(struct vt_screen *s, int top, int n)
{
    for (int y = top; y < top + n; y++) {
        const struct vt_row *r = y < s->used ? line_at(s, y) : &(struct vt_row){0};
        vt_history_push(&s->history, r->text, r->len, r->wrapped);
    }
}

/* Rows top..top+n-1 vanish and the ones below, up to last, move up. */
static void remove_rows(struct vt_screen *s, int top, int bottom, int n)
{
    int last = bottom < s->used ? bottom : s->used - 1;
    if (n > last - top + 1)
        n = last - top + 1;
    if (n <= 0)
        return;
    for (int y = top; y < top + n; y++)
        clear_line(s, y);
    if (last < s->used - 1 || top > 0)
        rotate(s, top, last, n);
    else
        s->base = (s->base + n) & (s->cap - 1);
    if (last == s->used - 1)
        s->used -= n;
}

void vt_screen_scroll_up(struct vt_screen *s, int top, int bottom, int n, bool keep)
{
    uint64_t changed = number_of(s, top); /* the first row that is not what it was */
    bool visible = top < s->used;

    vt_screen_settle(s);
    if (n > bottom - top + 1)
        n = bottom - top + 1;
    if (keep && s->keeps_history) {
        /* rows keep their numbers, except that blanks come between the region and what is below it,
         * or that rows from inside the screen are put above it */
        changed = top == 0 ? number_of(s, bottom + 1) : number_of(s, 0);
        visible = top > 0 || bottom + 1 < s->used;
        push_rows(s, top, n);
    } else {
        unwrap(s, top - 1);
    }
    remove_rows(s, top, bottom, n);
    if (!keep)
        unwrap(s, bottom - n);
    keep_limits(s, -1);
    if (visible)
        note_change(s, changed, 0);
}

void vt_screen_scroll_down(struct vt_screen *s, int top, int bottom, int n)
{
    vt_screen_settle(s);
    unwrap(s, top - 1);
    if (top >= s->used)
        return;
    if (n > bottom - top + 1)
        n = bottom - top + 1;
    int last = s->used - 1 + n < bottom ? s->used - 1 + n : bottom;
    use_rows(s, last + 1);
    for (int y = last - n + 1; y <= last; y++)
        clear_line(s, y);
    rotate(s, top, last, last - top + 1 - n);
    keep_limits(s, -1);
    note_change(s, number_of(s, top), 0);
}

int vt_screen_resize(struct vt_screen *s, int columns, int rows)
{
    int excess = s->used > rows ? s->used - rows : 0;
    if (excess > 0)
        vt_screen_scroll_up(s, 0, s->used - 1, excess, true);
    s->columns = columns;
    s->rows = rows;
    if (s->max_rows < (size_t)rows)
        s->max_rows = (size_t)rows;
    return excess;
}
