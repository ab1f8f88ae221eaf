/* The revision without sessions (2026-07-28), for both sides: what a request says of itself in
 * _meta and repeats in headers, and results that ask. */
#ifndef TN_MCP_META_H
#define TN_MCP_META_H

#include "mcp/peer.h"

#define TN_MCP_MODERN "2026-07-28"
/* What the protocol's own members of _meta begin with. */
#define TN_MCP_META "io.modelcontextprotocol/"

enum {
    TN_MCP_HEADER_MISMATCH = -32020,
    TN_MCP_MISSING_CAPABILITY = -32021,
    TN_MCP_UNSUPPORTED_VERSION = -32022,
};

/* --- the body --------------------------------------------------------------------------------- */

struct tn_mcp_meta {
    const char *name, *version; /* of the client */
    const char *capabilities;   /* ready JSON object */
    const char *log_level;      /* what is logged meanwhile, from that level on; NULL: nothing */
};

/* Adds the member _meta of a request's params. */
void tn_mcp_put_meta(struct tn_jw *w, const struct tn_mcp_meta *meta);
/* Writes params (a JSON object as text, or "") again, as a request of this revision has them: what
 * their _meta holds of the protocol's own is replaced.  inputs: members that are added, as text
 * without braces, in the place of those of a round before; or "".  -1 with err for what is no
 * JSON. */
int tn_mcp_put_params(struct tn_buf *out, const char *params, const char *inputs,
                      const struct tn_mcp_meta *meta, struct tn_error *err);

/* server/discover.  1 when the server is to be spoken to in this revision, with its answer (the
 * caller's to end); 0 when it knows an older one or does not know the question; -1 with err when it
 * cannot be asked. */
int tn_mcp_discover(struct tn_mcp_peer *peer, const struct tn_mcp_meta *meta, int64_t deadline,
                    struct tn_rpc *answer, struct tn_error *err);

/* Whether the result says that the server wants to know something first: members inputRequests and
 * requestState. */
bool tn_mcp_is_input_required(const struct tn_json *result);
/* Who asks more at once is not answered. */
enum { TN_MCP_INPUTS_MAX = 32, TN_MCP_ROUNDS_MAX = 16 };

/* --- headers ---------------------------------------------------------------------------------- */

/* More than this is not said in one header. */
#define TN_MCP_HEADER_MAX ((size_t)1 << 20)

/* "Name: value" with the value as it is, or wrapped where a header could not carry it; heap.  NULL
 * when it is too long. */
char *tn_mcp_header(const char *name, const char *value);
/* The value of a header that may be wrapped so; heap.  NULL when that is malformed. */
char *tn_mcp_header_value(const char *text);

/* The headers Mcp-Param-* that a call of the tool with these arguments has; ended by NULL, all
 * heap.  NULL with err when an argument is too long for one. */
char **tn_mcp_param_headers(const struct tn_json *tool, const struct tn_json *arguments,
                            struct tn_error *err);
void tn_mcp_headers_free(char **headers);
/* False for a tool whose schema asks for headers in a way that is not allowed: it must not be used
 * over HTTP. */
bool tn_mcp_param_headers_valid(const struct tn_json *tool);
/* Whether its schema asks for any. */
bool tn_mcp_param_headers_wanted(const struct tn_json *tool);
/* Whether the headers that came with a call are those it must have.  get: the value of a header, or
 * NULL.  -1 with err. */
int tn_mcp_param_headers_check(const struct tn_json *tool, const struct tn_json *arguments,
                               const char *(*get)(void *ctx, const char *header), void *ctx,
                               struct tn_error *err);

#endif
