/* TLS that ends in the gate: certificates in the name of others towards the sandbox, and whom the
 * gate believes on the other side. */
#ifndef TN_GATE_ENDING_H
#define TN_GATE_ENDING_H

#include "gate/vault.h"
#include "net/tls-lib.h"

struct ending;

/* Loads OpenSSL, the authority of the vault, and the roots of this machine and of the vault: all
 * files that it will ever need.  NULL with err; it lives as long as the gate. */
struct ending *ending_new(const struct vault *v, struct tn_error *err);
const struct tn_tls_lib *ending_lib(const struct ending *e);

/* The side towards the sandbox, on that descriptor, with a certificate for the name; NULL: it
 * cannot be made.  The caller's. */
SSL *ending_towards_client(struct ending *e, const char *name, int fd);
/* The side towards the server, which must prove that it is the name. */
SSL *ending_towards_server(struct ending *e, const char *name, int fd);
/* Why the last call for it failed. */
const char *ending_why(const struct ending *e, const SSL *ssl);

#endif
