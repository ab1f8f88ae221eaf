/* The part of a login that a person does in a browser: an address to open, and what comes back to a
 * page on this machine. */
#ifndef TN_RUNTIME_MCP_OAUTH_PERSON_H
#define TN_RUNTIME_MCP_OAUTH_PERSON_H

#include "runtime/mcp/oauth-find.h"
#include "runtime/toolbox.h"

/* Where the browser is sent back to. */
struct mcp_doorstep;

/* Listens on 127.0.0.1, on that port if it is not 0.  NULL with err. */
struct mcp_doorstep *mcp_doorstep_new(int port, struct tn_error *err);
void mcp_doorstep_free(struct mcp_doorstep *d);
int mcp_doorstep_port(const struct mcp_doorstep *d);
/* "http://127.0.0.1:PORT/callback", borrowed. */
const char *mcp_doorstep_url(const struct mcp_doorstep *d);

/* One login. */
struct mcp_visit {
    const struct mcp_issuer *issuer;
    const char *client, *scope; /* scope may be NULL */
    const char *challenge;      /* of PKCE, S256 */
    tn_toolbox_visit_fn visit;
    void *visit_ctx;
    int64_t deadline;
    int stop; /* a descriptor: readable means that nobody waits any more; -1: none */
};
/* The code that the authorization server gave, on the heap; NULL with err: it was refused, the
 * answer is not from that server, or none came in time. */
char *mcp_doorstep_visit(struct mcp_doorstep *d, const struct mcp_visit *v, struct tn_error *err);

#endif
