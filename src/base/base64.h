/* Base64 (RFC 4648, the standard alphabet with padding). */
#ifndef TN_BASE_BASE64_H
#define TN_BASE_BASE64_H

#include <stddef.h>

#include "base/buf.h"
#include "base/error.h"

/* Length of the encoding of n bytes. */
static inline size_t tn_base64_length(size_t n)
{
    return (n / 3 + (n % 3 != 0)) * 4;
}

/* Appends the encoding of n bytes to out.  0, or -1 when out is full. */
int tn_base64_encode(struct tn_buf *out, const void *bytes, size_t n);
/* The same in the alphabet for URLs, without padding. */
int tn_base64_encode_url(struct tn_buf *out, const void *bytes, size_t n);

/* Appends the bytes that text stands for to out.  Strict: no white space, padding required, unused
 * bits zero.  -1 with err (out is then unchanged). */
int tn_base64_decode(struct tn_buf *out, const char *text, size_t n, struct tn_error *err);

#endif
