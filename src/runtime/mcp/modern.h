/* The client's side of the revision without sessions (2026-07-28): what every request says of
 * itself, in its body and in headers. */
#ifndef TN_RUNTIME_MCP_MODERN_H
#define TN_RUNTIME_MCP_MODERN_H

#include "mcp/peer.h"

#define MCP_MODERN "2026-07-28"

/* The capabilities of this client as a ready JSON object; asks: somebody answers questions. */
const char *mcp_capabilities(bool asks);
/* Adds the member _meta of a request's params. */
void mcp_put_meta(struct tn_jw *w, bool asks);

/* server/discover.  1 when the server is to be spoken to in this revision, with its capabilities
 * (the caller's to end); 0 when it knows an older one or does not know the question; -1 with err
 * when it cannot be asked. */
int mcp_discover(struct tn_mcp_peer *peer, bool asks, int64_t deadline,
                 struct tn_json **capabilities, struct tn_error *err);

/* "Name: value" with the value as it is, or wrapped where a header could not carry it; heap. */
char *mcp_header(const char *name, const char *value);
/* The headers Mcp-Param-* that a call of the tool with these arguments has; ended by NULL, all
 * heap. */
char **mcp_param_headers(const struct tn_json *tool, const struct tn_json *arguments);
/* False for a tool whose schema asks for headers in a way that is not allowed: it must not be used.
 */
bool mcp_param_headers_valid(const struct tn_json *tool);
void mcp_headers_free(char **headers);

#endif
