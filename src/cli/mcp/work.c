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
    bool is_input;
    double timeout;
};

static const struct tn_field shell_rows[] = {
    TOOL_SANDBOX(struct shell_arguments),
    TN_STRING("command", struct shell_arguments, command, .flags = TN_FIELD_REQUIRED,
              .help =
                  "what to run, one line or several; empty: wait for more output of the command "
                  "that still runs"),
    TN_BOOL("is_input", struct shell_arguments, is_input,
            .help = "true: type `command` into the program that still runs instead of running it; "
                    "C-c, C-d and C-z are sent as keys"),
    TN_STRING("session", struct shell_arguments, session, .fallback = "main",
              .help = "which of several shells; a new name makes a new shell; default: main"),
    TIMEOUT(struct shell_arguments),
};
static const struct tn_fields shell_fields = TN_FIELDS(shell_rows);

#define SHELL_RESULT                                                                          \
    "{\"type\":\"object\",\"properties\":{"                                                   \
    "\"output\":{\"type\":\"string\",\"description\":\"what it printed, and how it ended\"}," \
    "\"exit_code\":{\"type\":[\"integer\",\"null\"],\"description\":\"null: it has not "      \
    "ended\"},"                                                                               \
    "\"running\":{\"type\":\"boolean\",\"description\":\"a command still runs in this "       \
    "session\"},"                                                                             \
    "\"working_dir\":{\"type\":[\"string\",\"null\"],\"description\":\"of the shell, when "   \
    "known\"}},"                                                                              \
    "\"required\":[\"output\",\"exit_code\",\"running\",\"working_dir\"]}"

#define HOW_TO_GO_ON                                                                           \
    "Call shell in this session with an empty command to wait for more output, with is_input " \
    "true to type into it, or with is_input true and command C-c to interrupt it."

/* Why the hand stopped waiting, by the word in its metadata; in the words of this tool. */
static const struct ending {
    const char *end;
    bool failed, running;
    const char *text; /* NULL: the hand's own do */
} endings[] = {
    {"completed", false, false, NULL},
    {"shell_exited", false, false, NULL},
    {"no_change_timeout", false, true, "\n[The command is still running. " HOW_TO_GO_ON "]"},
    {"hard_timeout", false, true, "\n[The command is still running. " HOW_TO_GO_ON "]"},
    {"rejected", true, true,
     "\n[Not executed: another command is still running in this session. " HOW_TO_GO_ON "]"},
    {"nothing_running", true, false, ""},
    {"multiple_commands", true, false, NULL},
    {"failed", true, false, NULL},
    {"starting", true, false, NULL},
    {"abandoned", true, true, NULL},
};

/* A hand that gives no word for it (OpenHands' own) has an exit code when the command has ended. */
static const struct ending *ending_of(const struct tn_run_metadata *m)
{
    const char *end = m->end && *m->end                                ? m->end
                      : m->exit_code >= 0                              ? "completed"
                      : m->suffix && strstr(m->suffix, "NOT executed") ? "rejected"
                                                                       : "hard_timeout";

    for (size_t i = 0; i < TN_COUNT(endings); i++)
        if (strcmp(endings[i].end, end) == 0)
            return &endings[i];
    return &endings[0];
}

/* What the sandbox reports of its limits stands at the end of a suffix. */
#define REPORT "\n[The sandbox reports"

static void put_suffix(const struct tn_run_metadata *m, const struct ending *ending,
                       struct tn_buf *text)
{
    const char *suffix = m->suffix ? m->suffix : "";
    const char *report = strstr(suffix, REPORT);

    if (!ending->text)
        tn_buf_puts(text, suffix);
    else
        tn_buf_printf(text, "%s%s", ending->text, report ? report : "");
}

static void put_run(struct tool_call *c, const struct tn_observation *o)
{
    const struct tn_run_metadata *m = &o->run.metadata;
    const struct ending *ending = ending_of(m);
    tn_autobuf struct tn_buf text = TN_BUF_INIT(8 << 20);
    struct tn_jw w = tn_jw(c->data);

    tn_buf_puts(&text, m->prefix ? m->prefix : "");
    tn_put_cut(o->content.data ? o->content.data : "", o->content.len, &text);
    put_suffix(m, ending, &text);
    put_text(c, tn_buf_str(&text), text.len);
    c->failed = ending->failed;
    tn_jw_object(&w);
    tn_jw_kstr(&w, "output", tn_buf_str(&text));
    tn_jw_key(&w, "exit_code");
    m->exit_code >= 0 ? tn_jw_int(&w, m->exit_code) : tn_jw_null(&w);
    tn_jw_kbool(&w, "running", ending->running);
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
    action.run.is_input = a->is_input;
    action.run.script = true;
    action.run.blocking = !a->is_input;
    set_timeout(&action, a->timeout);
    if (mcp_execute(c, a->sandbox, &action, &o, err) < 0)
        return -1;
    if (o.type == TN_OBSERVATION_RUN) {
        put_run(c, &o);
        return 0;
    }
    c->failed = true;
    put_output(c, o.content.data ? o.content.data : "", o.content.len);
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
    bool ran = o.type == TN_OBSERVATION_RUN_IPYTHON;
    c->failed = !ran || o.run_ipython.failed;
    put_output(c, o.content.data ? o.content.data : "", o.content.len);
    if (ran) {
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
    put_output(c, o.content.data ? o.content.data : "", o.content.len);
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
            "Runs a command in a shell (bash where there is one) of the sandbox. The shell keeps "
            "its directory and variables from call to call. A command that takes longer than "
            "timeout goes on running: call again with an empty command for more output, or with "
            "is_input to type into it.",
        .hints = TOOL_DESTRUCTIVE | TOOL_OPEN_WORLD,
        .arguments = &shell_fields,
        .size = sizeof(struct shell_arguments),
        .result = SHELL_RESULT,
        .call = call_shell,
    },
    {
        .name = "python",
        .title = "Run Python",
        .description = "Runs an IPython cell in the sandbox. Variables and imports stay for the "
                       "next cell; pictures that it shows come with the result.",
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
