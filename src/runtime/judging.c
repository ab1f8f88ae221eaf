#include "runtime/judging.h"

#include <poll.h>

#include "base/clock.h"
#include "event/journal.h"

/* Events that are looked through for the directory of the shell. */
enum { DIRECTORY_LOOK = 32 };

bool tn_judging_applies(const struct tn_action *action)
{
    bool poll_of_output =
        action->type == TN_ACTION_RUN && (!action->run.command || !*action->run.command);

    return tn_action_judged(action->type) && action->confirmation_state == TN_CONFIRMED &&
           !poll_of_output;
}

/* --- what happened before --------------------------------------------------------------------- */

/* The newest events, at most n; the caller ends each, and frees the list. */
static size_t read_recent(const char *directory, size_t n, struct tn_json ***out)
{
    int64_t newest = directory ? tn_journal_newest(directory, NULL) : -1;
    int64_t from = newest + 1 > (int64_t)n ? newest + 1 - (int64_t)n : 0;
    struct tn_json **events = tn_calloc(n ? n : 1, sizeof *events);
    struct tn_journal_event event;
    size_t count = 0;

    tn_autojournalreader struct tn_journal_reader *r =
        newest >= 0 ? tn_journal_reader_new(directory, from, NULL) : NULL;
    while (r && count < n && tn_journal_next(r, &event, NULL) == 1)
        if (tn_json_parse(event.json, event.len, &events[count], NULL) == 0 && events[count])
            count++;
    *out = events;
    return count;
}

/* Where the main shell was after its last command; borrowed, or NULL. */
static const char *shell_directory(struct tn_json *const *events, size_t count)
{
    for (size_t i = count; i-- > 0;) {
        const struct tn_json *metadata = tn_json_get(tn_json_get(events[i], "extras"), "metadata");
        const char *directory = tn_json_get_str(metadata, "working_dir", NULL);
        if (directory && *directory == '/')
            return directory;
    }
    return NULL;
}

/* The directory that the action's relative paths are in; NULL: not known. */
static const char *directory_of(const struct tn_action *a, struct tn_json *const *events,
                                size_t count)
{
    if (a->type == TN_ACTION_RUN && a->run.cwd && *a->run.cwd == '/')
        return a->run.cwd;
    if (a->type == TN_ACTION_RUN && a->run.session)
        return NULL; /* another shell */
    return shell_directory(events, count);
}

void tn_judging_ask(struct tn_judge *judge, const struct tn_thresholds *thresholds,
                    struct tn_ledger *ledger, const struct tn_action *action, tn_lead_fn lead,
                    void *lead_ctx, int64_t deadline, struct tn_verdict *out)
{
    size_t wanted = tn_judge_history(judge);
    size_t look = wanted > DIRECTORY_LOOK ? wanted : DIRECTORY_LOOK;
    struct tn_json **events;

    size_t count = read_recent(tn_ledger_directory(ledger), look, &events);
    size_t told = count < wanted ? count : wanted;
    const struct tn_history history = {.events = events + (count - told), .count = told};
    const struct tn_case c = {.action = action,
                              .cwd = directory_of(action, events, count),
                              .history = &history,
                              .thresholds = thresholds,
                              .lead = lead,
                              .lead_ctx = lead_ctx};
    tn_judge_action(judge, &c, deadline, out);
    for (size_t i = 0; i < count; i++)
        tn_json_free(events[i]);
    free(events);
}

/* --- what happens later ----------------------------------------------------------------------- */

static bool is_readable(const int *fd)
{
    struct pollfd p = {.fd = fd ? *fd : -1, .events = POLLIN};

    return poll(&p, 1, 0) > 0;
}

int tn_judging_await(struct tn_journal_reader *reader, enum tn_event_kind kind, int64_t cause,
                     const int *watch, int64_t deadline, struct tn_json **event,
                     struct tn_error *err)
{
    struct tn_journal_event line;
    int found;

    for (;;) {
        while ((found = tn_journal_next(reader, &line, err)) == 1) {
            tn_autojson struct tn_json *tree = NULL;
            if (tn_json_parse(line.json, line.len, &tree, NULL) || tn_event_kind(tree) != kind ||
                tn_json_int(tn_json_get(tree, "cause"), -1) != cause)
                continue;
            *event = TN_TAKE_PTR(tree);
            return 0;
        }
        if (found < 0)
            return -1;
        if (is_readable(watch) || tn_now() >= deadline)
            return tn_fail(err, TN_E_TIMEOUT, "nothing happened until the deadline");
        struct tn_error why = {0};
        if (tn_journal_wait(reader, watch ? *watch : -1, deadline, &why) &&
            why.code != TN_E_TIMEOUT) {
            if (err)
                *err = why;
            return -1;
        }
    }
}
