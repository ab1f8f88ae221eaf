/* mcp-gateway: this program under another name, started inside a sandbox by who uses it.
 *
 * It serves the MCP servers of a configuration (proxy.h) to whoever has the token, by streamable
 * HTTP at http://127.0.0.1:50005/mcp: the command, port and files that clients of E2B expect. */
#ifndef TN_HAND_MCP_GATEWAY_H
#define TN_HAND_MCP_GATEWAY_H

#include "base/error.h"

#define MCP_GATEWAY "mcp-gateway"

/* The command: `--config JSON` returns once the servers run, which a process of its own serves from
 * then on; `pull NAME...` says whether their programs are there.  The exit code. */
int mcp_gateway(int argc, char **argv);

/* Puts a copy of this program where shells find it by that name.  Only as the first process of a
 * sandbox: elsewhere the directory is that of a machine. */
int mcp_gateway_install(struct tn_error *err);

#endif
