/* Programs that start MCP servers, and how to get them. */
#ifndef TN_HAND_MCP_LAUNCHER_H
#define TN_HAND_MCP_LAUNCHER_H

#include "base/error.h"

/* The program, a name or a path, is not there: adds to err how to get it, and returns -1. */
int mcp_launcher_missing(const char *program, struct tn_error *err);

#endif
