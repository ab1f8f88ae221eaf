#include "base/sha256.h"

#include <stdio.h>
#include <string.h>

static const uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate(uint32_t x, int n)
{
    return x >> n | x << (32 - n);
}

static void take_block(uint32_t state[8], const unsigned char *block)
{
    uint32_t w[64], v[8];

    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
               (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) + w[i - 7] +
               (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
    }
    memcpy(v, state, sizeof v);
    for (int i = 0; i < 64; i++) {
        uint32_t e = v[4], a = v[0];
        uint32_t t1 = v[7] + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) +
                      ((e & v[5]) ^ (~e & v[6])) + round_constants[i] + w[i];
        uint32_t t2 = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) +
                      ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));
        memmove(v + 1, v, 7 * sizeof *v);
        v[4] += t1;
        v[0] = t1 + t2;
    }
    for (int i = 0; i < 8; i++)
        state[i] += v[i];
}

void tn_sha256_init(struct tn_sha256 *h)
{
    *h = (struct tn_sha256){.state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f,
                                      0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

void tn_sha256_add(struct tn_sha256 *h, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;

    while (n > 0) {
        size_t at = h->length % sizeof h->block;
        size_t take = n < sizeof h->block - at ? n : sizeof h->block - at;

        memcpy(h->block + at, p, take);
        h->length += take;
        p += take;
        n -= take;
        if (at + take == sizeof h->block)
            take_block(h->state, h->block);
    }
}

void tn_sha256_end(struct tn_sha256 *h, unsigned char digest[TN_SHA256_BYTES])
{
    static const unsigned char padding[64] = {0x80};
    uint64_t bits = h->length * 8;
    unsigned char length[8];

    tn_sha256_add(h, padding, 1 + (119 - h->length % 64) % 64);
    for (int i = 0; i < 8; i++)
        length[i] = (unsigned char)(bits >> (56 - 8 * i));
    tn_sha256_add(h, length, sizeof length);
    for (int i = 0; i < TN_SHA256_BYTES; i++)
        digest[i] = (unsigned char)(h->state[i / 4] >> (24 - i % 4 * 8));
}

void tn_sha256_end_hex(struct tn_sha256 *h, char out[2 * TN_SHA256_BYTES + 1])
{
    unsigned char digest[TN_SHA256_BYTES];

    tn_sha256_end(h, digest);
    for (int i = 0; i < TN_SHA256_BYTES; i++)
        snprintf(out + 2 * i, 3, "%02x", digest[i]);
}
