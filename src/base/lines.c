#include "base/lines.h"

#include <assert.h>
#include <string.h>

/* One large line must not hold memory for ever. */
enum { KEPT = 256 << 10 };

void tn_lines_init(struct tn_lines *l, size_t max)
{
    *l = (struct tn_lines){.max = max};
    tn_buf_init(&l->in, max + TN_LINES_PIECE + 2);
}

void tn_lines_done(struct tn_lines *l)
{
    tn_buf_done(&l->in);
}

void tn_lines_add(struct tn_lines *l, const void *bytes, size_t n)
{
    const char *from = bytes;

    assert(n <= TN_LINES_PIECE);
    if (l->skipping) {
        const char *end = memchr(from, '\n', n);
        if (!end)
            return;
        l->skipping = false;
        n -= (size_t)(end + 1 - from);
        from = end + 1;
    }
    tn_buf_add(&l->in, from, n); /* fails only when there is no memory: see below */
}

static void compact(struct tn_lines *l)
{
    tn_buf_eat(&l->in, l->at);
    l->at = 0;
    if (l->in.len == 0 && l->in.cap > KEPT) {
        size_t max = l->in.max;
        tn_buf_done(&l->in);
        tn_buf_init(&l->in, max);
    }
}

ssize_t tn_lines_next(struct tn_lines *l, const char **text)
{
    if (!tn_buf_ok(&l->in)) { /* a line is lost, and what came with it */
        tn_buf_reset(&l->in);
        l->at = l->scanned = 0;
        l->skipping = true;
        return TN_LINES_TOO_LONG;
    }
    size_t left = l->in.len - l->at;
    char *start = left ? l->in.data + l->at : NULL;
    char *end = left > l->scanned ? memchr(start + l->scanned, '\n', left - l->scanned) : NULL;
    size_t n = end ? (size_t)(end - start) : left;

    if (n > l->max) {
        l->skipping = !end;
        l->at = end ? l->at + n + 1 : l->in.len;
        l->scanned = 0;
        return TN_LINES_TOO_LONG;
    }
    if (!end) {
        l->scanned = left;
        compact(l);
        return TN_LINES_NONE;
    }
    l->at += n + 1;
    l->scanned = 0;
    if (n > 0 && start[n - 1] == '\r')
        n--;
    start[n] = '\0';
    *text = start;
    return (ssize_t)n;
}
