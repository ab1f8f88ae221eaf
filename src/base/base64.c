#include "base/base64.h"

#include <stdint.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

int tn_base64_encode(struct tn_buf *out, const void *bytes, size_t n)
{
    const unsigned char *from = bytes;
    size_t length = tn_base64_length(n);
    char *to = tn_buf_reserve(out, length);

    if (!to)
        return -1;
    for (; n >= 3; n -= 3, from += 3) {
        uint32_t v = (uint32_t)from[0] << 16 | (uint32_t)from[1] << 8 | from[2];
        *to++ = alphabet[v >> 18];
        *to++ = alphabet[v >> 12 & 63];
        *to++ = alphabet[v >> 6 & 63];
        *to++ = alphabet[v & 63];
    }
    if (n) {
        uint32_t v = (uint32_t)from[0] << 16 | (n == 2 ? (uint32_t)from[1] << 8 : 0);
        *to++ = alphabet[v >> 18];
        *to++ = alphabet[v >> 12 & 63];
        *to++ = n == 2 ? alphabet[v >> 6 & 63] : '=';
        *to++ = '=';
    }
    tn_buf_grew(out, length);
    return 0;
}

int tn_base64_encode_url(struct tn_buf *out, const void *bytes, size_t n)
{
    size_t start = out->len;

    if (tn_base64_encode(out, bytes, n) < 0)
        return -1;
    for (char *c = out->data + start; *c; c++)
        *c = *c == '+' ? '-' : *c == '/' ? '_' : *c;
    while (out->len > start && out->data[out->len - 1] == '=')
        tn_buf_cut(out, out->len - 1);
    return 0;
}

/* The six bits a character stands for, or -1. */
static int sextet(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Decodes four characters of which `count` carry bits; -1 when they are no base64. */
static int32_t quad(const char *text, int count)
{
    int32_t v = 0;

    for (int i = 0; i < 4; i++) {
        int bits = i < count ? sextet(text[i]) : 0;
        if (bits < 0)
            return -1;
        v = v << 6 | bits;
    }
    return v;
}

int tn_base64_decode(struct tn_buf *out, const char *text, size_t n, struct tn_error *err)
{
    if (n % 4)
        return tn_fail(err, TN_E_INVALID, "base64 text must come in groups of four characters");
    size_t pad = n == 0 ? 0 : text[n - 1] != '=' ? 0 : text[n - 2] != '=' ? 1 : 2;
    size_t length = n / 4 * 3 - pad;
    char *to = tn_buf_reserve(out, length);
    if (!to)
        return tn_fail(err, TN_E_TOO_LARGE, "base64 text is too large");

    size_t left = length;
    for (size_t i = 0; i < n; i += 4) {
        int count = i + 4 == n ? 4 - (int)pad : 4;
        int32_t v = quad(text + i, count);
        if (v < 0 || (count < 4 && (v & ((1 << (8 * (4 - count))) - 1))))
            return tn_fail(err, TN_E_INVALID, "not base64 at character %zu", i);
        for (int shift = 16; shift >= 0 && left > 0; shift -= 8, left--)
            *to++ = (char)(v >> shift & 255);
    }
    tn_buf_grew(out, length);
    return 0;
}
