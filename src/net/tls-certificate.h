/* Certificates that are made here: of servers, by an authority whose key is at hand. */
#ifndef TN_NET_TLS_CERTIFICATE_H
#define TN_NET_TLS_CERTIFICATE_H

#include "net/tls-lib.h"

struct tn_certificate {
    const char *subject; /* its common name, at most 64 bytes */
    const char *host;    /* the name of DNS that it is for */
    long days;           /* from an hour ago */
    EVP_PKEY *key;
    X509 *issuer;
    EVP_PKEY *issuer_key;
};

/* A new key (P-256); NULL when there is none.  The caller's. */
EVP_PKEY *tn_certificate_key(const struct tn_tls_lib *lib);
/* The certificate; NULL when something of it is wrong.  The caller's. */
X509 *tn_certificate_make(const struct tn_tls_lib *lib, const struct tn_certificate *c);

#endif
