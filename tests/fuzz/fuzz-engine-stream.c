/* What an engine sends: the first byte chooses frames or lines and the size of the pieces they come
 * in; what is read must not depend on it. */
#include <assert.h>
#include <stdint.h>

#include "engine/stream.h"

static int note_output(int stream, const void *bytes, size_t n, void *ctx)
{
    for (size_t i = 0; i < n; i++) {
        tn_buf_putc(ctx, (char)('0' + stream));
        tn_buf_putc(ctx, ((const char *)bytes)[i]);
    }
    return 0;
}

static int note_object(const struct tn_json *object, void *ctx, struct tn_error *err)
{
    struct tn_jw w = tn_jw(ctx);

    tn_jw_tree(&w, object);
    return tn_json_get(object, "stop") ? 1 : 0;
}

static int read_frames(const char *bytes, size_t n, size_t step, struct tn_buf *out)
{
    struct engine_frames f = {.fn = note_output, .ctx = out};
    int r = 0;

    for (size_t at = 0; at < n && r == 0; at += step)
        r = engine_frames_take(bytes + at, n - at < step ? n - at : step, &f);
    return r;
}

static int read_lines(const char *bytes, size_t n, size_t step, struct tn_buf *out)
{
    struct engine_lines l = {.line = TN_BUF_INIT(1 << 16), .fn = note_object, .ctx = out};
    int r = 0;

    for (size_t at = 0; at < n && r == 0; at += step)
        r = engine_lines_take(bytes + at, n - at < step ? n - at : step, &l);
    if (r == 0)
        r = engine_lines_end(&l);
    tn_buf_done(&l.line);
    return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tn_autobuf struct tn_buf whole = TN_BUF_INIT(1 << 22), pieces = TN_BUF_INIT(1 << 22);

    if (size < 2)
        return 0;
    int (*read_all)(const char *, size_t, size_t, struct tn_buf *) =
        data[0] & 1 ? read_lines : read_frames;
    size_t step = (size_t)(data[0] >> 1) + 1;
    const char *bytes = (const char *)data + 1;
    int a = read_all(bytes, size - 1, size, &whole);
    int b = read_all(bytes, size - 1, step, &pieces);
    assert(a == b);
    assert(whole.len == pieces.len &&
           memcmp(tn_buf_str(&whole), tn_buf_str(&pieces), whole.len) == 0);
    return 0;
}
