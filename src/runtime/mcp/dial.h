/* Requests to a hand, over connections that are dialled the way its sandbox is reached: the same
 * calls as web/web.h has them. */
#ifndef TN_RUNTIME_MCP_DIAL_H
#define TN_RUNTIME_MCP_DIAL_H

#include "web/web.h"

struct mcp_dial;

/* address as net/listen.h dials it. */
struct mcp_dial *mcp_dial_new(const char *address);
/* No call may be under way. */
void mcp_dial_free(struct mcp_dial *d);
/* A header for every request. */
void mcp_dial_header(struct mcp_dial *d, const char *name, const char *value);

/* Each call has a connection of its own.  The headers that an MCP client asks for are in the
 * answer; call->cancel does not count. */
int mcp_dial_call(struct mcp_dial *d, const struct tn_web_call *call, struct tn_web_answer *answer,
                  struct tn_error *err);
/* Calls under way and to come fail. */
void mcp_dial_stop(struct mcp_dial *d);

#endif
