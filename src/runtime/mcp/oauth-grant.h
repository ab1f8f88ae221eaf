/* What is kept about one server: which client we are to whom, and its tokens. */
#ifndef TN_RUNTIME_MCP_OAUTH_GRANT_H
#define TN_RUNTIME_MCP_OAUTH_GRANT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct mcp_grant {
    /* The client, and whom it is known to: its secret goes nowhere else. */
    char *issuer, *client, *secret, *method;
    char *key;      /* the file of the key that it signs with instead of a secret, or NULL */
    char *workload; /* the file of the token that its surroundings give it, or NULL */
    bool given;     /* by the user, not by registering */
    bool document;  /* the client is the URL of its own description */
    bool machine;   /* acts for itself: no person logs in */
    int64_t port;   /* of the redirection that was registered; 0: any */
    /* The tokens. */
    char *token_url, *resource, *access, *refresh;
    char *bound;     /* PEM of the key that they are bound to (DPoP), or NULL */
    char *scope;     /* asked for so far, or NULL */
    int64_t reach;   /* how near token_url may be (web/web.h) */
    int64_t expires; /* of the access token, seconds of the calendar; 0: not told */
};
void mcp_grant_done(struct mcp_grant *g);
#define mcp_autogrant TN_CLEANUP(mcp_grant_done)

/* The folder, the name of the file for a server, and its number among the locks. */
struct mcp_vault {
    char *folder, *path, *locks;
    uint32_t number;
};
void mcp_vault_init(struct mcp_vault *v, const char *state, const char *url);
void mcp_vault_done(struct mcp_vault *v);

/* Keeps everybody else, in this process and in others, from changing what is kept for the server,
 * until the descriptor that is returned is closed.  -1 with err by the deadline, or soon after
 * stop has become readable (-1: never). */
int mcp_vault_lock(const struct mcp_vault *v, int stop, int64_t deadline, struct tn_error *err);

/* Reads into uninitialised memory; empty when nothing is kept. */
int mcp_vault_read(const struct mcp_vault *v, struct mcp_grant *g, struct tn_error *err);
/* Writes a file of mode 0600, as a whole and on disk. */
int mcp_vault_write(const struct mcp_vault *v, const struct mcp_grant *g, struct tn_error *err);
int mcp_vault_remove(const struct mcp_vault *v, struct tn_error *err);

#endif
