#include "base/hmac.h"

#include <string.h>

enum { BLOCK = 64 };

static void start(struct tn_sha256 *h, const unsigned char key[BLOCK], unsigned char mask)
{
    unsigned char pad[BLOCK];

    for (int i = 0; i < BLOCK; i++)
        pad[i] = key[i] ^ mask;
    tn_sha256_init(h);
    tn_sha256_add(h, pad, sizeof pad);
    explicit_bzero(pad, sizeof pad);
}

void tn_hmac_sha256_pair(const void *key, size_t key_len, const char *head, const void *bytes,
                         size_t n, unsigned char mac[TN_SHA256_BYTES])
{
    unsigned char block[BLOCK] = {0};
    struct tn_sha256 h;

    if (key_len > BLOCK) {
        tn_sha256_init(&h);
        tn_sha256_add(&h, key, key_len);
        tn_sha256_end(&h, block);
    } else {
        memcpy(block, key, key_len);
    }
    start(&h, block, 0x36);
    tn_sha256_add(&h, head, strlen(head));
    tn_sha256_add(&h, bytes, n);
    tn_sha256_end(&h, mac);
    start(&h, block, 0x5c);
    tn_sha256_add(&h, mac, TN_SHA256_BYTES);
    tn_sha256_end(&h, mac);
    explicit_bzero(block, sizeof block);
}

void tn_hmac_sha256(const void *key, size_t key_len, const void *bytes, size_t n,
                    unsigned char mac[TN_SHA256_BYTES])
{
    tn_hmac_sha256_pair(key, key_len, "", bytes, n, mac);
}
