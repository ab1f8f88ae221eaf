/* Finding out who gives tokens for a server: the metadata of the protected resource (RFC 9728) and
 * of its authorization server (RFC 8414, OpenID Connect Discovery). */
#ifndef TN_RUNTIME_MCP_OAUTH_FIND_H
#define TN_RUNTIME_MCP_OAUTH_FIND_H

#include "base/json.h"
#include "runtime/mcp/challenge.h"
#include "web/web.h"

/* How questions to strangers are asked. */
struct mcp_asking {
    enum tn_web_reach reach; /* no nearer than this */
    int64_t deadline;
    int stop;     /* a descriptor: readable means that nobody waits any more; -1: none */
    char **nonce; /* replaced by the DPoP-Nonce of the answer, if it has one; or NULL */
};

/* A request to an address that somebody told us, which is checked first: 0 with the status and,
 * when the answer is a JSON object, that object in *json (the caller's to end; else NULL). */
int mcp_ask(const struct mcp_asking *how, const char *url, struct tn_web_call *call, int *status,
            struct tn_json **json, struct tn_error *err);
/* -1 with err unless it may be asked. */
int mcp_ask_allowed(const struct mcp_asking *how, const char *url, struct tn_error *err);

/* Who gives tokens, and how.  Owned texts. */
struct mcp_issuer {
    char *issuer;
    char *authorize_url, *token_url, *register_url; /* the first and the last may be NULL */
    char *resource;                                 /* what the tokens are for */
    char *scopes;           /* to be asked for when nothing else is known, or NULL */
    bool offline;           /* a refresh token is asked for by offline_access */
    bool says_iss;          /* answers name the issuer */
    bool documents;         /* clients may be URLs */
    bool basic, post, none; /* ways of a client to prove itself */
    bool es256, rs256;      /* by what it signed, of these kinds (private_key_jwt) */
};
void mcp_issuer_done(struct mcp_issuer *i);
#define mcp_autoissuer TN_CLEANUP(mcp_issuer_done)

/* For the server at url, whose challenge named `metadata` (or NULL).  Into uninitialised memory,
 * empty after a failure. */
int mcp_issuer_find(const struct mcp_asking *how, const char *url, const char *metadata,
                    struct mcp_issuer *out, struct tn_error *err);

#endif
