/* What tools answer, and what they are, in the shapes that agents know. */
#ifndef TN_RUNTIME_MCP_RESULT_H
#define TN_RUNTIME_MCP_RESULT_H

#include "base/json.h"

/* Writes the result of tools/call as OpenHands' Python writes it: every member that there may be,
 * null where it is missing, `_meta` as `meta`; members nobody knows come last. */
void mcp_put_result(struct tn_jw *w, const struct tn_json *result);
/* {"isError": true, "error": text, "content": []} */
void mcp_put_failure(struct tn_jw *w, const char *text);

#endif
