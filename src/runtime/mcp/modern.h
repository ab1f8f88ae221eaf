/* What the host says of itself as a client, in either kind of revision. */
#ifndef TN_RUNTIME_MCP_MODERN_H
#define TN_RUNTIME_MCP_MODERN_H

#include "mcp/meta.h"

/* asks: somebody answers questions. */
const struct tn_mcp_meta *mcp_meta(bool asks);

#endif
