#include "hand/file/zip-stream.h"

#include <limits.h>

void zip_stream_start(struct zip_stream *s, const struct zip_input *in,
                      const struct zip_contents *contents)
{
    s->in = in;
    s->left = *contents;
    s->crc = 0;
    if (!s->has_z)
        s->has_z = inflateInit2(&s->z, -MAX_WBITS) == Z_OK;
    else
        inflateReset(&s->z);
    s->z.avail_in = 0;
}

void zip_stream_done(struct zip_stream *s)
{
    if (s->has_z)
        inflateEnd(&s->z);
    s->has_z = false;
}

/* The next packed bytes: count, or -1. */
static ssize_t fetch(struct zip_stream *s, void *to, size_t n)
{
    if (n > s->left.packed)
        n = (size_t)s->left.packed;
    if (zip_input_pread(s->in, to, n, s->left.at))
        return -1;
    s->left.at += n;
    s->left.packed -= n;
    return (ssize_t)n;
}

static ssize_t read_deflated(struct zip_stream *s, void *to, size_t n, bool *ended)
{
    s->z.next_out = to;
    s->z.avail_out = (uInt)n;
    *ended = false;
    while (s->z.avail_out > 0 && !*ended) {
        if (s->z.avail_in == 0) {
            ssize_t got = fetch(s, s->packed, sizeof s->packed);
            if (got < 0)
                return -1;
            s->z.next_in = s->packed;
            s->z.avail_in = (uInt)got;
        }
        uInt in_before = s->z.avail_in, out_before = s->z.avail_out;
        int r = inflate(&s->z, Z_NO_FLUSH);
        *ended = r == Z_STREAM_END;
        if (r != Z_OK && r != Z_STREAM_END && r != Z_BUF_ERROR)
            return -1;
        if (!*ended && s->z.avail_in == in_before && s->z.avail_out == out_before)
            break; /* there is nothing more to feed it with */
    }
    return (ssize_t)(n - s->z.avail_out);
}

/* The size has been reached: is that also where the data ends? */
static const char *fault_at_end(struct zip_stream *s)
{
    char more;
    bool ended;

    if (s->left.method == ZIP_DEFLATED && (read_deflated(s, &more, 1, &ended) != 0 || !ended))
        return "an entry unpacks to more than it says";
    if (s->left.packed > 0 || s->z.avail_in > 0)
        return "an entry has more data than it needs";
    return s->crc == s->left.crc ? NULL : "a checksum is wrong";
}

ssize_t zip_stream_read(struct zip_stream *s, void *to, size_t n, const char **fault)
{
    bool ended;

    if (!s->has_z) {
        *fault = "no memory to unpack it";
        return -1;
    }
    if (s->left.size == 0) {
        *fault = fault_at_end(s);
        return *fault ? -1 : 0;
    }
    if (n > s->left.size)
        n = (size_t)s->left.size;
    if (n > INT_MAX)
        n = INT_MAX;
    ssize_t got =
        s->left.method == ZIP_DEFLATED ? read_deflated(s, to, n, &ended) : fetch(s, to, n);
    if (got <= 0) {
        *fault = "an entry cannot be unpacked";
        return -1;
    }
    s->crc = (uint32_t)crc32(s->crc, to, (uInt)got);
    s->left.size -= (uint64_t)got;
    return got;
}
