/* Certificates that are made here: a sandbox's authority, and what it vouches for. */
#ifndef TN_NET_TLS_CERTIFICATE_H
#define TN_NET_TLS_CERTIFICATE_H

#include "net/tls-lib.h"

struct tn_certificate {
    const char *subject; /* its common name, at most 64 bytes */
    const char *host;    /* a name of DNS that it is for; NULL: it is an authority */
    long days;           /* from an hour ago */
    EVP_PKEY *key;
    X509 *issuer; /* NULL: it is its own */
    EVP_PKEY *issuer_key;
};

/* A new key (P-256); NULL when there is none.  The caller's. */
EVP_PKEY *tn_certificate_key(const struct tn_tls_lib *lib);
/* The certificate; NULL when something of it is wrong.  The caller's. */
X509 *tn_certificate_make(const struct tn_tls_lib *lib, const struct tn_certificate *c);

#endif
