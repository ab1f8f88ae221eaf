#include "net/websocket-frame.h"

#include <stdint.h>

static uint64_t big_endian(const unsigned char *bytes, int n)
{
    uint64_t v = 0;

    for (int i = 0; i < n; i++)
        v = v << 8 | bytes[i];
    return v;
}

static bool is_control(int opcode)
{
    return opcode >= 8;
}

static bool opcode_known(int opcode)
{
    return opcode <= TN_WS_BINARY || (opcode >= TN_WS_CLOSE && opcode <= TN_WS_PONG);
}

int tn_ws_parse(const unsigned char *bytes, size_t n, bool expect_mask, size_t max,
                struct tn_ws_frame *f)
{
    if (n < 2)
        return 0;
    int short_length = bytes[1] & 127;
    int extended = short_length == 126 ? 2 : short_length == 127 ? 8 : 0;
    *f = (struct tn_ws_frame){
        .fin = bytes[0] & 0x80,
        .opcode = bytes[0] & 15,
        .masked = bytes[1] & 0x80,
        .header = 2 + (size_t)extended + (bytes[1] & 0x80 ? 4 : 0),
    };
    if (bytes[0] & 0x70 || !opcode_known(f->opcode) || f->masked != expect_mask ||
        (is_control(f->opcode) && (!f->fin || extended)))
        return -1;
    if (n < f->header)
        return 0;

    uint64_t length = extended ? big_endian(bytes + 2, extended) : (uint64_t)short_length;
    /* The shortest form is the only form, and the top bit is reserved. */
    if ((extended == 2 && length < 126) || (extended == 8 && (length < 65536 || length >> 63)))
        return -1;
    if (!is_control(f->opcode) && length > max)
        return -2;
    f->length = (size_t)length;
    if (f->masked)
        memcpy(f->mask, bytes + f->header - 4, 4);
    return n - f->header >= f->length;
}

size_t ws_frame_header(unsigned char out[WS_HEADER_MAX], int opcode, size_t n,
                       const unsigned char mask[4])
{
    int extended = n < 126 ? 0 : n < 65536 ? 2 : 8;
    size_t at = 2;

    out[0] = (unsigned char)(0x80 | opcode);
    out[1] = (unsigned char)((mask ? 0x80 : 0) | (extended == 0   ? (int)n
                                                  : extended == 2 ? 126
                                                                  : 127));
    for (int i = extended - 1; i >= 0; i--)
        out[at++] = (unsigned char)((uint64_t)n >> (8 * i));
    if (mask) {
        memcpy(out + at, mask, 4);
        at += 4;
    }
    return at;
}

void ws_mask(char *bytes, size_t n, const unsigned char mask[4])
{
    uint32_t four;
    size_t i = 0;

    memcpy(&four, mask, 4);
    uint64_t eight = (uint64_t)four << 32 | four;
    for (; n - i >= 8; i += 8) {
        uint64_t v;
        memcpy(&v, bytes + i, 8);
        v ^= eight;
        memcpy(bytes + i, &v, 8);
    }
    for (; i < n; i++)
        bytes[i] = (char)(bytes[i] ^ mask[i % 4]);
}

bool ws_close_code_valid(int code)
{
    return (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) ||
           (code >= 3000 && code <= 4999);
}
