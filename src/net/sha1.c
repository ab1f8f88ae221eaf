/* FIPS 180-4, over a message that is whole in memory. */
#include "net/sha1.h"

#include <stdint.h>
#include <string.h>

enum { BLOCK = 64 };

static uint32_t rotate(uint32_t v, unsigned by)
{
    return v << by | v >> (32 - by);
}

static void mix(uint32_t h[5], const unsigned char *block)
{
    uint32_t w[80];

    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
               (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    for (int i = 16; i < 80; i++)
        w[i] = rotate(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);

    uint32_t a = h[0], b = h[1], c = h[2], d = h[3], e = h[4];
    for (int i = 0; i < 80; i++) {
        uint32_t f = i < 20   ? ((b & c) | (~b & d)) + 0x5a827999
                     : i < 40 ? (b ^ c ^ d) + 0x6ed9eba1
                     : i < 60 ? ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc
                              : (b ^ c ^ d) + 0xca62c1d6;
        uint32_t next = rotate(a, 5) + f + e + w[i];
        e = d;
        d = c;
        c = rotate(b, 30);
        b = a;
        a = next;
    }
    h[0] += a;
    h[1] += b;
    h[2] += c;
    h[3] += d;
    h[4] += e;
}

void net_sha1(const void *bytes, size_t n, unsigned char digest[NET_SHA1_BYTES])
{
    uint32_t h[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
    unsigned char tail[2 * BLOCK] = {0};
    const unsigned char *from = bytes;
    uint64_t bits = (uint64_t)n * 8;

    for (; n >= BLOCK; n -= BLOCK, from += BLOCK)
        mix(h, from);
    memcpy(tail, from, n);
    tail[n] = 0x80;
    size_t end = n + 9 <= BLOCK ? BLOCK : 2 * BLOCK;
    for (size_t i = 0; i < 8; i++)
        tail[end - 1 - i] = (unsigned char)(bits >> (8 * i));
    for (size_t at = 0; at < end; at += BLOCK)
        mix(h, tail + at);
    for (int i = 0; i < NET_SHA1_BYTES; i++)
        digest[i] = (unsigned char)(h[i / 4] >> (24 - 8 * (i % 4)));
}
