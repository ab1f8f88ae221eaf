#include "hand/shell/vt-row.h"

#include "base/guard.h"
#include "base/utf8.h"

enum { FIRST_CAP = 48, KEPT_CAP = 512 };

/* A cell: where it begins, in bytes and columns, and where it ends. */
struct cell {
    size_t at, end;
    int column, next;
};

void vt_row_done(struct vt_row *r)
{
    free(r->text);
    *r = (struct vt_row){0};
}

void vt_row_clear(struct vt_row *r)
{
    if (r->cap > KEPT_CAP) {
        vt_row_done(r);
        return;
    }
    r->len = 0;
    r->width = 0;
    r->hint_column = 0;
    r->hint_at = 0;
    r->wrapped = false;
}

void vt_row_grow(struct vt_row *r, size_t n)
{
    size_t need = r->len + n;
    if (need <= r->cap)
        return;
    size_t cap = r->cap + r->cap / 2;
    if (cap < need)
        cap = need;
    if (cap < FIRST_CAP)
        cap = FIRST_CAP;
    r->text = tn_realloc(r->text, cap);
    r->cap = (uint32_t)cap;
}

static void set_hint(struct vt_row *r, size_t at, int column)
{
    r->hint_at = (uint32_t)at;
    r->hint_column = column;
}

static size_t decode(const struct vt_row *r, size_t at, int *width)
{
    uint32_t code;
    size_t n = tn_utf8_decode(r->text + at, r->len - at, &code);
    *width = n ? tn_utf8_width(code) : 1;
    return n ? n : 1;
}

/* The cell that covers the column, or the empty one at the end of the row. */
static struct cell find(const struct vt_row *r, int column)
{
    struct cell c = {0};
    int width;

    if (r->len == (size_t)r->width) {
        c.column = column < r->width ? column : r->width;
        c.at = (size_t)c.column;
        c.next = c.column < r->width ? c.column + 1 : c.column;
        c.end = (size_t)c.next;
        return c;
    }
    if (r->hint_column <= column) {
        c.end = r->hint_at;
        c.next = r->hint_column;
    }
    while (c.end < r->len) {
        c.at = c.end;
        c.column = c.next;
        c.end += decode(r, c.at, &width);
        c.next += width;
        while (c.end < r->len && (unsigned char)r->text[c.end] >= 0x80) {
            size_t n = decode(r, c.end, &width);
            if (width > 0)
                break;
            c.end += n;
        }
        if (c.next > column)
            return c;
    }
    c.at = c.end;
    c.column = c.next;
    return c;
}

void vt_row_pad(struct vt_row *r, int width)
{
    if (r->width >= width)
        return;
    size_t n = (size_t)(width - r->width);
    vt_row_grow(r, n);
    memset(r->text + r->len, ' ', n);
    r->len += (uint32_t)n;
    r->width = width;
}

void vt_row_replace(struct vt_row *r, int from, int to, const char *text, size_t n, int width)
{
    if (!text)
        n = (size_t)width;
    vt_row_pad(r, from);
    if (r->len + n == 0)
        return;
    struct cell first = find(r, from);
    set_hint(r, first.at, first.column);
    struct cell last = find(r, to);
    /* a wide character that is only half replaced leaves blanks on the other side */
    size_t left = (size_t)(from - first.column);
    bool halved = to > last.column && last.end > last.at;
    size_t right = halved ? (size_t)(last.next - to) : 0;
    size_t tail = halved ? last.end : last.at;
    int removed = (halved ? last.next : last.column) - first.column;
    size_t rest = r->len - tail;

    vt_row_grow(r, left + n + right);
    char *to_here = r->text + first.at;
    if (first.at + left + n + right != tail)
        memmove(to_here + left + n + right, r->text + tail, rest);
    memset(to_here, ' ', left);
    if (text)
        memcpy(to_here + left, text, n);
    else
        memset(to_here + left, ' ', n);
    memset(to_here + left + n, ' ', right);
    r->len = (uint32_t)(first.at + left + n + right + rest);
    r->width += (int)(left + right) + width - removed;
    set_hint(r, first.at + left + n, from + width);
}

void vt_row_cut(struct vt_row *r, int width)
{
    if (r->width <= width)
        return;
    struct cell c = find(r, width);
    r->len = (uint32_t)c.at;
    r->width = c.column;
    set_hint(r, c.at, c.column);
    vt_row_pad(r, width);
}

/* The last cell, found from behind; the row is not empty. */
static struct cell last_cell(const struct vt_row *r)
{
    struct cell c = {.at = r->len, .end = r->len, .next = r->width};
    int width = 0;

    while (c.at > 0 && width == 0) {
        do {
            c.at--;
        } while (c.at > 0 && ((unsigned char)r->text[c.at] & 0xc0) == 0x80);
        decode(r, c.at, &width);
    }
    c.column = r->width - width;
    return c;
}

void vt_row_combine(struct vt_row *r, int column, const char *text, size_t n)
{
    vt_row_pad(r, column + 1);
    struct cell c = last_cell(r);
    if (column < c.column)
        c = find(r, column);
    if (c.end - c.at + n > VT_CELL_BYTES)
        return;
    vt_row_grow(r, n);
    memmove(r->text + c.end + n, r->text + c.end, r->len - c.end);
    memcpy(r->text + c.end, text, n);
    r->len += (uint32_t)n;
    set_hint(r, c.end + n, c.next);
}

size_t vt_row_visible(const char *text, size_t len)
{
    while (len > 0 && text[len - 1] == ' ')
        len--;
    return len;
}

size_t vt_row_difference(const struct vt_row *a, const struct vt_row *b)
{
    size_t a_len = vt_row_visible(a->text, a->len);
    size_t b_len = vt_row_visible(b->text, b->len);
    size_t common = a_len < b_len ? a_len : b_len;

    for (size_t i = 0; i < common; i++) {
        if (a->text[i] != b->text[i])
            return i;
    }
    return a_len == b_len ? SIZE_MAX : common;
}
