#include "hand/file/encoding.h"

#include <stdint.h>

#include "base/utf8.h"

struct row {
    const char *name;
    struct tn_slice mark;
    bool big_endian;
};

static const struct row rows[] = {
    [ENCODING_UTF8] = {.name = "utf-8"},
    [ENCODING_UTF8_BOM] = {.name = "utf-8-sig", .mark = {"\xef\xbb\xbf", 3}},
    [ENCODING_UTF16LE] = {.name = "utf-16-le", .mark = {"\xff\xfe", 2}},
    [ENCODING_UTF16BE] = {.name = "utf-16-be", .mark = {"\xfe\xff", 2}, .big_endian = true},
    [ENCODING_WINDOWS_1252] = {.name = "windows-1252"},
};

/* Windows-1252 where it differs from Latin-1; 0 means the C1 control of the same number. */
static const uint16_t high[32] = {
    0x20ac, 0,      0x201a, 0x0192, 0x201e, 0x2026, 0x2020, 0x2021, 0x02c6, 0x2030, 0x0160,
    0x2039, 0x0152, 0,      0x017d, 0,      0,      0x2018, 0x2019, 0x201c, 0x201d, 0x2022,
    0x2013, 0x2014, 0x02dc, 0x2122, 0x0161, 0x203a, 0x0153, 0,      0x017e, 0x0178,
};

const char *encoding_name(enum encoding e)
{
    return rows[e].name;
}

static bool has_mark(struct tn_slice bytes, enum encoding e)
{
    struct tn_slice mark = rows[e].mark;
    return bytes.n >= mark.n && memcmp(bytes.s, mark.s, mark.n) == 0;
}

enum encoding encoding_detect(struct tn_slice bytes)
{
    if (bytes.n == 0)
        return ENCODING_UTF8;
    if (has_mark(bytes, ENCODING_UTF16LE))
        return ENCODING_UTF16LE;
    if (has_mark(bytes, ENCODING_UTF16BE))
        return ENCODING_UTF16BE;
    if (!tn_utf8_valid(bytes.s, bytes.n))
        return ENCODING_WINDOWS_1252;
    return has_mark(bytes, ENCODING_UTF8_BOM) ? ENCODING_UTF8_BOM : ENCODING_UTF8;
}

static int add_cp(struct tn_buf *out, uint32_t cp)
{
    char utf8[4];
    return tn_buf_add(out, utf8, tn_utf8_encode(cp, utf8));
}

static uint32_t unit_at(const char *s, bool big_endian)
{
    uint32_t a = (unsigned char)s[0], b = (unsigned char)s[1];
    return big_endian ? a << 8 | b : b << 8 | a;
}

static int decode_utf16(struct tn_slice in, bool big_endian, struct tn_buf *out,
                        struct tn_error *err)
{
    size_t i = 0;

    while (i + 2 <= in.n) {
        uint32_t cp = unit_at(in.s + i, big_endian);
        i += 2;
        if (cp >= 0xd800 && cp <= 0xdbff && i + 2 <= in.n) {
            uint32_t low = unit_at(in.s + i, big_endian);
            if (low >= 0xdc00 && low <= 0xdfff) {
                cp = 0x10000 + ((cp - 0xd800) << 10) + (low - 0xdc00);
                i += 2;
            }
        }
        if (cp >= 0xd800 && cp <= 0xdfff)
            return tn_fail(err, TN_E_INVALID, "utf-16: half of a surrogate pair at byte %zu", i);
        if (add_cp(out, cp))
            return tn_fail(err, TN_E_TOO_LARGE, "the text is too large");
    }
    if (i != in.n)
        return tn_fail(err, TN_E_INVALID, "utf-16: truncated data, %zu bytes is odd", in.n);
    return 0;
}

static int decode_1252(struct tn_slice in, struct tn_buf *out, struct tn_error *err)
{
    for (size_t i = 0; i < in.n; i++) {
        unsigned char c = (unsigned char)in.s[i];
        uint32_t cp = c >= 0x80 && c < 0xa0 && high[c - 0x80] ? high[c - 0x80] : c;
        if (add_cp(out, cp))
            return tn_fail(err, TN_E_TOO_LARGE, "the text is too large");
    }
    return 0;
}

int encoding_decode(enum encoding e, struct tn_slice bytes, struct tn_buf *room,
                    struct tn_slice *text, struct tn_error *err)
{
    const struct row *row = &rows[e];
    struct tn_slice in = {.s = bytes.s + row->mark.n, .n = bytes.n - row->mark.n};
    int r = 0;

    if (e == ENCODING_UTF8 || e == ENCODING_UTF8_BOM) {
        *text = in;
        return 0;
    }
    tn_buf_reset(room);
    if (e == ENCODING_WINDOWS_1252)
        r = decode_1252(in, room, err);
    else
        r = decode_utf16(in, row->big_endian, room, err);
    *text = tn_slice_of(room);
    return r;
}

static int encode_unit(struct tn_buf *out, uint32_t unit, bool big_endian)
{
    char a = (char)(unit >> 8), b = (char)unit;
    char two[2] = {big_endian ? a : b, big_endian ? b : a};
    return tn_buf_add(out, two, 2);
}

static int encode_utf16(struct tn_buf *out, uint32_t cp, bool big_endian)
{
    if (cp < 0x10000)
        return encode_unit(out, cp, big_endian);
    cp -= 0x10000;
    return encode_unit(out, 0xd800 + (cp >> 10), big_endian) ||
                   encode_unit(out, 0xdc00 + (cp & 0x3ff), big_endian)
               ? -1
               : 0;
}

/* The byte for cp, or -1. */
static int byte_1252(uint32_t cp)
{
    for (int i = 0; i < 32; i++)
        if (high[i] ? high[i] == cp : cp == 0x80u + (unsigned)i)
            return 0x80 + i;
    return cp < 0x80 || (cp >= 0xa0 && cp <= 0xff) ? (int)cp : -1;
}

int encoding_encode(enum encoding e, struct tn_slice text, struct tn_buf *room,
                    struct tn_slice *bytes, struct tn_error *err)
{
    const struct row *row = &rows[e];

    if (e == ENCODING_UTF8) {
        *bytes = text;
        return 0;
    }
    tn_buf_reset(room);
    tn_buf_add(room, row->mark.s, row->mark.n);
    if (e == ENCODING_UTF8_BOM)
        tn_buf_add(room, text.s, text.n);
    for (size_t i = 0; e != ENCODING_UTF8_BOM && i < text.n;) {
        uint32_t cp;
        size_t len = tn_utf8_decode(text.s + i, text.n - i, &cp);
        if (len == 0)
            return tn_fail(err, TN_E_INVALID, "the new text is not valid utf-8");
        if (e != ENCODING_WINDOWS_1252) {
            encode_utf16(room, cp, row->big_endian);
        } else {
            int byte = byte_1252(cp);
            if (byte < 0)
                return tn_fail(err, TN_E_INVALID,
                               "'%s' codec can't encode character U+%04X: the file is not Unicode",
                               row->name, (unsigned)cp);
            tn_buf_putc(room, (char)byte);
        }
        i += len;
    }
    if (!tn_buf_ok(room))
        return tn_fail(err, TN_E_TOO_LARGE, "the text is too large");
    *bytes = tn_slice_of(room);
    return 0;
}
