#include "hand/file/diff.h"

#include <stdint.h>

#include "base/diff-lines.h"

/* Beyond this many lines on one side the stretch that differs is not looked into. */
#define MAX_LINES 100000
#define BUDGET 20000000

/* A run of lines: the text from the first one's start to the last one's end, without the LF after
 * it; no lines at all is a count of 0. */
struct run {
    struct tn_slice text;
    size_t count;
    size_t before; /* lines that precede it in the file */
};

static struct tn_slice first_line(struct tn_slice t)
{
    const char *lf = t.n ? memchr(t.s, '\n', t.n) : NULL;
    return tn_slicen(t.s, lf ? (size_t)(lf - t.s) : t.n);
}

static struct tn_slice last_line(struct tn_slice t)
{
    const char *lf = t.n ? memrchr(t.s, '\n', t.n) : NULL;
    return lf ? tn_slicen(lf + 1, (size_t)(t.s + t.n - lf - 1)) : t;
}

/* Takes one line off the front or the end. */
static struct tn_slice pop_front(struct run *r)
{
    struct tn_slice line = first_line(r->text);
    size_t step = line.n + (r->count > 1);
    r->text.s += step;
    r->text.n -= step;
    r->count--;
    r->before++;
    return line;
}

static void pop_back(struct run *r)
{
    r->text.n -= last_line(r->text).n + (r->count > 1);
    r->count--;
}

static void trim(struct run *a, struct run *b)
{
    while (a->count && b->count && text_equal(first_line(a->text), first_line(b->text))) {
        pop_front(a);
        pop_front(b);
    }
    while (a->count && b->count && text_equal(last_line(a->text), last_line(b->text))) {
        pop_back(a);
        pop_back(b);
    }
}

static int put_range(struct tn_buf *out, char sign, size_t before, size_t count)
{
    if (count == 1)
        return tn_buf_printf(out, "%c%zu", sign, before + 1);
    return tn_buf_printf(out, "%c%zu,%zu", sign, count ? before + 1 : before, count);
}

static int put_lines(struct tn_buf *out, char sign, struct run *r, size_t count)
{
    for (; count > 0; count--) {
        struct tn_slice line = text_rstrip(pop_front(r));
        if (tn_buf_putc(out, '\n') || tn_buf_putc(out, sign) || tn_buf_add(out, line.s, line.n))
            return -1;
    }
    return 0;
}

/* One hunk: the first `gone` lines of a and the first `came` lines of b, which it takes off. */
static int put_hunk(struct tn_buf *out, struct run *a, size_t gone, struct run *b, size_t came)
{
    if (tn_buf_puts(out, "\n@@ ") || put_range(out, '-', a->before, gone) ||
        tn_buf_putc(out, ' ') || put_range(out, '+', b->before, came) || tn_buf_puts(out, " @@"))
        return -1;
    return put_lines(out, '-', a, gone) || put_lines(out, '+', b, came) ? -1 : 0;
}

/* --- numbers for lines, so that comparing two is comparing integers ------------------------ */

struct table {
    struct tn_slice *lines; /* one per number */
    uint32_t *slots;        /* number + 1, 0 when free */
    uint32_t mask;
    uint32_t used;
};

static uint32_t hash(struct tn_slice t)
{
    uint64_t h = 14695981039346656037u;
    for (size_t i = 0; i < t.n; i++)
        h = (h ^ (unsigned char)t.s[i]) * 1099511628211u;
    return (uint32_t)(h ^ h >> 32);
}

static uint32_t number(struct table *table, struct tn_slice line)
{
    uint32_t at = hash(line) & table->mask;

    while (table->slots[at]) {
        if (text_equal(table->lines[table->slots[at] - 1], line))
            return table->slots[at] - 1;
        at = (at + 1) & table->mask;
    }
    table->lines[table->used] = line;
    table->slots[at] = ++table->used;
    return table->used - 1;
}

static void number_all(struct table *table, struct run r, uint32_t *numbers)
{
    for (size_t i = 0; r.count > 0; i++)
        numbers[i] = number(table, pop_front(&r));
}

/* Puts a hunk for each stretch in which the two runs differ. */
static int put_hunks(struct tn_buf *out, struct run *a, struct run *b)
{
    size_t n = a->count, m = b->count;
    uint32_t slots = 16;
    while (slots < 2 * (n + m))
        slots *= 2;

    tn_autofree struct tn_slice *lines = tn_calloc(n + m, sizeof *lines);
    tn_autofree uint32_t *slot = tn_calloc(slots, sizeof *slot);
    tn_autofree uint32_t *numbers = tn_calloc(n + m, sizeof *numbers);
    tn_autofree bool *changed = tn_calloc(n + m, sizeof *changed);
    bool *gone = changed, *came = changed + n;
    struct table table = {.lines = lines, .slots = slot, .mask = slots - 1};

    number_all(&table, *a, numbers);
    number_all(&table, *b, numbers + n);
    tn_diff_lines(numbers, n, numbers + n, m, gone, came, BUDGET);

    for (size_t i = 0, k = 0; i < n || k < m;) {
        size_t i0 = i, k0 = k;
        while (i < n && gone[i])
            i++;
        while (k < m && came[k])
            k++;
        if (i > i0 || k > k0) {
            if (put_hunk(out, a, i - i0, b, k - k0))
                return -1;
        } else {
            pop_front(a);
            pop_front(b);
            i++;
            k++;
        }
    }
    return 0;
}

int diff_unified(struct tn_buf *out, const char *path, struct tn_slice before,
                 struct tn_slice after)
{
    struct run a = {.text = before.n ? before : tn_slice(""), .count = text_count_lf(before) + 1};
    struct run b = {.text = after.n ? after : tn_slice(""), .count = text_count_lf(after) + 1};

    if (text_equal(before, after))
        return 0;
    trim(&a, &b);
    struct tn_slice name = text_rstrip(tn_slice(path));
    if (tn_buf_puts(out, "--- ") || tn_buf_add(out, name.s, name.n) || tn_buf_puts(out, "\n+++ ") ||
        tn_buf_add(out, name.s, name.n))
        return -1;
    bool small = a.count && b.count && a.count <= MAX_LINES && b.count <= MAX_LINES;
    return small ? put_hunks(out, &a, &b) : put_hunk(out, &a, a.count, &b, b.count);
}
