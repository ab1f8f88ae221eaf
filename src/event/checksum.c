#include "event/checksum.h"

#include <pthread.h>

#define POLYNOMIAL UINT32_C(0xedb88320)

/* table[k][b] is what byte b contributes when k more bytes follow it: eight bytes at a time. */
static uint32_t table[8][256];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_table(void)
{
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t c = b;
        for (int bit = 0; bit < 8; bit++)
            c = c & 1 ? c >> 1 ^ POLYNOMIAL : c >> 1;
        table[0][b] = c;
    }
    for (int k = 1; k < 8; k++)
        for (int b = 0; b < 256; b++)
            table[k][b] = table[k - 1][b] >> 8 ^ table[0][table[k - 1][b] & 0xff];
}

uint32_t tn_crc32(uint32_t crc, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    uint32_t c = ~crc;

    pthread_once(&once, make_table);
    for (; n >= 8; n -= 8, p += 8) {
        c ^= (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
        c = table[7][c & 0xff] ^ table[6][c >> 8 & 0xff] ^ table[5][c >> 16 & 0xff] ^
            table[4][c >> 24] ^ table[3][p[4]] ^ table[2][p[5]] ^ table[1][p[6]] ^ table[0][p[7]];
    }
    for (; n; n--, p++)
        c = c >> 8 ^ table[0][(c ^ *p) & 0xff];
    return ~c;
}
