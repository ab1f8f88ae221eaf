#include "cli/tour.h"

#include "base/clock.h"
#include "runtime/hand-plugins.h"

/* What a step's command must end with, besides an exit status. */
enum { RUNNING = -1 };

struct step {
    const char *title; /* starts a new chapter */
    const char *shown; /* how the action is shown, when not by its command */

    const char *command; /* of a run action */
    bool is_input;       /* for the program that runs, not for the shell */

    const char *edit; /* or: the command of an edit action, */
    const char *file; /* a file in the workspace, */
    const char *old;  /* what is replaced in it, */
    const char *text; /* and its new text */

    const char *plugin; /* or: an ability that may be missing; */
    const char *code;   /* a cell of jupyter, */
    const char *url;    /* or a page for the browser */

    double timeout; /* seconds; 0 takes the ordinary one */
    int expected_exit_code;
    const char *expected_text; /* somewhere in the content */
};

#define ORDINARY_SECONDS 10
#define START_SECONDS 60 /* the first use of an ability starts it */

static const struct step steps[] = {
    {.title = "The shell keeps its state from call to call",
     .command = "mkdir sub && cd sub && export GREETING=hello"},
    {.command = "echo \"$GREETING from ${PWD##*/}\"", .expected_text = "hello from sub"},

    {.title = "A file is edited in place",
     .shown = "create greet.sh",
     .edit = "create",
     .file = "greet.sh",
     .text = "#!/bin/sh\n# says who it greets\necho \"hello $1\"\n",
     .expected_text = "File created successfully"},
    {.shown = "str_replace in greet.sh: hello becomes good morning",
     .edit = "str_replace",
     .file = "greet.sh",
     .old = "\"hello $1\"",
     .text = "\"good morning, $1\"",
     .expected_text = "has been edited"},
    {.command = "sh ../greet.sh world", .expected_text = "good morning, world"},

    {.title = "A long command is waited for as long as asked, then polled",
     .command = "for i in 1 2 3; do echo \"part $i\"; sleep 0.3; done; echo \"that is all\"",
     .timeout = 0.5,
     .expected_exit_code = RUNNING,
     .expected_text = "part 1"},
    {.shown = "(the empty command: wait for more)", .command = "", .expected_text = "that is all"},

    {.title = "A stuck program is interrupted, and the shell goes on",
     .command = "sleep 1000",
     .timeout = 0.2,
     .expected_exit_code = RUNNING},
    {.shown = "C-c (as input)", .command = "C-c", .is_input = true, .expected_exit_code = 130},
    {.command = "echo \"$GREETING again\"", .expected_text = "hello again"},

    {.title = "A cell of Python, in a kernel that stays",
     .plugin = "jupyter",
     .code = "import sys\nprint('Python', sys.version.split()[0], 'says', 6 * 7)",
     .timeout = START_SECONDS,
     .expected_text = "says 42"},

    {.title = "A page in the browser",
     .plugin = "browser",
     .url = "data:text/html,<title>Hello</title><h1>A page</h1><p>that an agent can read</p>",
     .timeout = START_SECONDS,
     .expected_text = "that an agent can read"},
};

static struct tn_text text_of(const char *s)
{
    return (struct tn_text){.data = tn_strdup_or_null(s), .len = s ? strlen(s) : 0};
}

static void make_action(struct tn_action *a, const struct step *step, const char *workspace)
{
    if (step->edit) {
        tn_action_init(a, TN_ACTION_EDIT);
        free(a->edit.command);
        a->edit.command = tn_strdup(step->edit);
        a->edit.path = tn_asprintf("%s/%s", workspace, step->file);
        if (step->old) {
            a->edit.old_str = text_of(step->old);
            a->edit.new_str = text_of(step->text);
        } else {
            a->edit.file_text = text_of(step->text);
        }
    } else if (step->code) {
        tn_action_init(a, TN_ACTION_RUN_IPYTHON);
        a->run_ipython.code = tn_strdup(step->code);
        a->run_ipython.include_extra = false;
    } else if (step->url) {
        tn_action_init(a, TN_ACTION_BROWSE);
        a->browse.url = tn_strdup(step->url);
    } else {
        tn_action_init(a, TN_ACTION_RUN);
        a->run.command = tn_strdup(step->command);
        a->run.is_input = step->is_input;
    }
    a->timeout.set = true;
    a->timeout.value = step->timeout > 0 ? step->timeout : ORDINARY_SECONDS;
}

/* What is wrong with the observation, on the heap; NULL when nothing is. */
static char *judge(const struct step *step, const struct tn_observation *o)
{
    const char *content = o->content.data ? o->content.data : "";

    if (o->type == TN_OBSERVATION_ERROR)
        return tn_strdup("this was not meant to fail");
    if (o->type == TN_OBSERVATION_RUN && o->run.metadata.exit_code != step->expected_exit_code)
        return tn_asprintf("expected exit status %d, got %d", step->expected_exit_code,
                           (int)o->run.metadata.exit_code);
    if (step->expected_text && !strstr(content, step->expected_text))
        return tn_asprintf("expected to see \"%s\"", step->expected_text);
    return NULL;
}

char *tour_warm_up(struct tn_sandbox *sb, struct tn_error *err)
{
    static const struct step nothing = {.command = ":", .timeout = 60};
    tn_autoaction struct tn_action action;
    tn_autoobservation struct tn_observation observation;

    make_action(&action, &nothing, NULL);
    tn_observation_init(&observation, TN_OBSERVATION_NULL);
    if (tn_sandbox_execute(sb, &action, &observation, err))
        return NULL;
    if (observation.type == TN_OBSERVATION_RUN && observation.run.metadata.working_dir)
        return TN_TAKE_PTR(observation.run.metadata.working_dir);
    tn_fail(err, TN_E_UNSUPPORTED, "%s", observation.content.data ? observation.content.data : "");
    return NULL;
}

/* --- abilities that may be missing --------------------------------------------------------- */

static bool is(const struct tn_json *plugin, const char *key)
{
    return tn_json_bool(tn_json_get(plugin, key), false);
}

/* What stands in the way, on the heap; NULL when nothing does. */
static char *obstacle(const struct tn_json *plugins, const char *name)
{
    const struct tn_json *plugin = tn_hand_plugin_named(plugins, name);
    const char *install = tn_json_get_str(plugin, "install", NULL);

    if (!plugin)
        return tn_asprintf("this sandbox has no plugin %s", name);
    if (!is(plugin, "usable"))
        return tn_asprintf("not here: %s%s%s", tn_json_get_str(plugin, "missing", ""),
                           install ? "\nto get it: " : "", install ? install : "");
    return is(plugin, "enabled") ? NULL : tn_asprintf("%s was not asked for", name);
}

/* NULL when the hand tells nothing of plugins. */
static struct tn_json *ask_plugins(struct tn_sandbox *sb)
{
    int64_t deadline = tn_deadline_in(ORDINARY_SECONDS);
    struct tn_hand_address at;
    struct tn_json *plugins = NULL;

    if (tn_sandbox_address(sb, &at.address, &at.key, deadline, NULL) == 0)
        tn_hand_plugins(&at, &plugins, deadline, NULL);
    return plugins;
}

/* --- all of it ----------------------------------------------------------------------------- */

static const char *shown(const struct step *step)
{
    const char *const words[] = {step->shown, step->command, step->code, step->url};
    size_t i = 0;

    while (!words[i])
        i++;
    return words[i];
}

/* 0, 1 when it did not end as it should, or -1. */
static int take_step(struct tn_sandbox *sb, const struct step *step, const char *workspace,
                     const struct show *s, struct tn_error *err)
{
    tn_autoaction struct tn_action action;
    tn_autoobservation struct tn_observation observation;

    make_action(&action, step, workspace);
    tn_observation_init(&observation, TN_OBSERVATION_NULL);
    show_action(s, step->code ? "python" : tn_action_name(action.type), shown(step));

    int64_t start = tn_now();
    if (tn_sandbox_execute(sb, &action, &observation, err))
        return -1;
    show_observation(s, &observation, tn_now() - start);

    tn_autofree char *problem = judge(step, &observation);
    if (problem)
        show_problem(s, problem);
    return problem != NULL;
}

int tour(struct tn_sandbox *sb, const char *workspace, const struct show *s, struct tn_error *err)
{
    tn_autojson struct tn_json *plugins = ask_plugins(sb);
    int chapter = 0;
    int failed = 0;

    for (const struct step *step = steps; step < steps + TN_COUNT(steps); step++) {
        tn_autofree char *missing = step->plugin ? obstacle(plugins, step->plugin) : NULL;

        if (step->title)
            show_title(s, ++chapter, step->title);
        if (missing) {
            show_note(s, missing);
            continue;
        }
        int r = take_step(sb, step, workspace, s, err);
        if (r < 0)
            return -1;
        failed += r;
    }
    return failed;
}
