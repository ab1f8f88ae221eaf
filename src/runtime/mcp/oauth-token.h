/* Being a client of an authorization server: registering (RFC 7591), and asking for tokens. */
#ifndef TN_RUNTIME_MCP_OAUTH_TOKEN_H
#define TN_RUNTIME_MCP_OAUTH_TOKEN_H

#include "runtime/mcp/oauth-find.h"
#include "runtime/mcp/oauth-grant.h"

/* Makes the grant's client one that this issuer knows, for a browser that comes back to `redirect`:
 * the one it has, its document, or a new registration.  -1 with err, also for a secret that was
 * made for another issuer. */
int mcp_client_settle(const struct mcp_asking *how, const struct mcp_issuer *issuer,
                      const char *redirect, int port, struct mcp_grant *g, struct tn_error *err);

/* A request for tokens; what is NULL is not sent. */
struct mcp_token_wish {
    const char *type; /* "authorization_code" and so on */
    const char *code, *redirect, *verifier;
    const char *refresh;
    const char *assertion; /* what vouches for us (RFC 7523) */
    const char *scope;
};
/* Asks at the grant's token_url and puts what comes into the grant.  -1 with err; *spent says
 * whether what was shown (code, refresh token) may have been used up by that. */
int mcp_token_get(const struct mcp_asking *how, const struct mcp_token_wish *wish,
                  struct mcp_grant *g, bool *spent, struct tn_error *err);

#endif
