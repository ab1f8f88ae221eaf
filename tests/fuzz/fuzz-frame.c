/* Frames, cut in two at a place that the first byte chooses: none is larger than the limit, and their
 * heads made again are those that came. */
#include <assert.h>
#include <stdint.h>

#include "net/frame.h"

enum { MOST = 1000 };

struct story {
    const uint8_t *at;
    size_t left;
};

static int check(char kind, const unsigned char *bytes, size_t n, void *ctx)
{
    struct story *s = ctx;
    unsigned char head[TN_FRAME_HEAD];

    assert(n <= MOST && n + TN_FRAME_HEAD <= s->left);
    tn_frame_head(head, kind, (uint32_t)n);
    assert(memcmp(head, s->at, sizeof head) == 0 && memcmp(bytes, s->at + sizeof head, n) == 0);
    s->at += sizeof head + n;
    s->left -= sizeof head + n;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t cut = size ? data[0] % size : 0;
    struct story s = {.at = data, .left = size};
    struct tn_frame_reader r;
    struct tn_error err = {0};

    tn_frame_reader_init(&r, MOST);
    int result = tn_frame_read(&r, data, cut, check, &s, &err);
    if (result == 0)
        result = tn_frame_read(&r, data + cut, size - cut, check, &s, &err);
    assert(result == 0 ? r.held.len == s.left : err.code == TN_E_PEER);
    tn_frame_reader_done(&r);
    return 0;
}
