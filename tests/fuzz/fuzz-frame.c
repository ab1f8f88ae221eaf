/* Frames: the same stream in one piece and byte by byte must tell the same. */
#include <assert.h>
#include <stdint.h>

#include "net/frame.h"

enum { MAX_FRAME = 200, MAX_STORY = 1 << 20 };

static int note(char kind, const unsigned char *bytes, size_t n, void *ctx)
{
    assert(n <= MAX_FRAME);
    tn_buf_printf(ctx, "[%c|", kind);
    tn_buf_add(ctx, bytes, n);
    tn_buf_putc(ctx, ']');
    return 0;
}

static int read_in(const uint8_t *data, size_t size, size_t piece, struct tn_buf *story)
{
    struct tn_frame_reader r;
    struct tn_error err;
    int result = 0;

    tn_frame_reader_init(&r, MAX_FRAME);
    for (size_t at = 0; at < size && result == 0; at += piece) {
        size_t n = size - at < piece ? size - at : piece;
        result = tn_frame_read(&r, data + at, n, note, story, &err);
    }
    tn_frame_reader_done(&r);
    return result;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tn_autobuf struct tn_buf whole = TN_BUF_INIT(MAX_STORY), bytes = TN_BUF_INIT(MAX_STORY);

    int once = read_in(data, size, size ? size : 1, &whole);
    int slowly = read_in(data, size, 1, &bytes);
    assert(once == slowly);
    assert(whole.len == bytes.len &&
           memcmp(tn_buf_str(&whole), tn_buf_str(&bytes), whole.len) == 0);
    return 0;
}
