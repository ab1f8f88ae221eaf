/* Which servers there are: what the configuration says, made into clients. */
#ifndef TN_RUNTIME_MCP_SERVERS_H
#define TN_RUNTIME_MCP_SERVERS_H

#include "runtime/mcp/client.h"
#include "runtime/toolbox.h"

/* A server at a URL; ways as the kind of the configuration says. */
struct mcp_server mcp_server_sse(const struct tn_json *entry, const char *session);
struct mcp_server mcp_server_shttp(const struct tn_json *entry, const char *session);
struct mcp_server mcp_server_any(const char *url, const char *key, const char *session);
struct mcp_server mcp_server_program(const char *command);

/* The programs for a sandbox, each once, by name. */
struct mcp_programs {
    struct tn_json **items; /* {"name", "command", "args", "env"}; their own */
    size_t count;
};
void mcp_programs_done(struct mcp_programs *p);
/* Adds those that are not there, in the order of their names; true when there were any.  One whose
 * name is taken by a different one replaces it. */
bool mcp_programs_add(struct mcp_programs *p, const struct tn_json *list);
void mcp_programs_put(const struct mcp_programs *p, struct tn_jw *w);

/* What [mcp] and [core] of the configuration mean: the programs with the search engine that
 * core.search_api_key is for, and the streamable HTTP server of the application, if somebody said
 * where that is.  Lists in the form of the configuration; the caller's to end. */
struct tn_json *mcp_default_programs(const struct tn_config *config);
struct tn_json *mcp_default_shttp(const struct tn_config *config);

#endif
