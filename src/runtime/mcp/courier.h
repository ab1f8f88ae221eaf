/* Messages that must not hold up whoever sends them: a thread delivers them in order. */
#ifndef TN_RUNTIME_MCP_COURIER_H
#define TN_RUNTIME_MCP_COURIER_H

#include <stdint.h>

#include "base/error.h"

struct mcp_courier;

/* Delivers one message, by a deadline of its own. */
typedef void (*mcp_deliver_fn)(void *ctx, const char *text, size_t n);

struct mcp_courier *mcp_courier_new(mcp_deliver_fn deliver, void *ctx, struct tn_error *err);
/* Waits for the message under way; what has not left by then is dropped. */
void mcp_courier_free(struct mcp_courier *c);

/* Never blocks; TN_E_BUSY when too much waits already. */
int mcp_courier_put(struct mcp_courier *c, const char *text, size_t n, struct tn_error *err);
/* Until everything is delivered: 0, or -1 with TN_E_TIMEOUT. */
int mcp_courier_wait(struct mcp_courier *c, int64_t deadline, struct tn_error *err);

#endif
