/* Tools about sandboxes themselves. */
#include "base/clock.h"
#include "cli/mcp/mcp.h"

struct box_arguments {
    char *sandbox;
};

static const struct tn_field box_rows[] = {TOOL_SANDBOX(struct box_arguments)};
static const struct tn_fields box_fields = TN_FIELDS(box_rows);

/* No arguments at all. */
static const struct tn_fields no_fields = {0};

struct named_arguments {
    char *sandbox;
    char *name;
};

static const struct tn_field named_rows[] = {
    TOOL_SANDBOX(struct named_arguments),
    TN_STRING("name", struct named_arguments, name, .flags = TN_FIELD_REQUIRED,
              .help = "what the snapshot is called"),
};
static const struct tn_fields named_fields = TN_FIELDS(named_rows);

/* --- telling about one ---------------------------------------------------------------------- */

#define SANDBOX_MEMBERS                                                                           \
    "\"id\":{\"type\":\"string\",\"description\":\"for the argument sandbox of other tools\"},"   \
    "\"own\":{\"type\":\"boolean\",\"description\":\"the one you work in unless you name one\"}," \
    "\"runtime\":{\"type\":\"string\"},\"image\":{\"type\":[\"string\",\"null\"]}"
#define SANDBOX_REQUIRED "\"id\",\"own\",\"runtime\",\"image\""
#define SANDBOX_RESULT                                           \
    "{\"type\":\"object\",\"properties\":{" SANDBOX_MEMBERS "}," \
    "\"required\":[" SANDBOX_REQUIRED "]}"
#define LIST_RESULT                                                                                    \
    "{\"type\":\"object\",\"properties\":{\"sandboxes\":{\"type\":\"array\",\"items\":" SANDBOX_RESULT \
    "}},\"required\":[\"sandboxes\"]}"
#define INFO_RESULT                                                                                \
    "{\"type\":\"object\",\"properties\":{" SANDBOX_MEMBERS ","                                    \
    "\"system\":{\"type\":\"string\",\"description\":\"operating system and processor\"},"         \
    "\"user\":{\"type\":\"string\"},"                                                              \
    "\"directory\":{\"type\":\"string\",\"description\":\"the one the main shell is in\"},"        \
    "\"network\":{\"enum\":[\"none\",\"host\",\"bridge\"]},"                                       \
    "\"isolation\":{\"type\":[\"object\",\"null\"],\"description\":\"what holds it, as far as it " \
    "holds\"}},"                                                                                   \
    "\"required\":[" SANDBOX_REQUIRED                                                              \
    ",\"system\",\"user\",\"directory\",\"network\",\"isolation\"]}"

/* What tells it from others: members of an object. */
static void put_identity(const struct tn_sandbox *sb, const char *own, struct tn_jw *w)
{
    const struct tn_record *r = tn_sandbox_record(sb);

    tn_jw_kstr(w, "id", r->id);
    tn_jw_kbool(w, "own", own && strcmp(own, r->id) == 0);
    tn_jw_kstr(w, "runtime", tn_sandbox_backend(sb)->name);
    tn_jw_kstr(w, "image", tn_sandbox_spec(sb)->image);
}

static void put_sandbox(const struct tn_sandbox *sb, const char *own, struct tn_jw *w)
{
    tn_jw_object(w);
    put_identity(sb, own, w);
    tn_jw_object_end(w);
}

static void put_isolation(const struct tn_sandbox *sb, struct tn_jw *w)
{
    const struct tn_record *r = tn_sandbox_record(sb);

    tn_jw_key(w, "isolation");
    if (r->isolation && *r->isolation)
        tn_jw_raw(w, r->isolation, strlen(r->isolation));
    else
        tn_jw_null(w);
}

/* The text of a result is its JSON, for clients that know nothing else. */
static void put_data_as_text(struct tool_call *c)
{
    put_text(c, tn_buf_str(c->data), c->data->len);
}

static void tell(struct tool_call *c, const struct tn_sandbox *sb)
{
    struct tn_jw w = tn_jw(c->data);
    tn_autofree char *own = mcp_own_id(c->client);

    put_sandbox(sb, own, &w);
    put_data_as_text(c);
}

static int say(struct tool_call *c, const char *text)
{
    put_text(c, text, strlen(text));
    return 0;
}

/* --- the tools ------------------------------------------------------------------------------ */

static int call_info(struct tool_call *c, const void *given, struct tn_error *err)
{
    const struct box_arguments *a = given;
    tn_autosandbox struct tn_sandbox *sb = mcp_sandbox(c->client, a->sandbox, err);

    tn_autofree char *own = mcp_own_id(c->client);
    struct tn_jw w = tn_jw(c->data);

    if (!sb)
        return -1;
    tn_jw_object(&w);
    put_identity(sb, own, &w);
    if (mcp_put_facts(cli_config(c->client->service->cli, NULL), sb, &w, err) < 0)
        return -1;
    put_isolation(sb, &w);
    tn_jw_object_end(&w);
    put_data_as_text(c);
    return 0;
}

static int call_new(struct tool_call *c, const void *given, struct tn_error *err)
{
    tn_autosandbox struct tn_sandbox *sb = mcp_make(c->client, NULL, err);

    if (!sb)
        return -1;
    tell(c, sb);
    return 0;
}

static int call_fork(struct tool_call *c, const void *given, struct tn_error *err)
{
    const struct box_arguments *a = given;
    tn_autosandbox struct tn_sandbox *parent = mcp_sandbox(c->client, a->sandbox, err);
    tn_autosandbox struct tn_sandbox *sb = parent ? mcp_make(c->client, parent, err) : NULL;

    if (!sb)
        return -1;
    tell(c, sb);
    return 0;
}

static int call_list(struct tool_call *c, const void *given, struct tn_error *err)
{
    struct tn_runtime *rt = cli_runtime(c->client->service->cli, err);
    struct tn_str_list ids = mcp_list(c->client);
    tn_autofree char *own = mcp_own_id(c->client);
    struct tn_jw w = tn_jw(c->data);

    tn_jw_object(&w);
    tn_jw_key(&w, "sandboxes");
    tn_jw_array(&w);
    for (size_t i = 0; i < ids.count; i++) {
        tn_autofree char *id = ids.items[i];
        tn_autosandbox struct tn_sandbox *sb = rt ? tn_sandbox_attach(rt, id, NULL) : NULL;

        if (sb)
            put_sandbox(sb, own, &w);
    }
    free(ids.items);
    tn_jw_array_end(&w);
    tn_jw_object_end(&w);
    put_data_as_text(c);
    return 0;
}

static int call_remove(struct tool_call *c, const void *given, struct tn_error *err)
{
    const struct box_arguments *a = given;
    tn_autofree char *own = mcp_own_id(c->client);
    const char *id = a->sandbox && *a->sandbox ? a->sandbox : own;

    if (!id)
        return say(c, "there was none");
    if (mcp_remove(c->client, id, err) < 0)
        return -1;
    return say(c, "removed, with everything in it");
}

static int call_snapshot(struct tool_call *c, const void *given, struct tn_error *err)
{
    const struct named_arguments *a = given;
    tn_autosandbox struct tn_sandbox *sb = mcp_sandbox(c->client, a->sandbox, err);

    if (!sb || tn_sandbox_snapshot(sb, a->name, tn_deadline_in(120), err) < 0)
        return -1;
    return say(c, "the files are saved as they are now");
}

static int call_rollback(struct tool_call *c, const void *given, struct tn_error *err)
{
    const struct named_arguments *a = given;
    tn_autosandbox struct tn_sandbox *sb = mcp_sandbox(c->client, a->sandbox, err);

    if (!sb || tn_sandbox_rollback(sb, a->name, tn_deadline_in(120), err) < 0)
        return -1;
    return say(c, "the files are restored; programs that ran have ended");
}

/* --- the table ------------------------------------------------------------------------------ */

#define ROW_OF(kind) .arguments = &kind##_fields, .size = sizeof(struct kind##_arguments)

const struct tool life_tools[] = {
    {
        .name = "sandbox_info",
        .title = "About a sandbox",
        .description =
            "Tells what the sandbox is: operating system, user, directory, network, and how "
            "it is isolated.",
        .hints = TOOL_READ_ONLY | TOOL_IDEMPOTENT,
        ROW_OF(box),
        .result = INFO_RESULT,
        .call = call_info,
    },
    {
        .name = "sandbox_new",
        .title = "Make another sandbox",
        .description = "Makes a further sandbox and returns its id, to be given to other tools. "
                       "Your own is made by itself when you first use a tool.",
        .arguments = &no_fields,
        .size = 1,
        .result = SANDBOX_RESULT,
        .call = call_new,
    },
    {
        .name = "sandbox_list",
        .title = "List sandboxes",
        .description =
            "Lists your sandboxes: the one you work in, and those made by sandbox_new and "
            "sandbox_fork.",
        .hints = TOOL_READ_ONLY | TOOL_IDEMPOTENT,
        .arguments = &no_fields,
        .size = 1,
        .result = LIST_RESULT,
        .call = call_list,
    },
    {
        .name = "sandbox_remove",
        .title = "Remove a sandbox",
        .description =
            "Ends a sandbox and deletes everything in it. If it is your own, the next call "
            "of a tool makes a new one.",
        .hints = TOOL_DESTRUCTIVE | TOOL_IDEMPOTENT,
        ROW_OF(box),
        .call = call_remove,
    },
    {
        .name = "sandbox_fork",
        .title = "Fork a sandbox",
        .description =
            "Copies a sandbox: makes a further one with the same files and returns its id.",
        ROW_OF(box),
        .result = SANDBOX_RESULT,
        .call = call_fork,
    },
    {
        .name = "sandbox_snapshot",
        .title = "Snapshot the files",
        .description = "Saves the state of all files of the sandbox under a name, for "
                       "sandbox_rollback.",
        ROW_OF(named),
        .call = call_snapshot,
    },
    {
        .name = "sandbox_rollback",
        .title = "Restore a snapshot",
        .description =
            "Restores all files of the sandbox to what they were at a snapshot; what runs in "
            "it ends.",
        .hints = TOOL_DESTRUCTIVE | TOOL_IDEMPOTENT,
        ROW_OF(named),
        .call = call_rollback,
    },
    {0},
};
