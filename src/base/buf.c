#include "base/buf.h"

#include <stdint.h>
#include <stdio.h>

void tn_buf_init(struct tn_buf *b, size_t max)
{
    *b = (struct tn_buf)TN_BUF_INIT(max);
}

/* What a buffer of that capacity takes from its purse. */
static size_t price(size_t cap)
{
    return cap > TN_BUF_FREE ? cap - TN_BUF_FREE : 0;
}

/* Nothing is held any more. */
static void let_go(struct tn_buf *b)
{
    tn_purse_give(b->purse, price(b->cap));
    b->data = NULL;
    b->len = b->cap = 0;
}

void tn_buf_done(struct tn_buf *b)
{
    free(b->data);
    let_go(b);
}

void tn_buf_reset(struct tn_buf *b)
{
    b->len = 0;
    b->failed = b->poor = false;
    if (b->data)
        b->data[0] = '\0';
}

char *tn_buf_reserve(struct tn_buf *b, size_t n)
{
    size_t max = b->max < SIZE_MAX ? b->max : SIZE_MAX - 1; /* the NUL needs a byte too */
    if (b->failed || n > max || b->len > max - n) {
        b->failed = true;
        return NULL;
    }
    size_t need = b->len + n + 1;
    if (need > b->cap) {
        size_t cap = b->cap ? b->cap : 64;
        while (cap < need)
            cap = cap > SIZE_MAX / 2 ? need : cap * 2;
        if (cap > max + 1)
            cap = max + 1;
        size_t more = price(cap) - price(b->cap);
        b->poor = !tn_purse_take(b->purse, more);
        char *data = b->poor ? NULL : realloc(b->data, cap);
        if (!data) {
            if (!b->poor)
                tn_purse_give(b->purse, more);
            b->failed = true;
            return NULL;
        }
        b->data = data;
        b->cap = cap;
        b->data[b->len] = '\0';
    }
    return b->data + b->len;
}

void tn_buf_grew(struct tn_buf *b, size_t n)
{
    b->len += n;
    b->data[b->len] = '\0';
}

int tn_buf_add(struct tn_buf *b, const void *bytes, size_t n)
{
    if (n == 0)
        return b->failed ? -1 : 0;
    char *to = tn_buf_reserve(b, n);
    if (!to)
        return -1;
    memcpy(to, bytes, n);
    tn_buf_grew(b, n);
    return 0;
}

int tn_buf_sink(const void *bytes, size_t n, void *buf)
{
    return tn_buf_add(buf, bytes, n) < 0;
}

int tn_buf_puts(struct tn_buf *b, const char *s)
{
    return tn_buf_add(b, s, strlen(s));
}

int tn_buf_putc(struct tn_buf *b, char c)
{
    return tn_buf_add(b, &c, 1);
}

int tn_buf_vprintf(struct tn_buf *b, const char *fmt, va_list ap)
{
    char small[256];
    va_list again;

    va_copy(again, ap);
    int n = vsnprintf(small, sizeof small, fmt, ap);
    int r = -1;
    if (n >= 0 && (size_t)n < sizeof small) {
        r = tn_buf_add(b, small, (size_t)n);
    } else if (n >= 0) {
        char *to = tn_buf_reserve(b, (size_t)n);
        if (to) {
            vsnprintf(to, (size_t)n + 1, fmt, again);
            tn_buf_grew(b, (size_t)n);
            r = 0;
        }
    }
    va_end(again);
    return r;
}

int tn_buf_printf(struct tn_buf *b, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    int r = tn_buf_vprintf(b, fmt, ap);
    va_end(ap);
    return r;
}

void tn_buf_eat(struct tn_buf *b, size_t n)
{
    if (n >= b->len) {
        b->len = 0;
    } else {
        memmove(b->data, b->data + n, b->len - n);
        b->len -= n;
    }
    if (b->data)
        b->data[b->len] = '\0';
}

void tn_buf_cut(struct tn_buf *b, size_t len)
{
    if (len < b->len) {
        b->len = len;
        b->data[len] = '\0';
    }
}

char *tn_buf_take(struct tn_buf *b)
{
    char *data = b->data ? b->data : tn_strdup("");
    let_go(b);
    return data;
}
