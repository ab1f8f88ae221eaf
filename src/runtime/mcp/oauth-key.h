/* Keys to sign with, of clients that have one instead of a secret (RFC 7523) and of tokens that are
 * bound to one (DPoP, RFC 9449).  OpenSSL, loaded when first needed; its headers are known to
 * oauth-key.c alone. */
#ifndef TN_RUNTIME_MCP_OAUTH_KEY_H
#define TN_RUNTIME_MCP_OAUTH_KEY_H

#include "base/error.h"
#include "base/guard.h"

struct mcp_key;

/* A new one (P-256). */
struct mcp_key *mcp_key_new(struct tn_error *err);
/* Of PEM text: P-256, or RSA of at least 2048 bits, without a password.  NULL with err. */
struct mcp_key *mcp_key_parse(const char *pem, struct tn_error *err);
/* The same of a file, which nobody but its owner may be able to read. */
struct mcp_key *mcp_key_read(const char *path, struct tn_error *err);
void mcp_key_free(struct mcp_key *key);
static inline void mcp_guard_key(struct mcp_key **key)
{
    mcp_key_free(*key);
}
#define mcp_autokey TN_CLEANUP(mcp_guard_key)

/* As PEM text, on the heap; NULL with err. */
char *mcp_key_pem(const struct mcp_key *key, struct tn_error *err);
/* "ES256" or "RS256". */
const char *mcp_key_algorithm(const struct mcp_key *key);

/* That the client is who it says (private_key_jwt), for this issuer; heap, NULL with err. */
char *mcp_key_client_proof(const struct mcp_key *key, const char *client, const char *issuer,
                           struct tn_error *err);
/* That who sends this request has the key that its token is bound to; heap, NULL with err.  token
 * NULL: it is asked for.  nonce: what the server wants repeated, or NULL. */
char *mcp_key_request_proof(const struct mcp_key *key, const char *method, const char *url,
                            const char *token, const char *nonce, struct tn_error *err);

#endif
