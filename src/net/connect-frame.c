#include "net/connect-frame.h"

int64_t tn_frame_take(const char *bytes, size_t n, size_t max, struct tn_frame *out,
                      struct tn_error *err)
{
    const unsigned char *b = (const unsigned char *)bytes;

    if (n < TN_FRAME_HEAD)
        return 0;
    size_t length = (size_t)b[1] << 24 | (size_t)b[2] << 16 | (size_t)b[3] << 8 | b[4];
    if (length > max)
        return tn_fail(err, TN_E_TOO_LARGE, "a message of %zu bytes: %zu at most", length, max);
    if (b[0] & TN_FRAME_COMPRESSED)
        return tn_fail(err, TN_E_UNSUPPORTED, "compressed messages are not taken");
    if (n - TN_FRAME_HEAD < length)
        return 0;
    *out = (struct tn_frame){.flags = b[0], .bytes = bytes + TN_FRAME_HEAD, .n = length};
    return (int64_t)(TN_FRAME_HEAD + length);
}

int tn_frame_put(struct tn_buf *out, unsigned flags, const void *bytes, size_t n)
{
    const unsigned char head[TN_FRAME_HEAD] = {
        (unsigned char)flags,
        (unsigned char)(n >> 24),
        (unsigned char)(n >> 16),
        (unsigned char)(n >> 8),
        (unsigned char)n,
    };

    if (n > UINT32_MAX || tn_buf_add(out, head, sizeof head) < 0)
        return -1;
    return tn_buf_add(out, bytes, n);
}
