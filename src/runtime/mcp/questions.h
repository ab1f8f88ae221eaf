/* Questions of a server to whoever makes the call (elicitation): in the middle of it, in the
 * revisions with sessions, or as its result in the one without. */
#ifndef TN_RUNTIME_MCP_QUESTIONS_H
#define TN_RUNTIME_MCP_QUESTIONS_H

#include "runtime/mcp/link.h"

struct mcp_questions;

/* The server outlives it. */
struct mcp_questions *mcp_questions_new(const struct mcp_server *server);
/* Answers a request of the server, sooner or later, from a thread of its own.  Never blocks. */
void mcp_questions_take(struct mcp_questions *q, struct tn_mcp_peer *peer,
                        const struct tn_rpc *message);
/* Nobody waits for answers any more: ends what is under way, and refuses what comes. */
void mcp_questions_stop(struct mcp_questions *q);
void mcp_questions_free(struct mcp_questions *q);

/* Adds the members inputResponses and requestState, with which the request is to be repeated, to
 * its params.  -1 with err when something is asked that nobody answers, or not by the deadline. */
int mcp_put_inputs(const struct mcp_server *server, const struct tn_json *result, int64_t deadline,
                   struct tn_jw *w, struct tn_error *err);

#endif
