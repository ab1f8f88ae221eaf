/* The framing of chunked bodies, byte by byte; data is never touched here. */
#include "base/buf.h"
#include "base/hex.h"
#include "net/http-parse.h"

enum {
    MAX_SIZE_DIGITS = 15, /* sizes stay below 2^60 */
    MAX_EXTENSION = 1024,
    MAX_TRAILERS = 8192,
};

static bool is_text(char c)
{
    return tn_http_is_value(&c, 1);
}

/* A byte of the size line before its CR. */
static bool take_size(struct tn_http_chunked *c, char byte)
{
    int digit = tn_hex_digit(byte);

    if (digit >= 0) {
        if (++c->digits > MAX_SIZE_DIGITS)
            return false;
        c->left = c->left << 4 | digit;
        return true;
    }
    if (c->digits == 0)
        return false;
    if (byte == '\r') {
        c->state = TN_CHUNK_SIZE_LF;
        return true;
    }
    c->state = TN_CHUNK_EXTENSION;
    c->extra = 0;
    return byte == ';';
}

/* A byte of something that is skipped up to its CR. */
static bool skip_text(struct tn_http_chunked *c, char byte, unsigned max,
                      enum tn_http_chunk_state after)
{
    if (byte == '\r') {
        c->state = after;
        return true;
    }
    return is_text(byte) && ++c->extra <= max;
}

static bool expect(struct tn_http_chunked *c, char byte, char wanted,
                   enum tn_http_chunk_state after)
{
    c->state = after;
    return byte == wanted;
}

static bool take(struct tn_http_chunked *c, char byte)
{
    if (c->trailers && c->state >= TN_CHUNK_TRAILER_START && c->state <= TN_CHUNK_TRAILER_LF)
        tn_buf_putc(c->trailers, byte);
    switch (c->state) {
    case TN_CHUNK_SIZE:
        return take_size(c, byte);
    case TN_CHUNK_EXTENSION:
        return skip_text(c, byte, MAX_EXTENSION, TN_CHUNK_SIZE_LF);
    case TN_CHUNK_SIZE_LF:
        c->extra = 0;
        return expect(c, byte, '\n', c->left ? TN_CHUNK_DATA : TN_CHUNK_TRAILER_START);
    case TN_CHUNK_DATA:
        return expect(c, byte, '\r', TN_CHUNK_DATA_LF);
    case TN_CHUNK_DATA_LF:
        c->digits = 0;
        return expect(c, byte, '\n', TN_CHUNK_SIZE);
    case TN_CHUNK_TRAILER_START:
        c->state = TN_CHUNK_TRAILER;
        return skip_text(c, byte, MAX_TRAILERS, TN_CHUNK_LAST_LF);
    case TN_CHUNK_TRAILER:
        return skip_text(c, byte, MAX_TRAILERS, TN_CHUNK_TRAILER_LF);
    case TN_CHUNK_TRAILER_LF:
        return expect(c, byte, '\n', TN_CHUNK_TRAILER_START);
    case TN_CHUNK_LAST_LF:
        return expect(c, byte, '\n', TN_CHUNK_END);
    case TN_CHUNK_END:
        break;
    }
    return false;
}

ssize_t tn_http_unchunk(struct tn_http_chunked *c, const char *bytes, size_t n)
{
    size_t i = 0;

    while (i < n && c->state != TN_CHUNK_END && (c->state != TN_CHUNK_DATA || c->left == 0))
        if (!take(c, bytes[i++]))
            return -1;
    return (ssize_t)i;
}
