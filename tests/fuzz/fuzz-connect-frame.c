/* Envelopes: each lies within what was given, and put again it is the same. */
#include <assert.h>
#include <stdint.h>

#include "net/connect-frame.h"

enum { MOST = 1000 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *at = (const char *)data;
    struct tn_error err = {0};
    struct tn_frame f;
    int64_t n;

    while ((n = tn_frame_take(at, size, MOST, &f, &err)) > 0) {
        tn_autobuf struct tn_buf again = TN_BUF_INIT(MOST + TN_FRAME_HEAD);
        assert((size_t)n <= size && f.n <= MOST && f.bytes == at + TN_FRAME_HEAD);
        assert(tn_frame_put(&again, f.flags, f.bytes, f.n) == 0);
        assert(again.len == (size_t)n && memcmp(again.data, at, again.len) == 0);
        at += n;
        size -= (size_t)n;
    }
    assert(n == 0 || err.code == TN_E_TOO_LARGE || err.code == TN_E_UNSUPPORTED);
    return 0;
}
