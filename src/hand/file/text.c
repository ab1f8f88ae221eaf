#include "hand/file/text.h"

#include <stdint.h>

#include "base/utf8.h"

bool text_has_cr(struct tn_slice t)
{
    return t.n > 0 && memchr(t.s, '\r', t.n);
}

enum text_eol text_eol_of(struct tn_slice t)
{
    size_t count[] = {[TEXT_LF] = 0, [TEXT_CRLF] = 0, [TEXT_CR] = 0};

    if (!text_has_cr(t))
        return TEXT_LF;
    for (size_t i = 0; i < t.n; i++) {
        if (t.s[i] == '\n') {
            count[TEXT_LF]++;
        } else if (t.s[i] == '\r') {
            bool crlf = i + 1 < t.n && t.s[i + 1] == '\n';
            count[crlf ? TEXT_CRLF : TEXT_CR]++;
            i += crlf;
        }
    }
    if (count[TEXT_LF] >= count[TEXT_CRLF] && count[TEXT_LF] >= count[TEXT_CR])
        return TEXT_LF;
    return count[TEXT_CRLF] >= count[TEXT_CR] ? TEXT_CRLF : TEXT_CR;
}

const char *text_eol_str(enum text_eol eol)
{
    static const char *const str[] = {[TEXT_LF] = "\n", [TEXT_CRLF] = "\r\n", [TEXT_CR] = "\r"};
    return str[eol];
}

/* Copies runs between line endings whole; each ending becomes `eol`. */
static int add_with(struct tn_buf *out, struct tn_slice t, const char *eol)
{
    size_t run = 0;

    if (t.n == 0)
        return 0;
    for (size_t i = 0; i < t.n;) {
        size_t len = text_eol_length(t.s + i, t.n - i);
        if (len == 0) {
            i++;
            continue;
        }
        if (tn_buf_add(out, t.s + run, i - run) || tn_buf_puts(out, eol))
            return -1;
        i += len;
        run = i;
    }
    return tn_buf_add(out, t.s + run, t.n - run);
}

int text_add_lf(struct tn_buf *out, struct tn_slice t)
{
    return text_has_cr(t) ? add_with(out, t, "\n") : tn_buf_add(out, t.s, t.n);
}

int text_add_eol(struct tn_buf *out, struct tn_slice t, enum text_eol eol)
{
    return eol == TEXT_LF ? tn_buf_add(out, t.s, t.n) : add_with(out, t, text_eol_str(eol));
}

size_t text_offset_before_lf(struct tn_slice t, size_t at)
{
    size_t i = 0;

    for (size_t seen = 0; seen < at && i < t.n; seen++) {
        size_t len = text_eol_length(t.s + i, t.n - i);
        i += len ? len : 1;
    }
    return i;
}

size_t text_line_offset(struct tn_slice t, size_t index)
{
    size_t at = 0;

    while (index > 0 && at < t.n) {
        size_t len = text_eol_length(t.s + at, t.n - at);
        index -= len > 0;
        at += len ? len : 1;
    }
    return at;
}

size_t text_lines(struct tn_slice t)
{
    size_t count = 0, start = 0;

    for (size_t at = 0; at < t.n;) {
        size_t len = text_eol_length(t.s + at, t.n - at);
        at += len ? len : 1;
        if (len) {
            count++;
            start = at;
        }
    }
    return count + (start < t.n);
}

size_t text_count_lf(struct tn_slice t)
{
    size_t count = 0;

    for (size_t at = 0; at < t.n; count++) {
        const char *lf = memchr(t.s + at, '\n', t.n - at);
        if (!lf)
            break;
        at = (size_t)(lf - t.s) + 1;
    }
    return count;
}

size_t text_lines_lf(struct tn_slice t)
{
    return text_count_lf(t) + (t.n > 0 && t.s[t.n - 1] != '\n');
}

/* Where line number `line` (from 1) starts, or the end of the text. */
static size_t line_start(struct tn_slice t, size_t line)
{
    size_t at = 0;

    for (size_t i = 1; i < line && at < t.n; i++) {
        const char *lf = memchr(t.s + at, '\n', t.n - at);
        at = lf ? (size_t)(lf - t.s) + 1 : t.n;
    }
    return at;
}

struct tn_slice text_range_lf(struct tn_slice t, size_t first, size_t last)
{
    size_t from = line_start(t, first);
    struct tn_slice rest = {.s = t.s + from, .n = t.n - from};
    rest.n = last < first ? 0 : line_start(rest, last - first + 2);
    return rest;
}

static bool is_space(uint32_t cp)
{
    return (cp >= 0x09 && cp <= 0x0d) || (cp >= 0x1c && cp <= 0x20) || cp == 0x85 || cp == 0xa0 ||
           cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200a) || cp == 0x2028 || cp == 0x2029 ||
           cp == 0x202f || cp == 0x205f || cp == 0x3000;
}

struct tn_slice text_rstrip(struct tn_slice t)
{
    while (t.n > 0) {
        size_t at = t.n - 1;
        while (at > 0 && t.n - at < 4 && ((unsigned char)t.s[at] & 0xc0) == 0x80)
            at--;
        uint32_t cp;
        if (tn_utf8_decode(t.s + at, t.n - at, &cp) != t.n - at || !is_space(cp))
            break;
        t.n = at;
    }
    return t;
}

struct tn_slice text_strip(struct tn_slice t)
{
    t = text_rstrip(t);
    while (t.n > 0) {
        uint32_t cp;
        size_t len = tn_utf8_decode(t.s, t.n, &cp);
        if (len == 0 || !is_space(cp))
            break;
        t.s += len;
        t.n -= len;
    }
    return t;
}

bool text_equal(struct tn_slice a, struct tn_slice b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.s, b.s, a.n) == 0);
}
