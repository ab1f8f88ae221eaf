/* What a host asks for: MCP servers that run in this sandbox and talk over their pipes. */
#ifndef TN_HAND_MCP_SPEC_H
#define TN_HAND_MCP_SPEC_H

#include <stdbool.h>

#include "base/json.h"

enum { MCP_SERVERS_MAX = 64 };

struct mcp_spec {
    char *name;
    char **argv; /* the command and its arguments, ended by NULL */
    char **env;  /* NAME=VALUE, sorted, ended by NULL */
    int timeout; /* seconds of a call */
};

/* Reads one entry {name, command, args, env, timeout} into uninitialised memory.  -1 with err: what
 * is wrong with which member; nothing to free then. */
int mcp_spec_read(const struct tn_json *entry, struct mcp_spec *spec, struct tn_error *err);
void mcp_spec_done(struct mcp_spec *spec);
/* Same name, command, arguments in order, environment in any order, and time limit. */
bool mcp_spec_equal(const struct mcp_spec *a, const struct mcp_spec *b);

#endif
