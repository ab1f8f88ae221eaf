/* Drives a session on a hand: `session-drive ADDRESS`, one JSON object per line in and out.
 *
 * The first line opens the session ({"workspace", "env", "tokens": [{provider, token, host}],
 * ...}); each further one names an operation ("op") and its arguments.  Answers are {"ok": ...} or
 * {"error", "code"}; statuses and notes come before the answer of what caused them. */
#include "base/clock.h"
#include "runtime/hand-client.h"
#include "runtime/session.h"

struct drive {
    struct tn_config config;
    struct tn_hand_client *client;
    struct tn_stream *stream;
    struct tn_session *session;
    struct tn_toolbox *toolbox;
    const char *address; /* of the hand */
    int refreshed;
    int executed; /* actions that went to the hand */
};

static int execute(void *ctx, const struct tn_action *action, struct tn_observation *observation,
                   struct tn_error *err)
{
    struct drive *d = ctx;

    if (action->type == TN_ACTION_CALL_TOOL_MCP) {
        tn_toolbox_execute(d->toolbox, action, observation);
        return 0;
    }
    d->executed++;
    return tn_hand_client_execute(d->client, action, observation, err);
}

static int reach(void *ctx, char **address, char **key, int64_t deadline, struct tn_error *err)
{
    const struct drive *d = ctx;

    *address = tn_strdup(d->address);
    *key = NULL;
    return 0;
}

static void say(const struct tn_buf *line)
{
    puts(tn_buf_str(line));
    fflush(stdout);
}

static void say_status(const char *level, enum tn_runtime_status status, const char *message,
                       void *ctx)
{
    tn_autobuf struct tn_buf line = TN_BUF_INIT(1 << 16);
    struct tn_jw w = tn_jw(&line);

    tn_jw_object(&w);
    tn_jw_kstr(&w, "status", tn_runtime_status_text(status));
    tn_jw_kstr(&w, "level", level);
    tn_jw_kstr(&w, "message", message);
    tn_jw_object_end(&w);
    say(&line);
}

static void say_note(const char *text, void *ctx)
{
    tn_autobuf struct tn_buf line = TN_BUF_INIT(1 << 16);
    struct tn_jw w = tn_jw(&line);

    tn_jw_object(&w);
    tn_jw_kstr(&w, "note", text);
    tn_jw_object_end(&w);
    say(&line);
}

static char *refresh(enum tn_git_provider provider, const char *session, void *ctx,
                     struct tn_error *err)
{
    struct drive *d = ctx;

    return tn_asprintf("fresh-%s-%s-%d", tn_git_provider_name(provider), session, ++d->refreshed);
}

/* --- operations --------------------------------------------------------------------------- */

static int op_setup(struct drive *d, const struct tn_json *in, struct tn_jw *w,
                    struct tn_error *err)
{
    if (tn_session_setup(d->session, err) < 0)
        return -1;
    tn_jw_int(w, d->executed);
    return 0;
}

static int op_env(struct drive *d, const struct tn_json *in, struct tn_jw *w, struct tn_error *err)
{
    if (tn_session_add_env(d->session, tn_json_get(in, "env"), err) < 0)
        return -1;
    tn_jw_bool(w, true);
    return 0;
}

static struct tn_repository repository(const struct tn_json *in)
{
    struct tn_repository r = {
        .name = tn_json_get_str(in, "repository", NULL),
        .provider = TN_GIT_PROVIDERS,
        .branch = tn_json_get_str(in, "branch", NULL),
    };

    if (tn_json_get(in, "provider"))
        tn_git_provider_find(tn_json_get_str(in, "provider", ""), &r.provider, NULL);
    return r;
}

static int op_clone(struct drive *d, const struct tn_json *in, struct tn_jw *w,
                    struct tn_error *err)
{
    struct tn_repository r = repository(in);
    tn_autofree char *directory = NULL;

    if (tn_session_clone(d->session, &r, &directory, err) < 0)
        return -1;
    tn_jw_str(w, directory);
    return 0;
}

static int op_script(struct drive *d, const struct tn_json *in, struct tn_jw *w,
                     struct tn_error *err)
{
    int ran = tn_session_run_setup_script(d->session, tn_json_get_str(in, "directory", ""), err);

    tn_jw_int(w, ran);
    return ran < 0 ? -1 : 0;
}

static int op_hooks(struct drive *d, const struct tn_json *in, struct tn_jw *w,
                    struct tn_error *err)
{
    int done = tn_session_install_hooks(d->session, tn_json_get_str(in, "directory", ""), err);

    tn_jw_int(w, done);
    return done < 0 ? -1 : 0;
}

static void write_microagents(const struct tn_microagents *list, struct tn_jw *w)
{
    tn_jw_array(w);
    for (size_t i = 0; i < list->count; i++) {
        tn_jw_object(w);
        tn_fields_to_json(&tn_microagent_fields, &list->items[i], w);
        tn_jw_object_end(w);
    }
    tn_jw_array_end(w);
}

static int op_microagents(struct drive *d, const struct tn_json *in, struct tn_jw *w,
                          struct tn_error *err)
{
    tn_automicroagents struct tn_microagents list = {0};
    struct tn_repository r = repository(in);

    if (tn_session_microagents(d->session, &r, tn_json_get_str(in, "directory", ""), &list, err) <
        0)
        return -1;
    write_microagents(&list, w);
    return 0;
}

static int op_prepare(struct drive *d, const struct tn_json *in, struct tn_jw *w,
                      struct tn_error *err)
{
    tn_automicroagents struct tn_microagents list = {0};
    tn_autofree char *directory = NULL;
    struct tn_repository r = repository(in);

    if (tn_session_prepare(d->session, &r, &directory, &list, err) < 0)
        return -1;
    write_microagents(&list, w);
    return 0;
}

static int op_changes(struct drive *d, const struct tn_json *in, struct tn_jw *w,
                      struct tn_error *err)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(1 << 20);

    if (tn_session_git_changes(d->session, tn_json_get_str(in, "cwd", NULL), &json, err) < 0)
        return -1;
    tn_jw_raw(w, json.data, json.len);
    return 0;
}

static int op_diff(struct drive *d, const struct tn_json *in, struct tn_jw *w, struct tn_error *err)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(16 << 20);

    if (tn_session_git_diff(d->session, tn_json_get_str(in, "file", ""),
                            tn_json_get_str(in, "cwd", NULL), &json, err) < 0)
        return -1;
    tn_jw_raw(w, json.data, json.len);
    return 0;
}

static int op_branch(struct drive *d, const struct tn_json *in, struct tn_jw *w,
                     struct tn_error *err)
{
    tn_autofree char *branch =
        tn_session_git_branch(d->session, tn_json_get_str(in, "cwd", NULL), err);

    tn_jw_str(w, branch);
    return branch ? 0 : -1;
}

static int op_action(struct drive *d, const struct tn_json *in, struct tn_jw *w,
                     struct tn_error *err)
{
    tn_autoaction struct tn_action action;
    tn_autoobservation struct tn_observation o;
    struct tn_error why;

    tn_observation_init(&o, TN_OBSERVATION_NULL);
    if (tn_action_from_json(tn_json_get(in, "action"), &action, err) < 0) {
        tn_action_init(&action, TN_ACTION_NULL);
        return -1;
    }
    tn_session_run_action(d->session, &action, &o, &why);
    tn_observation_to_json(&o, w);
    return 0;
}

static int put_tool(const struct tn_tool *tool, void *ctx)
{
    tn_jw_str(ctx, tool->name);
    return 0;
}

/* The names of all tools. */
static int op_tools(struct drive *d, const struct tn_json *in, struct tn_jw *w,
                    struct tn_error *err)
{
    tn_jw_array(w);
    tn_toolbox_list(d->toolbox, tn_deadline_in(60), put_tool, NULL, w);
    tn_jw_array_end(w);
    return 0;
}

static int op_subscribe(struct drive *d, const struct tn_json *in, struct tn_jw *w,
                        struct tn_error *err)
{
    tn_jw_bool(w, true);
    return tn_session_subscribe(d->session, err);
}

/* Adds an action for the subscription, and waits until it was told. */
static int op_add(struct drive *d, const struct tn_json *in, struct tn_jw *w, struct tn_error *err)
{
    tn_autoaction struct tn_action action;
    int64_t id = -1;

    if (tn_action_from_json(tn_json_get(in, "action"), &action, err) < 0) {
        tn_action_init(&action, TN_ACTION_NULL);
        return -1;
    }
    if (tn_stream_add_action(d->stream, &action, TN_SOURCE_AGENT, &id, err) < 0 ||
        tn_stream_flush(d->stream, tn_deadline_in(60), err) < 0)
        return -1;
    tn_jw_int(w, id);
    return 0;
}

static const struct {
    const char *name;
    int (*run)(struct drive *d, const struct tn_json *in, struct tn_jw *w, struct tn_error *err);
} operations[] = {
    {"setup", op_setup},     {"env", op_env},         {"clone", op_clone},
    {"script", op_script},   {"hooks", op_hooks},     {"microagents", op_microagents},
    {"prepare", op_prepare}, {"changes", op_changes}, {"diff", op_diff},
    {"branch", op_branch},   {"action", op_action},   {"subscribe", op_subscribe},
    {"add", op_add},         {"tools", op_tools},
};

/* --- lines -------------------------------------------------------------------------------- */

static int open_session(struct drive *d, const struct tn_json *in, struct tn_error *err)
{
    struct tn_json *tokens = tn_json_get(in, "tokens");
    struct tn_git_token list[8];
    char *plugin[] = {(char[]){"jupyter"}, NULL};
    const struct tn_str_list plugins = {.items = plugin, .count = 1};
    size_t count = 0;

    for (; count < tn_json_count(tokens) && count < TN_COUNT(list); count++) {
        const struct tn_json *t = tn_json_at(tokens, count);
        list[count] = (struct tn_git_token){.token = tn_json_get_str(t, "token", ""),
                                            .host = tn_json_get_str(t, "host", NULL)};
        if (tn_git_provider_find(tn_json_get_str(t, "provider", ""), &list[count].provider, err) <
            0)
            return -1;
    }
    const char *directory = tn_json_get_str(in, "directory", NULL);
    if (directory) {
        const struct tn_stream_options stream = {.directory = directory};
        if (!(d->stream = tn_stream_open(&stream, err)))
            return -1;
    }
    const struct tn_toolbox_options tools = {
        .config = &d->config,
        .reach = reach,
        .reach_ctx = d,
        .session = "drive",
        .note = say_note,
    };
    if (!(d->toolbox = tn_toolbox_new(&tools, err)))
        return -1;
    const struct tn_session_options options = {
        .config = &d->config,
        .toolbox = d->toolbox,
        .execute = execute,
        .execute_ctx = d,
        .workspace = tn_json_get_str(in, "workspace", NULL),
        .directory = directory,
        .stream = d->stream,
        .attached = tn_json_bool(tn_json_get(in, "attached"), false),
        .shared_home = tn_json_bool(tn_json_get(in, "shared_home"), false),
        .plugins = tn_json_bool(tn_json_get(in, "jupyter"), false) ? &plugins : NULL,
        .env = tn_json_get(in, "env"),
        .tokens = list,
        .token_count = count,
        .token_in_url = tn_json_bool(tn_json_get(in, "token_in_url"), false),
        .refresh = tn_json_bool(tn_json_get(in, "refresh"), false) ? refresh : NULL,
        .refresh_ctx = d,
        .status = say_status,
        .note = say_note,
        .ctx = d,
    };
    d->session = tn_session_new(&options, err);
    return d->session ? 0 : -1;
}

static int run_line(struct drive *d, const struct tn_json *in, struct tn_jw *w,
                    struct tn_error *err)
{
    const char *op = tn_json_get_str(in, "op", "");

    if (!d->session) {
        tn_jw_bool(w, true);
        return open_session(d, in, err);
    }
    for (size_t i = 0; i < TN_COUNT(operations); i++)
        if (strcmp(operations[i].name, op) == 0)
            return operations[i].run(d, in, w, err);
    return tn_fail(err, TN_E_INVALID, "no operation '%s'", op);
}

static void answer_line(struct drive *d, const char *line, size_t n)
{
    tn_autojson struct tn_json *in = NULL;
    tn_autobuf struct tn_buf good = TN_BUF_INIT(64 << 20), bad = TN_BUF_INIT(1 << 16);
    struct tn_jw w = tn_jw(&good), e = tn_jw(&bad);
    struct tn_error err = {0};
    int result = tn_json_parse(line, n, &in, &err);

    tn_jw_object(&w);
    tn_jw_key(&w, "ok");
    if (result == 0)
        result = run_line(d, in, &w, &err);
    tn_jw_object_end(&w);
    if (result == 0) {
        say(&good);
        return;
    }
    tn_jw_object(&e);
    tn_jw_kstr(&e, "error", err.text);
    tn_jw_kstr(&e, "code", tn_code_row(err.code)->name);
    tn_jw_object_end(&e);
    say(&bad);
}

int main(int argc, char **argv)
{
    struct drive d = {0};
    struct tn_error err = {0};
    char *line = NULL;
    size_t room = 0;
    ssize_t n;

    if (argc != 2)
        return 2;
    d.address = argv[1];
    if (tn_config_load(&d.config, NULL, &err) < 0 ||
        !(d.client = tn_hand_client_new(argv[1], NULL, &err)) ||
        tn_hand_client_wait(d.client, -1, tn_deadline_in(20), &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    while ((n = getline(&line, &room, stdin)) > 0)
        answer_line(&d, line, (size_t)n);
    free(line);
    tn_session_free(d.session);
    tn_toolbox_free(d.toolbox);
    tn_stream_close(d.stream);
    tn_hand_client_free(d.client);
    tn_config_done(&d.config);
    return 0;
}
