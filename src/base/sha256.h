/* SHA-256 (FIPS 180-4), for names that follow from content. */
#ifndef TN_BASE_SHA256_H
#define TN_BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define TN_SHA256_BYTES 32

struct tn_sha256 {
    uint32_t state[8];
    uint64_t length; /* bytes so far */
    unsigned char block[64];
};

void tn_sha256_init(struct tn_sha256 *h);
void tn_sha256_add(struct tn_sha256 *h, const void *bytes, size_t n);
/* Nothing can be added afterwards. */
void tn_sha256_end(struct tn_sha256 *h, unsigned char digest[TN_SHA256_BYTES]);
/* The same as 64 hexadecimal digits. */
void tn_sha256_end_hex(struct tn_sha256 *h, char out[2 * TN_SHA256_BYTES + 1]);

#endif
