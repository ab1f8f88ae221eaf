/* What a server says about the credentials it wants: the WWW-Authenticate header (RFC 9110), and
 * the members that matter to OAuth (RFC 6750, RFC 9728).  And URLs, as OAuth compares them. */
#ifndef TN_RUNTIME_MCP_CHALLENGE_H
#define TN_RUNTIME_MCP_CHALLENGE_H

#include <stdbool.h>

#include "base/error.h"

/* Of the Bearer or DPoP challenge, whichever comes first; each may be NULL. */
struct mcp_challenge {
    bool bearer; /* there was one of the former kind, */
    bool dpop;   /* or of the latter: tokens are bound to a key (RFC 9449) */
    char *metadata, *scope, *error;
};
/* Reads the value of the header into uninitialised memory; several of them are joined by commas.
 * What is not well formed ends the reading: what came before it counts. */
void mcp_challenge_read(const char *value, struct mcp_challenge *out);
void mcp_challenge_done(struct mcp_challenge *c);
#define mcp_autochallenge TN_CLEANUP(mcp_challenge_done)

/* A URL in parts, all on the heap. */
struct mcp_url {
    char *origin; /* scheme, host in lower case, port unless it is the usual one */
    char *host;
    char *path;  /* begins with a slash, or is empty */
    char *query; /* with its question mark, or empty */
    bool secure; /* https */
};
/* Reads one of http or https into uninitialised memory; -1 with err for any other text, also for
 * one with a user or a fragment in it: nothing to free then. */
int mcp_url_read(const char *text, struct mcp_url *out, struct tn_error *err);
void mcp_url_done(struct mcp_url *u);
#define mcp_autourl TN_CLEANUP(mcp_url_done)

/* Whether `resource` is the place that `url` is, or one above it on the same origin. */
bool mcp_url_covers(const struct mcp_url *resource, const struct mcp_url *url);

/* The words of both lists (separated by spaces), each once, on the heap. */
char *mcp_scope_join(const char *a, const char *b);
/* Whether every word of `few` is in `many`; NULL has none. */
bool mcp_scope_has(const char *many, const char *few);

#endif
