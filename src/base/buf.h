/* The growable buffer.
 *
 * Every buffer has a mandatory maximum.  The first append that would pass it (or finds no memory)
 * fails, marks the buffer failed and leaves what was there; later appends fail too, so a caller may
 * check once at the end with tn_buf_ok.  The contents are always followed by a NUL.
 *
 * Where a purse is set (before the first append), what the buffer holds beyond TN_BUF_FREE is taken
 * from it: an empty purse fails the buffer as its maximum does, and tn_buf_poor tells which. */
#ifndef TN_BASE_BUF_H
#define TN_BASE_BUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/guard.h"
#include "base/purse.h"

enum { TN_BUF_FREE = 16 << 10 }; /* so that small requests do not suffer from large ones */

struct tn_buf {
    char *data; /* NULL until the first append: use tn_buf_str */
    size_t len;
    size_t cap;
    size_t max;
    bool failed;
    bool poor;              /* for want of a purse's bytes */
    struct tn_purse *purse; /* or NULL; borrowed */
};

#define TN_BUF_INIT(maximum) \
    {                        \
        .max = (maximum)     \
    }
#define tn_autobuf TN_CLEANUP(tn_buf_done)

void tn_buf_init(struct tn_buf *b, size_t max);
void tn_buf_done(struct tn_buf *b);

/* Empties it and forgets a failure; keeps the memory. */
void tn_buf_reset(struct tn_buf *b);

/* All of these return 0, or -1 when the buffer is (now) failed. */
int tn_buf_add(struct tn_buf *b, const void *bytes, size_t n);
int tn_buf_puts(struct tn_buf *b, const char *s);
int tn_buf_putc(struct tn_buf *b, char c);
/* The same for whoever hands out pieces: non-zero stops. */
int tn_buf_sink(const void *bytes, size_t n, void *buf);
int tn_buf_printf(struct tn_buf *b, const char *fmt, ...) TN_PRINTF(2, 3);
int tn_buf_vprintf(struct tn_buf *b, const char *fmt, va_list ap);

/* Makes room for n more bytes and returns where to write them, or NULL; follow with tn_buf_grew. */
char *tn_buf_reserve(struct tn_buf *b, size_t n);
void tn_buf_grew(struct tn_buf *b, size_t n);

/* Drops n bytes from the front. */
void tn_buf_eat(struct tn_buf *b, size_t n);
/* Shortens it to len bytes (no effect when it is shorter). */
void tn_buf_cut(struct tn_buf *b, size_t len);

static inline bool tn_buf_ok(const struct tn_buf *b)
{
    return !b->failed;
}

/* Whether it failed because others hold too much: later it might not. */
static inline bool tn_buf_poor(const struct tn_buf *b)
{
    return b->failed && b->poor;
}

/* The contents as a string; never NULL, valid until the next append. */
static inline const char *tn_buf_str(const struct tn_buf *b)
{
    return b->data ? b->data : "";
}

/* Hands the contents to the caller, who frees them; the buffer is empty afterwards and its purse
 * has its bytes back.  Never NULL. */
char *tn_buf_take(struct tn_buf *b);

#endif
