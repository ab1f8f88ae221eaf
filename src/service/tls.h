/* TLS in front of the HTTP server: each connection has a thread that decrypts for it.
 *
 * OpenSSL is opened when first needed.  The server gets one end of a socket pair and knows nothing
 * of this; a client that is slow, or never finishes its handshake, holds its thread and nothing
 * else. */
#ifndef TN_SERVICE_TLS_H
#define TN_SERVICE_TLS_H

#include "net/http-server.h"

struct tls;
/* cert: PEM, the certificate and those that lead to its authority; key: PEM. */
struct tls *tls_new(const char *cert, const char *key, struct tn_error *err);
void tls_free(struct tls *t); /* after a tls_wait that returned 0, or before any tls_listen */
/* Accepts on the listening descriptor, which it owns from now on. */
int tls_listen(struct tls *t, int fd, struct tn_http_server *http, struct tn_error *err);
/* Accepts no more; waits until no handshake is under way, and cuts those that are at the deadline.
 */
void tls_shut(struct tls *t, int64_t deadline);
/* Waits for all connections to end, cutting them at the deadline; how many are left. */
int tls_wait(struct tls *t, int64_t deadline);

#endif
