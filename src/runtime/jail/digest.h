/* SHA-256 by libcrypto, which is opened when first needed. */
#ifndef TN_RUNTIME_JAIL_DIGEST_H
#define TN_RUNTIME_JAIL_DIGEST_H

#include <stddef.h>

#include "base/error.h"

#define JAIL_DIGEST_CHARS 64

struct jail_digest;

/* NULL with err when there is no libcrypto. */
struct jail_digest *jail_digest_new(struct tn_error *err);
void jail_digest_free(struct jail_digest *d);
static inline void jail_guard_digest(struct jail_digest **d)
{
    jail_digest_free(*d);
}
#define jail_autodigest TN_CLEANUP(jail_guard_digest)

void jail_digest_add(struct jail_digest *d, const void *bytes, size_t n);
/* 64 hexadecimal digits; nothing can be added afterwards. */
void jail_digest_end(struct jail_digest *d, char out[JAIL_DIGEST_CHARS + 1]);

#endif
