/* The programs of [mcp] run inside the sandbox: its hand is told which, and is then a server of all
 * their tools. */
#ifndef TN_RUNTIME_MCP_SANDBOX_H
#define TN_RUNTIME_MCP_SANDBOX_H

#include "runtime/mcp/servers.h"

struct mcp_sandbox;

struct mcp_sandbox *mcp_sandbox_new(const struct tn_toolbox_options *options);
/* After the client of its server. */
void mcp_sandbox_free(struct mcp_sandbox *s);

/* Further programs, in the form of the configuration; true when some are new. */
bool mcp_sandbox_add(struct mcp_sandbox *s, const struct tn_json *list);
/* There are any. */
bool mcp_sandbox_used(struct mcp_sandbox *s);

/* The hand as a server; before each conversation it is told of all programs. */
struct mcp_server mcp_sandbox_server(struct mcp_sandbox *s, const char *session);
/* Passes on what the hand said when it was told. */
void mcp_sandbox_complain(struct mcp_sandbox *s, tn_tool_problem_fn problem, void *ctx);
/* Tells it of those added since then: 1, or 0 when there are none, or -1 with err. */
int mcp_sandbox_update(struct mcp_sandbox *s, int64_t deadline, struct tn_error *err);

#endif
