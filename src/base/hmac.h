/* HMAC-SHA256 (RFC 2104): a signature that only who knows the key can make or check. */
#ifndef TN_BASE_HMAC_H
#define TN_BASE_HMAC_H

#include "base/sha256.h"

void tn_hmac_sha256(const void *key, size_t key_len, const void *bytes, size_t n,
                    unsigned char mac[TN_SHA256_BYTES]);
/* Of two pieces, as if they were one. */
void tn_hmac_sha256_pair(const void *key, size_t key_len, const char *head, const void *bytes,
                         size_t n, unsigned char mac[TN_SHA256_BYTES]);

#endif
