/* The key of a safe, and what it seals.  Only for safe.c. */
#ifndef TN_SECURITY_SAFE_SEAL_H
#define TN_SECURITY_SAFE_SEAL_H

#include "base/buf.h"
#include "security/safe.h"

enum { SAFE_KEY_BYTES = 32 };

struct safe_key {
    unsigned char bytes[SAFE_KEY_BYTES];
};
/* Wipes it. */
void safe_key_done(struct safe_key *k);
#define autosafekey TN_CLEANUP(safe_key_done)

/* Reads it.  make: one that is missing is made; it never takes the place of another. */
int safe_key_open(const struct tn_safe *s, bool make, struct safe_key *out, struct tn_error *err);

/* Appends the sealed form to out; about is what it is bound to. */
int safe_seal(const struct safe_key *k, const char *about, const struct tn_buf *plain,
              struct tn_buf *out, struct tn_error *err);
/* Appends what was sealed to out, which has room for all of it.  TN_E_DENIED: it was sealed with
 * another key, about something else, or is damaged. */
int safe_unseal(const struct safe_key *k, const char *about, const struct tn_buf *sealed,
                struct tn_buf *out, struct tn_error *err);

#endif
