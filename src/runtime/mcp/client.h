/* The long-lived client of one MCP server: connected when needed, again after a loss, with a list
 * of tools that is up to date.  For any number of threads. */
#ifndef TN_RUNTIME_MCP_CLIENT_H
#define TN_RUNTIME_MCP_CLIENT_H

#include "runtime/mcp/link.h"

struct mcp_client;

/* Takes what the server struct holds. */
struct mcp_client *mcp_client_new(struct mcp_server *server);
/* Says goodbye.  No call may be under way. */
void mcp_client_free(struct mcp_client *c);

const struct mcp_server *mcp_client_server(const struct mcp_client *c);

/* Connected, with the list of tools: 0, or -1 with err by the deadline.  What failed
 * a moment ago is not tried again at once, but reported again.  refresh: the list is asked for anew
 * unless the server promised to tell of changes. */
int mcp_client_ready(struct mcp_client *c, bool refresh, int64_t deadline, struct tn_error *err);
/* True when that would do nothing. */
bool mcp_client_is_ready(struct mcp_client *c);
/* The list of tools is out of date. */
void mcp_client_stale(struct mcp_client *c);

/* The tools as the server lists them, an array, NULL before the first time; the caller's to end. */
struct tn_json *mcp_client_tools(struct mcp_client *c);

/* Whether it lists a tool of that name; before: or did so earlier. */
bool mcp_client_owns(struct mcp_client *c, const char *name, bool before);

/* Calls a tool: 0 with the answer, a result or an error; -1 with err: TN_E_TIMEOUT, TN_E_PEER when
 * the server is gone (and says whether the tool may have run), ...  A call that was sent is never
 * sent again. */
int mcp_client_call(struct mcp_client *c, const char *tool, const struct tn_json *arguments,
                    int64_t deadline, struct tn_rpc *answer, struct tn_error *err);

#endif
