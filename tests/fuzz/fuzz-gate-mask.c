/* Masking: however the bytes are cut, what comes out is the same, as long as what went in, and
 * holds no value. */
#include <stdint.h>
#include <stdlib.h>

#include "gate/mask.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void feed(const struct needle *needles, size_t count, const char *bytes, size_t n,
                 size_t step, struct tn_buf *out)
{
    struct mask m = MASK_INIT;

    for (size_t at = 0; at < n; at += step)
        mask_push(&m, needles, count, bytes + at, n - at < step ? n - at : step, out);
    mask_flush(&m, out);
    mask_done(&m);
}

/* The first byte says how the input is divided: a piece size, two values, and the text. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *bytes = (const char *)data + 1;
    size_t step = size ? data[0] % 7 + 1U : 0, first = size ? data[0] / 7 % 6 + 1U : 0;
    tn_autobuf struct tn_buf whole = TN_BUF_INIT(1 << 20), cut = TN_BUF_INIT(1 << 20);

    if (size < 2 + first + 2 || size > MASK_HELD)
        return 0;
    const struct needle needles[] = {{bytes, first}, {bytes + first, 2}};
    const char *text = bytes + first + 2;
    size_t n = size - 1 - first - 2;
    feed(needles, 2, text, n, n ? n : 1, &whole);
    feed(needles, 2, text, n, step, &cut);
    if (whole.len != n || cut.len != n || (n && memcmp(whole.data, cut.data, n) != 0))
        abort();
    for (size_t i = 0; i < 2; i++)
        if (n && !memchr(needles[i].bytes, '*', needles[i].size) &&
            memmem(whole.data, n, needles[i].bytes, needles[i].size))
            abort();
    return 0;
}
