#include "cli/ask.h"

#include <poll.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/clean.h"
#include "cli/progress.h"
#include "cli/style.h"

enum { LINE_MAX_BYTES = 200, DIFF_BYTES = 16 << 10 };

/* --- what waits ------------------------------------------------------------------------------- */

static void say(const char *colour, const char *text)
{
    bool coloured = style_wanted(stderr) && *colour;

    fputs(coloured ? colour : "", stderr);
    print_message(stderr, text);
    fputs(coloured ? STYLE_PLAIN : "", stderr);
}

static void show_findings(const struct tn_json *verdict)
{
    const struct tn_json *findings = tn_json_get(verdict, "findings");

    for (size_t i = 0, n = tn_json_count(findings); i < n; i++) {
        const struct tn_json *f = tn_json_at(findings, i);
        const char *rule = tn_json_get_str(f, "rule", ""), *part = tn_json_get_str(f, "part", "");
        tn_autofree char *line = tn_asprintf(
            "  %s: %s%s%s%s%s%s risk)%s%s", tn_json_get_str(f, "analyzer", ""),
            tn_json_get_str(f, "text", ""), *rule ? " (rule " : " (", rule, *rule ? ", " : "",
            tn_json_get_str(f, "risk", "unknown"), "", *part ? ": " : "", part);
        say(STYLE_YELLOW, line);
    }
}

static void show_diff(const struct tn_action *action)
{
    tn_autobuf struct tn_buf diff = TN_BUF_INIT(DIFF_BYTES);

    tn_pending_put_diff(action, &diff);
    for (const char *at = tn_buf_str(&diff); *at;) {
        size_t n = strcspn(at, "\n");
        tn_autofree char *line = tn_strndup(at, n);
        say(*at == '-' ? STYLE_RED : STYLE_GREEN, line);
        at += n + (at[n] == '\n');
    }
    if (!tn_buf_ok(&diff))
        say(STYLE_DIM, "...");
}

/* As the journal shows it: a screen is no place for secrets either. */
static void show_action_of(const char *directory, const struct tn_pending *p)
{
    tn_autojson struct tn_json *event = tn_pending_event(directory, p->id);
    tn_autobuf struct tn_buf text = TN_BUF_INIT(1 << 20);
    struct tn_action action;

    if (!event || tn_action_from_json(event, &action, NULL)) {
        say("", "  (the journal does not tell what it is)");
        return;
    }
    tn_buf_puts(&text, "  ");
    tn_action_put_message(&action, &text);
    say(STYLE_BOLD, tn_buf_str(&text));
    show_diff(&action);
    tn_action_done(&action);
}

void ask_show(const char *sandbox, const char *directory, const struct tn_pending *p)
{
    tn_autofree char *title = tn_asprintf(
        "Action %lld in sandbox %s waits for a confirmation:", (long long)p->id, sandbox);

    say("", title);
    show_action_of(directory, p);
    show_findings(p->verdict);
}

/* --- who is there ----------------------------------------------------------------------------- */

bool ask_can(const struct cli *cli)
{
    return !cli->json && !cli->terminal_taken && isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
}

enum tn_confirmation ask_person(const struct tn_pending *p)
{
    int64_t deadline = tn_pending_deadline(p);
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    char line[LINE_MAX_BYTES];

    fputs("Carry it out? [y/N] ", stderr);
    fflush(stderr);
    int ready;
    do
        ready = poll(&in, 1, tn_poll_ms(deadline));
    while (ready < 0 && errno == EINTR);
    if (ready <= 0) {
        fputs("\nnobody answered in time\n", stderr);
        return TN_AWAITING_CONFIRMATION;
    }
    ssize_t n = read(STDIN_FILENO, line, sizeof line - 1);
    line[n > 0 ? n : 0] = '\0';
    line[strcspn(line, "\r\n")] = '\0';
    bool yes = strcasecmp(line, "y") == 0 || strcasecmp(line, "yes") == 0;
    return yes ? TN_CONFIRMED : TN_REJECTED;
}

enum tn_confirmation ask_at_terminal(void *ctx, const char *sandbox, const char *directory,
                                     const struct tn_pending *p)
{
    const struct cli *cli = ctx;

    progress_pause();
    if (ask_can(cli)) {
        ask_show(sandbox, directory, p);
        return ask_person(p);
    }
    cli_note(cli, "the action waits for its confirmation: tendon confirm %s %lld --yes (or --no)",
             sandbox, (long long)p->id);
    return TN_AWAITING_CONFIRMATION;
}
