/* The authority of one sandbox: who signs the certificates that its gate shows inside.  Made anew
 * at each start; its key is known to the gate alone. */
#ifndef TN_SECURITY_AUTHORITY_H
#define TN_SECURITY_AUTHORITY_H

#include "base/error.h"
#include "base/guard.h"

struct tn_authority {
    char *certificate; /* PEM: what the sandbox trusts */
    char *key;         /* PEM (PKCS #8); secret */
};

/* A key on P-256 and a certificate "Tendon sandbox ID" that signs others and nothing else, from an
 * hour ago for ten years.  TN_E_UNSUPPORTED without OpenSSL. */
int tn_authority_make(const char *id, struct tn_authority *out, struct tn_error *err);
/* Wipes the key. */
void tn_authority_done(struct tn_authority *a);
#define tn_autoauthority TN_CLEANUP(tn_authority_done)

#endif
