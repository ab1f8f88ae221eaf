/* Shell, Python and browser: each call is an action for the hand of a sandbox. */
#include "cli/mcp/mcp.h"

static void set_timeout(struct tn_action *a, double seconds)
{
    a->timeout = (struct tn_opt_double){.set = true, .value = seconds};
}

#define TIMEOUT(strukt)                                                                \
    TN_DOUBLE("timeout", strukt, timeout, .fallback = "120", .min = 0.1, .max = 86400, \
              .help = "seconds it may take; default 120")

/* --- shell ---------------------------------------------------------------------------------- */

struct shell_arguments {
    char *sandbox;
    char *command, *session;
    bool input;
    double timeout;
};

static const struct tn_field shell_rows[] = {
    TOOL_SANDBOX(struct shell_arguments),
    TN_STRING("command", struct shell_arguments, command, .flags = TN_FIELD_REQUIRED,
              .help = "what to run; empty: wait for more output of what still runs"),
    TN_BOOL("input", struct shell_arguments, input,
            .help = "type the command into the program that runs, or a key such as C-c"),
    TN_STRING("session", struct shell_arguments, session, .fallback = "main",
              .help = "which of several shells; a new name makes a new shell"),
    TIMEOUT(struct shell_arguments),
};
static const struct tn_fields shell_fields = TN_FIELDS(shell_rows);

static void put_run(struct tool_call *c, const struct tn_observation *o)
{
    const struct tn_run_metadata *m = &o->run.metadata;
    tn_autobuf struct tn_buf text = TN_BUF_INIT(8 << 20);
    struct tn_jw w = tn_jw(c->data);

    tn_buf_puts(&text, m->prefix ? m->prefix : "");
    tn_put_cut(o->content.data ? o->content.data : "", o->content.len, &text);
    tn_buf_puts(&text, m->suffix ? m->suffix : "");
    put_text(c, tn_buf_str(&text), text.len);
    tn_jw_object(&w);
    tn_jw_key(&w, "exit_code");
    m->exit_code >= 0 ? tn_jw_int(&w, m->exit_code) : tn_jw_null(&w);
    tn_jw_kbool(&w, "running", m->exit_code < 0);
    tn_jw_kstr(&w, "working_dir", m->working_dir);
    tn_jw_object_end(&w);
}

static int call_shell(struct tool_call *c, const void *given, struct tn_error *err)
{
    const struct shell_arguments *a = given;
    tn_autoaction struct tn_action action;
    tn_autoobservation struct tn_observation o;

    tn_observation_init(&o, TN_OBSERVATION_NULL);
    tn_action_init(&action, TN_ACTION_RUN);
    action.run.command = tn_strdup(a->command);
    action.run.session = tn_strdup(a->session);
    action.run.is_input = a->input;
    action.run.script = true;
    action.run.blocking = !a->input;
    set_timeout(&action, a->timeout);
    if (mcp_execute(c, a->sandbox, &action, &o, err) < 0)
        return -1;
    if (o.type == TN_OBSERVATION_RUN) {
        put_run(c, &o);
        return 0;
    }
    c->failed = true;
    put_text(c, o.content.data ? o.content.data : "", o.content.len);
    return 0;
}

/* --- python --------------------------------------------------------------------------------- */

struct python_arguments {
    char *sandbox;
    char *code;
    double timeout;
};

static const struct tn_field python_rows[] = {
    TOOL_SANDBOX(struct python_arguments),
    TN_STRING("code", struct python_arguments, code, .flags = TN_FIELD_REQUIRED,
              .help = "an IPython cell; variables stay for the next one"),
    TIMEOUT(struct python_arguments),
};
static const struct tn_fields python_fields = TN_FIELDS(python_rows);

static int call_python(struct tool_call *c, const void *given, struct tn_error *err)
{
    const struct python_arguments *a = given;
    tn_autoaction struct tn_action action;
    tn_autoobservation struct tn_observation o;

    tn_observation_init(&o, TN_OBSERVATION_NULL);
    tn_action_init(&action, TN_ACTION_RUN_IPYTHON);
    action.run_ipython.code = tn_strdup(a->code);
    set_timeout(&action, a->timeout);
    if (mcp_execute(c, a->sandbox, &action, &o, err) < 0)
        return -1;
    c->failed = o.type != TN_OBSERVATION_RUN_IPYTHON;
    put_text(c, o.content.data ? o.content.data : "", o.content.len);
    if (!c->failed) {
        for (size_t i = 0; i < o.run_ipython.image_urls.count; i++)
            put_image(c, o.run_ipython.image_urls.items[i]);
    }
    return 0;
}

/* --- browser -------------------------------------------------------------------------------- */

struct browser_arguments {
    char *sandbox;
    char *actions;
    bool screenshot;
    double timeout;
};

static const struct tn_field browser_rows[] = {
    TOOL_SANDBOX(struct browser_arguments),
    TN_STRING("actions", struct browser_arguments, actions, .flags = TN_FIELD_REQUIRED,
              .help = "calls such as goto(\"http://localhost:8000\"), click(\"12\"), "
                      "fill(\"14\", \"text\"), press(\"14\", \"Enter\"), scroll(0, 200), "
                      "go_back(), noop(500); the answer shows the ids of elements"),
    TN_BOOL("screenshot", struct browser_arguments, screenshot,
            .help = "show the page as a picture too"),
    TIMEOUT(struct browser_arguments),
};
static const struct tn_fields browser_fields = TN_FIELDS(browser_rows);

static int show_page(struct tool_call *c, const char *sandbox, const struct tn_action *action,
                     bool screenshot, struct tn_error *err)
{
    tn_autoobservation struct tn_observation o;

    tn_observation_init(&o, TN_OBSERVATION_NULL);
    if (mcp_execute(c, sandbox, action, &o, err) < 0)
        return -1;
    put_text(c, o.content.data ? o.content.data : "", o.content.len);
    c->failed =
        o.type == TN_OBSERVATION_ERROR || (o.type == TN_OBSERVATION_BROWSE && o.browse.error);
    if (o.type == TN_OBSERVATION_BROWSE && screenshot)
        put_image(c, o.browse.screenshot);
    return 0;
}

static int call_browser(struct tool_call *c, const void *given, struct tn_error *err)
{
    const struct browser_arguments *a = given;
    tn_autoaction struct tn_action action;

    tn_action_init(&action, TN_ACTION_BROWSE_INTERACTIVE);
    action.browse_interactive.browser_actions = tn_strdup(a->actions);
    set_timeout(&action, a->timeout);
    return show_page(c, a->sandbox, &action, a->screenshot, err);
}

struct browse_arguments {
    char *sandbox;
    char *url;
    bool screenshot;
    double timeout;
};

static const struct tn_field browse_rows[] = {
    TOOL_SANDBOX(struct browse_arguments),
    TN_STRING("url", struct browse_arguments, url, .flags = TN_FIELD_REQUIRED,
              .help = "with http:// or https://"),
    TN_BOOL("screenshot", struct browse_arguments, screenshot,
            .help = "show the page as a picture too"),
    TIMEOUT(struct browse_arguments),
};
static const struct tn_fields browse_fields = TN_FIELDS(browse_rows);

static int call_browse(struct tool_call *c, const void *given, struct tn_error *err)
{
    const struct browse_arguments *a = given;
    tn_autoaction struct tn_action action;

    tn_action_init(&action, TN_ACTION_BROWSE);
    action.browse.url = tn_strdup(a->url);
    set_timeout(&action, a->timeout);
    return show_page(c, a->sandbox, &action, a->screenshot, err);
}

/* --- the table ------------------------------------------------------------------------------ */

const struct tool work_tools[] = {
    {
        .name = "shell",
        .title = "Run a command",
        .description =
            "Runs a command in a shell of a sandbox that is yours alone. The shell keeps its "
            "directory and variables from call to call. A command that takes longer than timeout "
            "goes on: call again with an empty command for more output, or with input to type.",
        .hints = TOOL_DESTRUCTIVE | TOOL_OPEN_WORLD,
        .arguments = &shell_fields,
        .size = sizeof(struct shell_arguments),
        .call = call_shell,
    },
    {
        .name = "python",
        .title = "Run Python",
        .description = "Runs an IPython cell in the sandbox; pictures it shows come along.",
        .hints = TOOL_DESTRUCTIVE | TOOL_OPEN_WORLD,
        .arguments = &python_fields,
        .size = sizeof(struct python_arguments),
        .call = call_python,
    },
    {
        .name = "browse",
        .title = "Open a page",
        .description = "Opens a page in the sandbox's browser and returns its text.",
        .hints = TOOL_OPEN_WORLD,
        .arguments = &browse_fields,
        .size = sizeof(struct browse_arguments),
        .call = call_browse,
    },
    {
        .name = "browser",
        .title = "Use the browser",
        .description = "Carries out actions in the sandbox's browser and returns the accessibility "
                       "tree of the page, with the id of each element.",
        .hints = TOOL_DESTRUCTIVE | TOOL_OPEN_WORLD,
        .arguments = &browser_fields,
        .size = sizeof(struct browser_arguments),
        .call = call_browser,
    },
    {0},
};
