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
