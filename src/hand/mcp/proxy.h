/* Many MCP servers behind one: names, lists, and who gets which request.
 *
 * Names of tools and prompts: with one server they are as it gives them, with several
 * `server_name`.  Whichever form is listed, the other is understood too where it can only mean one
 * thing, so that names stay good when servers come and go. */
#ifndef TN_HAND_MCP_PROXY_H
#define TN_HAND_MCP_PROXY_H

#include "hand/mcp/backend.h"

struct mcp_proxy;

struct mcp_proxy *mcp_proxy_new(struct tn_hand *hand);
/* Ends everything; no request may be under way: stop the server first. */
void mcp_proxy_free(struct mcp_proxy *p);
struct tn_mcp_server *mcp_proxy_server(struct mcp_proxy *p);

/* Replaces the servers by those of a list of entries: unchanged ones run on, others end, new ones
 * start.  Waits for these; what could not be started is named in log, a line each.  -1 with err
 * when an entry is wrong: then nothing changes. */
int mcp_proxy_update(struct mcp_proxy *p, const struct tn_json *entries, struct tn_buf *log,
                     struct tn_error *err);
bool mcp_proxy_empty(struct mcp_proxy *p);
/* Starts all of them: 0, or -1 with what went wrong with the first that did not. */
int mcp_proxy_start(struct mcp_proxy *p, int64_t deadline, struct tn_error *err);
void mcp_proxy_stop(struct mcp_proxy *p);
/* Ends them for good, without waiting. */
void mcp_proxy_interrupt(struct mcp_proxy *p);
void mcp_proxy_status(struct mcp_proxy *p, struct tn_jw *w);

#endif
