/* A build context as gzip in base64, made while it is read. */
#include <zlib.h>

#include "base/base64.h"
#include "base/guard.h"
#include "image/context.h"

/* Multiples of 3: base64 of a piece needs no padding unless it is the last. */
#define PLAIN (48u << 10)

struct tn_packed {
    struct tn_context *source;
    z_stream z;
    unsigned char in[32 << 10];
    unsigned char plain[PLAIN]; /* compressed, not yet encoded */
    size_t plain_len;
    struct tn_buf text;
    size_t sent; /* of it */
    bool in_ended, ended;
};

struct tn_packed *tn_packed_new(struct tn_context *source)
{
    struct tn_packed *p = tn_calloc(1, sizeof *p);

    p->source = source;
    tn_buf_init(&p->text, tn_base64_length(PLAIN) + 1);
    if (deflateInit2(&p->z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY))
        abort(); /* no memory, or a zlib of another version */
    return p;
}

void tn_packed_free(struct tn_packed *p)
{
    if (!p)
        return;
    deflateEnd(&p->z);
    tn_buf_done(&p->text);
    free(p);
}

/* Compresses until there is a whole piece, or nothing more to come. */
static int fill(struct tn_packed *p, struct tn_error *err)
{
    while (p->plain_len < PLAIN && !p->ended) {
        if (p->z.avail_in == 0 && !p->in_ended) {
            ssize_t n = tn_context_read(p->in, sizeof p->in, p->source, err);
            if (n < 0)
                return -1;
            p->in_ended = n == 0;
            p->z.next_in = p->in;
            p->z.avail_in = (uInt)n;
        }
        p->z.next_out = p->plain + p->plain_len;
        p->z.avail_out = (uInt)(PLAIN - p->plain_len);
        p->ended = deflate(&p->z, p->in_ended ? Z_FINISH : Z_NO_FLUSH) == Z_STREAM_END;
        p->plain_len = PLAIN - p->z.avail_out;
    }
    return 0;
}

ssize_t tn_packed_read(void *to, size_t n, void *ctx, struct tn_error *err)
{
    struct tn_packed *p = ctx;

    if (p->sent == p->text.len) {
        if (fill(p, err))
            return -1;
        tn_buf_reset(&p->text);
        tn_base64_encode(&p->text, p->plain, p->plain_len);
        p->plain_len = p->sent = 0;
    }
    size_t take = p->text.len - p->sent < n ? p->text.len - p->sent : n;
    memcpy(to, tn_buf_str(&p->text) + p->sent, take);
    p->sent += take;
    return (ssize_t)take;
}
