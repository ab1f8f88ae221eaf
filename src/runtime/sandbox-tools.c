/* The tools of MCP servers that whoever works in a sandbox has. */
#include "runtime/runtime.h"

static int reach(void *ctx, char **address, char **key, int64_t deadline, struct tn_error *err)
{
    const char *where, *secret;

    if (tn_sandbox_address(ctx, &where, &secret, deadline, err) < 0)
        return -1;
    *address = tn_strdup(where);
    *key = tn_strdup_or_null(secret);
    return 0;
}

static void note(const char *text, void *ctx)
{
    const struct tn_host *host = ctx;

    if (host->progress)
        host->progress(text, host->progress_ctx);
}

struct tn_toolbox *tn_sandbox_toolbox(struct tn_sandbox *sb, struct tn_error *err)
{
    const struct tn_toolbox_options options = {
        .config = sb->rt->host.config,
        .reach = reach,
        .reach_ctx = sb,
        .session = sb->record.id,
        .note = note,
        .note_ctx = &sb->rt->host,
    };

    if (!sb->toolbox)
        sb->toolbox = tn_toolbox_new(&options, err);
    return sb->toolbox;
}

/* --- secrets of the configuration ------------------------------------------------------------- */

static void hide(struct tn_stream *stream, const char *name, const char *value)
{
    const struct tn_secret secret = {.name = name, .value = value};

    if (value && *value)
        tn_stream_update_secrets(stream, &secret, 1, NULL);
}

static int hide_variable(const char *name, struct tn_json *value, void *ctx)
{
    if (tn_names_secret(name))
        hide(ctx, name, tn_json_str(value, NULL));
    return 0;
}

void tn_sandbox_hide_tool_secrets(struct tn_sandbox *sb)
{
    const struct tn_config *c = sb->rt->host.config;
    const struct tn_json *const lists[] = {c->mcp.sse_servers, c->mcp.shttp_servers,
                                           c->mcp.stdio_servers};

    hide(sb->stream, "search_api_key", c->core.search_api_key);
    for (size_t i = 0; i < TN_COUNT(lists); i++)
        for (size_t k = 0, n = tn_json_count(lists[i]); k < n; k++) {
            const struct tn_json *server = tn_json_at(lists[i], k);
            hide(sb->stream, "api_key", tn_json_get_str(server, "api_key", NULL));
            tn_json_each(tn_json_get(server, "env"), hide_variable, sb->stream);
        }
}
