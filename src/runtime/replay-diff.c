#include "runtime/replay-diff.h"

#include <stdint.h>

#include "base/diff-lines.h"

#define CONTEXT 3
#define BUDGET INT64_C(5000000)

struct line {
    const char *text;
    size_t n;
    size_t at; /* which line of both texts it is; the recorded ones come first */
};

/* A text as lines, each with its LF if it has one. */
struct lines {
    struct line *items;
    size_t count;
};

static size_t count_lines(const struct tn_buf *text)
{
    const char *s = tn_buf_str(text);
    size_t count = 0;

    for (size_t i = 0; i < text->len; i++)
        count += s[i] == '\n' || i + 1 == text->len;
    return count;
}

static void split(const struct tn_buf *text, struct lines *out, size_t first)
{
    const char *s = tn_buf_str(text), *end = s + text->len;

    for (; s < end; s += out->items[out->count - 1].n) {
        const char *lf = memchr(s, '\n', (size_t)(end - s));
        out->items[out->count] = (struct line){
            .text = s, .n = (size_t)((lf ? lf + 1 : end) - s), .at = first + out->count};
        out->count++;
    }
}

static int by_text(const void *a, const void *b)
{
    const struct line *x = a, *y = b;
    int order = memcmp(x->text, y->text, x->n < y->n ? x->n : y->n);

    return order ? order : (x->n > y->n) - (x->n < y->n);
}

/* Equal lines get equal numbers, by sorting all of them. */
static void number(const struct line *lines, size_t count, uint32_t *numbers)
{
    tn_autofree struct line *sorted = tn_calloc(count, sizeof *sorted);
    uint32_t last = 0;

    memcpy(sorted, lines, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, by_text);
    for (size_t i = 0; i < count; i++) {
        last += i > 0 && by_text(&sorted[i - 1], &sorted[i]) != 0;
        numbers[sorted[i].at] = last;
    }
}

static void put_line(struct tn_buf *out, char sign, const struct line *line)
{
    bool ended = line->n && line->text[line->n - 1] == '\n';

    tn_buf_putc(out, sign);
    tn_buf_add(out, line->text, line->n - ended);
    tn_buf_putc(out, '\n');
}

/* Both texts and what is different in them. */
struct change {
    struct lines a, b;
    bool *gone, *came;
};

/* The hunk from line (i, k) on: where it ends, with its context. */
static void hunk_end(const struct change *c, size_t i, size_t k, size_t *i_end, size_t *k_end)
{
    size_t same = 0;

    while ((i < c->a.count || k < c->b.count) && same <= 2 * CONTEXT) {
        if (i < c->a.count && c->gone[i]) {
            i++;
            same = 0;
        } else if (k < c->b.count && c->came[k]) {
            k++;
            same = 0;
        } else {
            i++;
            k++;
            same++;
        }
    }
    size_t extra = same > CONTEXT ? same - CONTEXT : 0;
    *i_end = i - extra;
    *k_end = k - extra;
}

static void put_hunk(const struct change *c, size_t i, size_t i_end, size_t k, size_t k_end,
                     struct tn_buf *out)
{
    tn_buf_printf(out, "@@ -%zu,%zu +%zu,%zu @@\n", i + (i < i_end), i_end - i, k + (k < k_end),
                  k_end - k);
    while (i < i_end || k < k_end) {
        if (i < i_end && c->gone[i]) {
            put_line(out, '-', &c->a.items[i++]);
        } else if (k < k_end && c->came[k]) {
            put_line(out, '+', &c->b.items[k++]);
        } else {
            put_line(out, ' ', &c->a.items[i++]);
            k++;
        }
    }
}

static void put_hunks(const struct change *c, struct tn_buf *out)
{
    size_t i = 0, k = 0, i_last = 0;

    while (i < c->a.count || k < c->b.count) {
        bool same = !(i < c->a.count && c->gone[i]) && !(k < c->b.count && c->came[k]);
        if (same) {
            i++;
            k++;
            continue;
        }
        size_t before = i - i_last < CONTEXT ? i - i_last : CONTEXT, i_end, k_end;
        hunk_end(c, i, k, &i_end, &k_end);
        put_hunk(c, i - before, i_end, k - before, k_end, out);
        i = i_last = i_end;
        k = k_end;
    }
}

int replay_diff(const struct tn_buf *recorded, const struct tn_buf *replayed, struct tn_buf *out)
{
    size_t n = count_lines(recorded), m = count_lines(replayed);
    tn_autofree struct line *lines = tn_calloc(n + m, sizeof *lines);
    tn_autofree uint32_t *numbers = tn_calloc(n + m, sizeof *numbers);
    tn_autofree bool *changed = tn_calloc(n + m, sizeof *changed);
    struct change c = {
        .a = {.items = lines}, .b = {.items = lines + n}, .gone = changed, .came = changed + n};

    if (recorded->len == replayed->len &&
        memcmp(tn_buf_str(recorded), tn_buf_str(replayed), recorded->len) == 0)
        return 0;
    split(recorded, &c.a, 0);
    split(replayed, &c.b, n);
    number(lines, n + m, numbers);
    tn_diff_lines(numbers, n, numbers + n, m, c.gone, c.came, BUDGET);
    tn_buf_puts(out, "--- recorded\n+++ replayed\n");
    put_hunks(&c, out);
    return tn_buf_ok(out) ? 0 : -1;
}
