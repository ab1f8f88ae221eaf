#include "net/frame.h"

static void put(unsigned char *out, size_t n, uint64_t value)
{
    for (size_t i = n; i-- > 0; value >>= 8)
        out[i] = (unsigned char)(value & 0xff);
}

static uint64_t get(const unsigned char *in, size_t n)
{
    uint64_t value = 0;

    for (size_t i = 0; i < n; i++)
        value = value << 8 | in[i];
    return value;
}

void tn_frame_head(unsigned char out[TN_FRAME_HEAD], char kind, uint32_t n)
{
    out[0] = (unsigned char)kind;
    put(out + 1, 4, n);
}

void tn_frame_put_number(unsigned char out[8], uint64_t value)
{
    put(out, 8, value);
}

uint64_t tn_frame_number(const unsigned char in[8])
{
    return get(in, 8);
}

/* --- reading --------------------------------------------------------------------------------- */

void tn_frame_reader_init(struct tn_frame_reader *r, size_t max)
{
    r->max = max;
    tn_buf_init(&r->held, TN_FRAME_HEAD + max);
}

void tn_frame_reader_done(struct tn_frame_reader *r)
{
    tn_buf_done(&r->held);
}

void tn_frame_reader_reset(struct tn_frame_reader *r)
{
    tn_buf_reset(&r->held);
}

/* How many bytes the frame that begins here has in all, as far as that can be told: its head while
 * that is not complete.  0: too many. */
static size_t frame_size(const struct tn_frame_reader *r, const unsigned char *bytes, size_t n)
{
    if (n < TN_FRAME_HEAD)
        return TN_FRAME_HEAD;
    uint64_t length = get(bytes + 1, 4);
    return length > r->max ? 0 : TN_FRAME_HEAD + (size_t)length;
}

int tn_frame_read(struct tn_frame_reader *r, const void *bytes, size_t n, tn_frame_fn fn, void *ctx,
                  struct tn_error *err)
{
    const char *at = bytes;

    for (;;) {
        const unsigned char *frame = (const unsigned char *)tn_buf_str(&r->held);
        size_t size = frame_size(r, frame, r->held.len);
        if (!size)
            return tn_fail(err, TN_E_PEER, "a frame of the stream is larger than %zu bytes",
                           r->max);
        if (r->held.len >= TN_FRAME_HEAD && r->held.len == size) {
            int stop = fn((char)frame[0], frame + TN_FRAME_HEAD, size - TN_FRAME_HEAD, ctx);
            tn_buf_reset(&r->held);
            if (stop)
                return stop;
            continue;
        }
        if (!n)
            return 0;
        size_t part = size - r->held.len < n ? size - r->held.len : n;
        if (tn_buf_add(&r->held, at, part))
            return tn_fail(err, TN_E_BUSY, "no memory for a frame of the stream");
        at += part;
        n -= part;
    }
}
