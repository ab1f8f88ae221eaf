/* How far the body of a message of HTTP goes. */
#ifndef TN_GATE_BODY_H
#define TN_GATE_BODY_H

#include "net/http-parse.h"

struct body {
    bool chunked;
    int64_t left; /* of one that has a length */
    struct tn_http_chunked chunks;
};

#define BODY_ENDLESS INT64_MAX /* until the connection is closed */

static inline struct body body_of(bool chunked, int64_t length)
{
    return (struct body){.chunked = chunked, .left = chunked || length < 0 ? 0 : length};
}

static inline bool body_ended(const struct body *b)
{
    return b->chunked ? b->chunks.state == TN_CHUNK_END : b->left == 0;
}

/* How many of the n bytes are framing; *data: how many bytes of data follow these, whether they
 * have come already or not.  The caller sees to both, and calls again behind them.  -1: no framing.
 */
static inline ssize_t body_next(struct body *b, const char *bytes, size_t n, int64_t *data)
{
    ssize_t framing = b->chunked ? tn_http_unchunk(&b->chunks, bytes, n) : 0;
    int64_t *left = b->chunked ? &b->chunks.left : &b->left;

    *data = !b->chunked || b->chunks.state == TN_CHUNK_DATA ? *left : 0;
    *left -= *data;
    return framing;
}

#endif
