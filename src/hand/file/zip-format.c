#include "hand/file/zip-format.h"

#include "base/utc.h"
#include "base/utf8.h"

#define MAX16 0xffffu
#define MAX32 0xffffffffu

enum {
    LOCAL = 30,
    DESCRIPTOR = 16,
    DESCRIPTOR_WIDE = 24,
    CENTRAL = 46,
    END = 22,
    END_WIDE = 56 + 20,
    EXTRA_HEAD = 4,
};

enum {
    NEEDS_PLAIN = 20,
    NEEDS_WIDE = 45,
    MADE_BY_UNIX = 3 << 8 | NEEDS_WIDE,
    FLAG_DESCRIPTOR = 1 << 3,
    FLAG_UTF8 = 1 << 11,
};

static bool wide_size(const struct zip_entry *e)
{
    return e->size >= MAX32;
}

static bool wide_offset(const struct zip_entry *e)
{
    return e->offset >= MAX32;
}

static size_t central_extra(const struct zip_entry *e)
{
    size_t n = (wide_size(e) ? 16 : 0) + (wide_offset(e) ? 8 : 0);
    return n ? EXTRA_HEAD + n : 0;
}

size_t zip_local_length(const struct zip_entry *e)
{
    return LOCAL + e->name_len + (wide_size(e) ? EXTRA_HEAD + 16 : 0);
}

size_t zip_descriptor_length(const struct zip_entry *e)
{
    return wide_size(e) ? DESCRIPTOR_WIDE : DESCRIPTOR;
}

size_t zip_central_length(const struct zip_entry *e)
{
    return CENTRAL + e->name_len + central_extra(e);
}

size_t zip_end_length(uint64_t entries, uint64_t data, uint64_t central)
{
    return entries >= MAX16 || data + central >= MAX32 ? END_WIDE + END : END;
}

static void put(struct tn_buf *out, uint64_t value, size_t bytes)
{
    for (; bytes > 0; bytes--, value >>= 8)
        tn_buf_putc(out, (char)(value & 0xff));
}

/* MS-DOS date and time, in UTC; the range is 1980 to 2107. */
static uint32_t dos_time(int64_t seconds)
{
    struct tm tm;

    tn_utc(seconds, &tm);
    if (tm.tm_year < 80)
        return 1 << 21 | 1 << 16;
    if (tm.tm_year > 207)
        return 127u << 25 | 12 << 21 | 31 << 16 | 23 << 11 | 59 << 5 | 29;
    return (uint32_t)(tm.tm_year - 80) << 25 | (uint32_t)(tm.tm_mon + 1) << 21 |
           (uint32_t)tm.tm_mday << 16 | (uint32_t)tm.tm_hour << 11 | (uint32_t)tm.tm_min << 5 |
           (uint32_t)tm.tm_sec / 2;
}

/* What local and central header share, from "version needed" to the date. */
static void put_common(struct tn_buf *out, const struct zip_entry *e, bool wide)
{
    bool utf8 = tn_utf8_valid(e->name, e->name_len);
    put(out, wide ? NEEDS_WIDE : NEEDS_PLAIN, 2);
    put(out, FLAG_DESCRIPTOR | (utf8 ? FLAG_UTF8 : 0), 2);
    put(out, 0, 2); /* stored */
    put(out, dos_time(e->mtime), 4);
}

void zip_put_local(struct tn_buf *out, const struct zip_entry *e)
{
    bool wide = wide_size(e);

    put(out, 0x04034b50, 4);
    put_common(out, e, wide);
    put(out, 0, 4); /* checksum and sizes: see the descriptor */
    put(out, wide ? MAX32 : 0, 4);
    put(out, wide ? MAX32 : 0, 4);
    put(out, e->name_len, 2);
    put(out, wide ? EXTRA_HEAD + 16 : 0, 2);
    tn_buf_add(out, e->name, e->name_len);
    if (wide) {
        put(out, 1, 2);
        put(out, 16, 2);
        put(out, 0, 8);
        put(out, 0, 8);
    }
}

void zip_put_descriptor(struct tn_buf *out, const struct zip_entry *e)
{
    size_t bytes = wide_size(e) ? 8 : 4;

    put(out, 0x08074b50, 4);
    put(out, e->crc, 4);
    put(out, e->sent, bytes);
    put(out, e->sent, bytes);
}

void zip_put_central(struct tn_buf *out, const struct zip_entry *e)
{
    size_t extra = central_extra(e);

    put(out, 0x02014b50, 4);
    put(out, MADE_BY_UNIX, 2);
    put_common(out, e, extra > 0);
    put(out, e->crc, 4);
    put(out, wide_size(e) ? MAX32 : e->sent, 4);
    put(out, wide_size(e) ? MAX32 : e->sent, 4);
    put(out, e->name_len, 2);
    put(out, extra, 2);
    put(out, 0, 2); /* comment */
    put(out, 0, 2); /* disk */
    put(out, 0, 2); /* internal attributes */
    put(out, (uint64_t)e->mode << 16, 4);
    put(out, wide_offset(e) ? MAX32 : e->offset, 4);
    tn_buf_add(out, e->name, e->name_len);
    if (extra) {
        put(out, 1, 2);
        put(out, extra - EXTRA_HEAD, 2);
    }
    if (wide_size(e)) {
        put(out, e->sent, 8);
        put(out, e->sent, 8);
    }
    if (wide_offset(e))
        put(out, e->offset, 8);
}

void zip_put_end(struct tn_buf *out, const struct zip_end *end)
{
    if (end->wide) {
        put(out, 0x06064b50, 4);
        put(out, 56 - 12, 8);
        put(out, MADE_BY_UNIX, 2);
        put(out, NEEDS_WIDE, 2);
        put(out, 0, 4);
        put(out, 0, 4);
        put(out, end->entries, 8);
        put(out, end->entries, 8);
        put(out, end->central, 8);
        put(out, end->central_offset, 8);
        put(out, 0x07064b50, 4);
        put(out, 0, 4);
        put(out, end->central_offset + end->central, 8);
        put(out, 1, 4);
    }
    put(out, 0x06054b50, 4);
    put(out, 0, 4); /* disks */
    put(out, end->wide ? MAX16 : end->entries, 2);
    put(out, end->wide ? MAX16 : end->entries, 2);
    put(out, end->wide ? MAX32 : end->central, 4);
    put(out, end->wide ? MAX32 : end->central_offset, 4);
    put(out, 0, 2); /* comment */
}
