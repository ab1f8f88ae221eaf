/* A cursor over JSON text from the browser: values are taken as they come, and no tree is built.
 * Trees and snapshots of large pages have hundreds of thousands of values.
 *
 * Reading never leaves the text.  What is not JSON makes the cursor bad: everything then answers
 * false, 0 or nothing, so that a reader may check once at the end. */
#ifndef TN_HAND_BROWSER_VIEW_SCAN_H
#define TN_HAND_BROWSER_VIEW_SCAN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

struct tn_scan {
    const char *at, *end;
    bool bad;
};

/* Part of the text. */
struct tn_slice {
    const char *s;
    size_t n;
};

#define TN_SLICE(literal)              \
    {                                  \
        (literal), sizeof(literal) - 1 \
    }

/* text may be NULL when n is 0. */
static inline struct tn_scan tn_scan(const char *text, size_t n)
{
    const char *from = text ? text : "";
    return (struct tn_scan){.at = from, .end = from + n};
}

static inline bool tn_slice_equal(struct tn_slice a, struct tn_slice b)
{
    return a.n == b.n && memcmp(a.s, b.s, a.n) == 0;
}

static inline bool tn_slice_is(struct tn_slice a, const char *word)
{
    return a.n == strlen(word) && memcmp(a.s, word, a.n) == 0;
}

/* The first byte of the next value ('{', '[', '"', 't', '-', ...) or 0. */
char tn_scan_peek(struct tn_scan *c);

/* Enter an object or array, then ask for its members or elements; each must be read or skipped.
 * Keys are as written. */
void tn_scan_enter(struct tn_scan *c);
bool tn_scan_member(struct tn_scan *c, struct tn_slice *key);
bool tn_scan_element(struct tn_scan *c);

/* Skips a value and gives its text. */
struct tn_slice tn_scan_skip(struct tn_scan *c);
/* Numbers; 0 for anything else, which is skipped. */
double tn_scan_double(struct tn_scan *c);
int64_t tn_scan_int(struct tn_scan *c);
/* true only for `true`. */
bool tn_scan_bool(struct tn_scan *c);
/* Appends the string to out, which must have room for the text's length; false, and the value is
 * skipped, when it is no string. */
bool tn_scan_string(struct tn_scan *c, struct tn_buf *out);

/* The text of an object's member; empty when v is no object or has no such member. */
struct tn_slice tn_slice_get(struct tn_slice v, const char *name);
/* What is between a string's quotes, escapes as written; other text as it is. */
struct tn_slice tn_slice_unquoted(struct tn_slice v);

#endif
