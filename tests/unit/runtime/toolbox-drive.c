/* Drives a toolbox: `toolbox-drive [ADDRESS of a hand]`, one JSON object per line in and out.
 *
 * Servers are those of the configuration (MCP_SSE_SERVERS and so on in the environment).  Lines:
 * {"op": "call", "name", "arguments", "timeout"} is answered with the observation, {"op": "list"}
 * with {"tools": [{"server", "name"}], "problems": [text]}, {"op": "microagent", "mcp_tools"} and
 * {"op": "program", "command"} with {"ok": true} or {"error"}.  {"note"} may come before. */
#include "base/clock.h"
#include "runtime/toolbox.h"

static const char *hand;

static int reach(void *ctx, char **address, char **key, int64_t deadline, struct tn_error *err)
{
    *address = tn_strdup(hand);
    *key = tn_strdup("hand-key");
    return 0;
}

static void say(struct tn_buf *line)
{
    puts(tn_buf_str(line));
    fflush(stdout);
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

/* --- operations --------------------------------------------------------------------------- */

struct listing {
    struct tn_jw tools, problems;
};

static int put_tool(const struct tn_tool *tool, void *ctx)
{
    struct listing *l = ctx;

    tn_jw_object(&l->tools);
    tn_jw_kstr(&l->tools, "server", tool->server);
    tn_jw_kstr(&l->tools, "name", tool->name);
    tn_jw_object_end(&l->tools);
    return 0;
}

static void put_problem(const char *server, const struct tn_error *why, void *ctx)
{
    struct listing *l = ctx;

    tn_jw_str(&l->problems, why->text);
}

static void list(struct tn_toolbox *t, struct tn_jw *w)
{
    tn_autobuf struct tn_buf tools = TN_BUF_INIT(64 << 20), problems = TN_BUF_INIT(1 << 20);
    struct listing l = {.tools = tn_jw(&tools), .problems = tn_jw(&problems)};

    tn_jw_array(&l.tools);
    tn_jw_array(&l.problems);
    tn_toolbox_list(t, tn_deadline_in(60), put_tool, put_problem, &l);
    tn_jw_array_end(&l.tools);
    tn_jw_array_end(&l.problems);
    tn_jw_object(w);
    tn_jw_key(w, "tools");
    tn_jw_raw(w, tn_buf_str(&tools), tools.len);
    tn_jw_key(w, "problems");
    tn_jw_raw(w, tn_buf_str(&problems), problems.len);
    tn_jw_object_end(w);
}

static void call(struct tn_toolbox *t, const struct tn_json *in, struct tn_jw *w)
{
    tn_autoaction struct tn_action action;
    tn_autoobservation struct tn_observation o;
    struct tn_json *arguments = tn_json_get(in, "arguments");

    tn_action_init(&action, TN_ACTION_CALL_TOOL_MCP);
    action.call_tool_mcp.name = tn_strdup(tn_json_get_str(in, "name", ""));
    if (arguments) {
        tn_json_free(action.call_tool_mcp.arguments);
        action.call_tool_mcp.arguments = tn_json_ref(arguments);
    }
    action.timeout = (struct tn_opt_double){
        .set = true, .value = tn_json_double(tn_json_get(in, "timeout"), 60)};
    tn_toolbox_execute(t, &action, &o);
    tn_observation_to_json(&o, w);
}

static void answer(struct tn_toolbox *t, const struct tn_json *in, struct tn_jw *w)
{
    const char *op = tn_json_get_str(in, "op", "");
    struct tn_error err = {0};
    int result = -1;

    if (strcmp(op, "list") == 0) {
        list(t, w);
        return;
    }
    if (strcmp(op, "call") == 0) {
        call(t, in, w);
        return;
    }
    if (strcmp(op, "microagent") == 0)
        result = tn_toolbox_add_microagent(t, tn_json_get(in, "mcp_tools"), &err);
    else if (strcmp(op, "program") == 0)
        result = tn_toolbox_add_program(t, tn_json_get_str(in, "command", ""), &err);
    tn_jw_object(w);
    if (result < 0)
        tn_jw_kstr(w, "error", err.text);
    else
        tn_jw_kbool(w, "ok", true);
    tn_jw_object_end(w);
}

int main(int argc, char **argv)
{
    struct tn_config config;
    struct tn_error err = {0};
    tn_autofree char *line = NULL;
    size_t room = 0;
    ssize_t n;

    hand = argc > 1 ? argv[1] : NULL;
    if (tn_config_load(&config, "/dev/null", &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    const struct tn_toolbox_options options = {
        .config = &config, .reach = hand ? reach : NULL, .session = "drive", .note = say_note};
    struct tn_toolbox *t = tn_toolbox_new(&options, &err);
    while (t && (n = getline(&line, &room, stdin)) > 0) {
        tn_autojson struct tn_json *in = NULL;
        tn_autobuf struct tn_buf out = TN_BUF_INIT(256 << 20);
        struct tn_jw w = tn_jw(&out);
        tn_json_parse(line, (size_t)n, &in, NULL);
        answer(t, in, &w);
        say(&out);
    }
    tn_toolbox_free(t);
    tn_config_done(&config);
    return 0;
}
