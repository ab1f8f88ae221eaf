#include <sys/ioctl.h>

#include "base/clock.h"
#include "base/utf8.h"
#include "cli/clean.h"
#include "cli/style.h"
#include "cli/verb.h"
#include "event/journal.h"
#include "runtime/recording.h"

#define LINE_MAX_BYTES 4096

struct events_options {
    bool follow, full;
    int64_t from;
    char *sandbox;
};

static const struct tn_field rows[] = {
    TN_BOOL("follow", struct events_options, follow, .flag = "--follow", .letter = 'f',
            .help = "go on with what comes, until ctrl-C or the sandbox's end"),
    TN_INT("from", struct events_options, from, .flag = "--from", .value = "ID", .max = 1e12,
           .help = "begin with this event"),
    TN_BOOL("full", struct events_options, full, .flag = "--full",
            .help = "print whole texts, not only their first lines"),
    TN_STRING("sandbox", struct events_options, sandbox, .flags = TN_FIELD_POSITIONAL,
              .value = VALUE_SANDBOX,
              .help = "id, start of the id, or name [the only one]; or a path, with a slash"),
};
static const struct tn_fields options_table = TN_FIELDS(rows);

struct timeline {
    bool colour, full;
    int width; /* of the screen; 0: lines are not cut */
};

static struct timeline timeline_on_stdout(bool full)
{
    struct timeline t = {.colour = style_wanted(stdout), .full = full};
    struct winsize size;

    if (isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 40)
        t.width = size.ws_col;
    return t;
}

static const char *in(const struct timeline *t, const char *style)
{
    return t->colour ? style : "";
}

/* --- one event on one line -------------------------------------------------------------------- */

/* What it is about, for a person, and the colour that fits. */
static const char *put_action(const struct tn_json *tree, struct tn_buf *out)
{
    tn_autoaction struct tn_action action;

    if (tn_action_from_json(tree, &action, NULL)) {
        tn_action_init(&action, TN_ACTION_NULL);
        tn_buf_puts(out, tn_json_get_str(tree, "message", ""));
        return "";
    }
    if (action.confirmation_state == TN_REJECTED)
        tn_buf_puts(out, "(rejected) ");
    if (action.confirmation_state == TN_AWAITING_CONFIRMATION)
        tn_buf_puts(out, "(waits for confirmation) ");
    if (action.type == TN_ACTION_RUN)
        tn_buf_puts(out, action.run.command);
    else if (action.type == TN_ACTION_EDIT)
        tn_buf_printf(out, "%s %s", action.edit.command, action.edit.path);
    else
        tn_action_put_message(&action, out);
    return STYLE_BOLD;
}

static const char *put_observation(const struct tn_json *tree, struct tn_buf *out)
{
    const char *type = tn_json_get_str(tree, "observation", "");
    const struct tn_json *metadata = tn_json_get(tn_json_get(tree, "extras"), "metadata");
    int64_t exit_code = tn_json_int(tn_json_get(metadata, "exit_code"), -1);
    size_t n;
    const char *content = tn_json_str(tn_json_get(tree, "content"), &n);
    bool run = strcmp(type, "run") == 0;
    bool failed = !run && !tn_json_bool(tn_json_get(tree, "success"), true); /* a cell */
    bool bad = strcmp(type, "error") == 0 || failed || (run && exit_code > 0);

    if (run && exit_code >= 0)
        tn_buf_printf(out, "exit %d%s", (int)exit_code, n ? ": " : "");
    else if (run)
        tn_buf_printf(out, "not finished%s", n ? ": " : "");
    else if (failed)
        tn_buf_printf(out, "failed%s", n ? ": " : "");
    tn_buf_add(out, content, n);
    return bad ? STYLE_RED : "";
}

/* "05:16:50.123" out of 2026-11-15T05:16:50.123456. */
static void print_time(const struct tn_json *tree)
{
    const char *timestamp = tn_json_get_str(tree, "timestamp", "");
    const char *time = strchr(timestamp, 'T');
    char text[16];

    snprintf(text, sizeof text, "%-12.12s", time ? time + 1 : "");
    print_clean(text);
}

/* The text as far as the rest of the line goes; `used` columns of it are taken. */
static void print_first_line(const struct timeline *t, const char *text, int used)
{
    size_t n = strcspn(text, "\n"), room = LINE_MAX_BYTES;

    if (t->width && !t->full)
        room = t->width > used + 4 ? (size_t)(t->width - used - 4) : 1;
    size_t shown = tn_utf8_offset(text, n, room);
    tn_autofree char *line = tn_strndup(text, shown);
    print_clean(line);
    if (!t->full && (shown < n || (text[n] && text[n + 1])))
        fputs(" ...", stdout);
}

/* The lines after the first one, under it. */
static void print_other_lines(const char *text, int margin)
{
    const char *lf = strchr(text, '\n');

    while (lf && lf[1]) {
        text = lf + 1;
        lf = strchr(text, '\n');
        tn_autofree char *line = tn_strndup(text, lf ? (size_t)(lf - text) : strlen(text));
        printf("\n%*s", margin, "");
        print_clean(line);
    }
}

static void print_event(const struct timeline *t, int64_t id, const struct tn_json *tree)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(TN_EVENT_MAX);
    bool action = tn_event_kind(tree) == TN_EVENT_ACTION;
    int64_t cause = tn_json_int(tn_json_get(tree, "cause"), -1);
    const char *style = action ? put_action(tree, &text) : put_observation(tree, &text);
    const char *type = tn_json_get_str(tree, action ? "action" : "observation", "");
    char name[64];

    if (cause >= 0)
        snprintf(name, sizeof name, "%.30s of %lld", type, (long long)cause);
    else
        snprintf(name, sizeof name, "%.30s", type);
    printf("%s%5lld ", in(t, STYLE_DIM), (long long)id);
    print_time(tree);
    printf("%s %s%s %s", in(t, STYLE_PLAIN), in(t, action ? STYLE_CYAN : ""), action ? ">" : "<",
           in(t, action ? "" : STYLE_DIM));
    print_clean(name);
    int used = 21 + (int)strlen(name), pad = used < 40 ? 40 - used : 1;
    printf("%s%*s%s", in(t, STYLE_PLAIN), pad, "", in(t, style));
    print_first_line(t, tn_buf_str(&text), used + pad);
    if (t->full)
        print_other_lines(tn_buf_str(&text), used + pad);
    printf("%s\n", in(t, STYLE_PLAIN));
}

/* --- all of them ------------------------------------------------------------------------------ */

static int print_one(const struct timeline *t, const struct tn_journal_event *event, bool json)
{
    tn_autojson struct tn_json *tree = NULL;

    if (json) {
        fwrite(event->json, 1, event->len, stdout);
        putchar('\n');
    } else if (tn_json_parse(event->json, event->len, &tree, NULL) == 0) {
        print_event(t, event->id, tree);
    }
    return ferror(stdout) ? -1 : 0;
}

/* A session that OpenHands wrote, or a file: what `tendon replay` reads, too. */
static int print_recording(const char *path, const struct events_options *options, bool json,
                           struct tn_error *err)
{
    tn_autorecording struct tn_recording r = {0};
    struct timeline t = timeline_on_stdout(options->full);

    if (tn_recording_load(path, &r, err))
        return -1;
    for (size_t i = 0; i < r.event_count; i++) {
        tn_autobuf struct tn_buf text = TN_BUF_INIT(TN_EVENT_MAX);
        struct tn_jw w = tn_jw(&text);
        int64_t id = tn_json_int(tn_json_get(r.events[i], "id"), (int64_t)i);

        tn_jw_tree(&w, r.events[i]);
        struct tn_journal_event event = {.id = id, .json = tn_buf_str(&text), .len = text.len};
        if (id >= options->from && print_one(&t, &event, json))
            break; /* nobody reads: main says so */
    }
    return 0;
}

static bool has_journal(const char *directory)
{
    tn_autofree char *log = tn_asprintf("%s/" TN_JOURNAL_LOG, directory);

    return access(log, F_OK) == 0;
}

static int print_all(const char *directory, const struct events_options *options, bool json,
                     struct tn_error *err)
{
    tn_autojournalreader struct tn_journal_reader *reader =
        tn_journal_reader_new(directory, options->from, err);
    struct timeline t = timeline_on_stdout(options->full);
    struct tn_journal_event event;
    int found;

    if (!reader)
        return -1;
    for (;;) {
        while ((found = tn_journal_next(reader, &event, err)) == 1)
            if (print_one(&t, &event, json))
                return 0; /* nobody reads: main says so */
        if (found < 0 || fflush(stdout))
            return found;
        if (!options->follow)
            break;
        if (tn_journal_wait(reader, -1, TN_NEVER, err))
            return err->code == TN_E_GONE ? 0 : -1;
    }
    if (tn_journal_damaged(reader))
        fprintf(stderr, "tendon: %lld damaged events are left out\n",
                (long long)tn_journal_damaged(reader));
    return 0;
}

static int run(struct cli *cli, const void *given, struct tn_error *err)
{
    const struct events_options *options = given;

    if (options->sandbox && strchr(options->sandbox, '/')) {
        if (options->follow || has_journal(options->sandbox))
            return print_all(options->sandbox, options, cli->json, err);
        return print_recording(options->sandbox, options, cli->json, err);
    }
    tn_autosandbox struct tn_sandbox *sb = cli_sandbox(cli, options->sandbox, err);
    if (!sb)
        return -1;
    tn_sandbox_note_refusals(sb, NULL, cli_stop_deadline(cli));
    return print_all(tn_sandbox_directory(sb), options, cli->json, err);
}

const struct verb verb_events = {
    .name = "events",
    .group = VERB_LOOK,
    .summary = "print what was done in a sandbox and what came of it",
    .details = "One line for each action (>) and observation (<), with its number and time.\n"
               "With --json every line is the event itself.",
    .options = &options_table,
    .options_size = sizeof(struct events_options),
    .run = run,
};
