/* Whether an action may be carried out: judged, blocked, confirmed by somebody, refused. */
#include "base/clock.h"
#include "event/journal.h"
#include "runtime/execute-work.h"
#include "runtime/judging.h"

/* For whoever answers in the very moment in which it is too late. */
#define LAST_SECONDS 5.0
/* To learn where an action's paths lead. */
#define LEAD_SECONDS 5.0

static int refuse(struct tn_work *w, const char *why)
{
    tn_observation_init_error(&w->out->observation, &w->action, "%s", why);
    return tn_work_answer(w);
}

static int block(struct tn_work *w, const struct tn_verdict *v)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(16 << 10);

    tn_buf_puts(&text, "The action was blocked and not carried out: ");
    tn_verdict_put_reason(v, &text);
    return refuse(w, tn_buf_str(&text));
}

void tn_execute_rejected(struct tn_ledger *ledger, const struct tn_pending *p, const char *reason,
                         struct tn_observation *out)
{
    struct tn_action action = p->action; /* borrows everything */

    action.confirmation_state = TN_REJECTED;
    action.event.cause = (struct tn_opt_int){.set = true, .value = p->id};
    action.event.verdict = p->verdict;
    tn_observation_init_unconfirmed(out, &action);
    tn_autofree char *text =
        reason ? tn_asprintf("%s%s%s", out->content.data, *reason ? " " : "", reason)
               : tn_asprintf("Nobody confirmed the action within %.0f s: it was refused.",
                             p->until - p->asked);
    tn_observation_set_content(out, text);
    tn_tell_verdict(out, p->verdict);
    struct tn_noted noted = tn_ledger_begin(ledger, &action, p->key, TN_START_UNKNOWN);
    tn_ledger_end(ledger, &action, &noted, NULL, NULL, out);
}

static int reject(struct tn_work *w, const struct tn_pending *p, const char *reason)
{
    tn_execute_rejected(w->ledger, p, reason, &w->out->observation);
    tn_work_write(w);
    return TN_ANSWERED;
}

/* Nobody has answered so far. */
static int leave_waiting(struct tn_work *w, const struct tn_pending *p)
{
    w->out->pending = p->id;
    tn_observation_init_error(&w->out->observation, &w->action,
                              "The action waits for its confirmation (number %lld), which nobody "
                              "has given yet. It is carried out when somebody confirms it.",
                              (long long)p->id);
    tn_tell_verdict(&w->out->observation, w->verdict ? w->verdict : p->verdict);
    tn_work_write(w);
    return TN_WAITS;
}

/* Somebody else has answered: what became of it. */
static int take_answer(struct tn_work *w, struct tn_journal_reader *r, const struct tn_pending *p,
                       const struct tn_json *answer, struct tn_error *err)
{
    int64_t id = tn_json_int(tn_json_get(answer, "id"), -1);
    tn_autojson struct tn_json *end = NULL;
    struct tn_error why = {0};
    bool rejected = strcmp(tn_json_get_str(tn_json_get(answer, "args"), "confirmation_state", ""),
                           "rejected") == 0;

    if (tn_judging_await(r, TN_EVENT_OBSERVATION, id, w->e->watch, w->deadline, &end, &why)) {
        tn_work_explain(&why, w->out->answer.max, err);
        return TN_LOST;
    }
    tn_ledger_catch_up(w->ledger);
    if (!tn_ledger_knows(w->ledger, p->key)) {
        tn_fail(err, TN_E_INTERNAL, "The journal does not tell what became of the action");
        return TN_LOST;
    }
    w->key = p->key;
    w->waited = true;
    if (!rejected) /* the hand tells it in full */
        return TN_GO_ON;
    if (tn_observation_from_json(end, &w->out->observation, err))
        return TN_LOST;
    tn_work_write(w);
    return TN_ANSWERED;
}

/* Until somebody answers, or nobody may any more. */
static int wait_for(struct tn_work *w, const char *directory, const struct tn_pending *p,
                    struct tn_error *err)
{
    tn_autojournalreader struct tn_journal_reader *r =
        tn_journal_reader_new(directory, p->id + 1, err);
    tn_autojson struct tn_json *answer = NULL;
    int64_t began = tn_now(), until = tn_pending_deadline(p);
    struct tn_error why = {0};

    if (!r)
        return TN_LOST;
    if (w->e->patience == TN_IMPATIENT)
        return leave_waiting(w, p);
    if (w->e->patience == TN_TO_DEADLINE && w->deadline < until)
        until = w->deadline;
    int failed = tn_judging_await(r, TN_EVENT_ACTION, p->id, w->e->watch, until, &answer, &why);
    if (failed && why.code == TN_E_TIMEOUT && tn_pending_is_late(p)) {
        if (tn_pending_claim(directory, p->id))
            return reject(w, p, NULL);
        /* in that very moment somebody answered */
        failed = tn_judging_await(r, TN_EVENT_ACTION, p->id, w->e->watch,
                                  tn_deadline_in(LAST_SECONDS), &answer, &why);
    }
    if (failed && why.code == TN_E_TIMEOUT)
        return leave_waiting(w, p);
    if (failed) {
        if (err)
            *err = why;
        return TN_LOST;
    }
    w->deadline += tn_now() - began; /* its own time begins with the answer */
    return take_answer(w, r, p, answer, err);
}

/* Whoever is there may answer at once. */
static int await_answer(struct tn_work *w, const char *directory, const struct tn_pending *p,
                        struct tn_error *err)
{
    int64_t began = tn_now();
    enum tn_confirmation said = TN_AWAITING_CONFIRMATION;

    if (w->reach->ask)
        said = w->reach->ask(w->ctx, directory, p);
    w->deadline += tn_now() - began;
    if (said == TN_AWAITING_CONFIRMATION || !tn_pending_claim(directory, p->id))
        return wait_for(w, directory, p, err);
    if (said == TN_REJECTED)
        return reject(w, p, tn_pending_is_late(p) ? NULL : "");
    w->action.event.cause = (struct tn_opt_int){.set = true, .value = p->id};
    w->key = p->key;
    return TN_GO_ON;
}

static double seconds_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Somebody has to confirm it: it is put down where it outlives this process. */
static int ask(struct tn_work *w, struct tn_error *err)
{
    const char *directory = tn_ledger_directory(w->ledger);
    struct tn_pending p = {.asked = seconds_now(),
                           .key = (char *)(uintptr_t)w->request.key,
                           .keyed = w->e->key,
                           .rights = w->e->rights,
                           .verdict = w->verdict,
                           .body = (char *)(uintptr_t)w->request.body,
                           .len = w->request.len,
                           .action = w->action};
    struct tn_error why = {0};

    if (tn_action_hidden(&w->action))
        return refuse(w, "The action needs a confirmation, and nobody can be shown one that is "
                         "hidden: it was refused.");
    double seconds = tn_judge_confirm_seconds(w->e->judge);
    if (w->e->confirm_seconds > 0 && w->e->confirm_seconds < seconds)
        seconds = w->e->confirm_seconds;
    p.until = p.asked + seconds;
    w->action.confirmation_state = TN_AWAITING_CONFIRMATION;
    w->noted = tn_ledger_begin(w->ledger, &w->action, NULL, TN_START_UNKNOWN);
    w->action.confirmation_state = TN_CONFIRMED;
    p.id = w->noted.id;
    if (!directory || p.id < 0)
        return refuse(w, "The action needs a confirmation, and its journal cannot be written: it "
                         "was refused.");
    if (tn_pending_save(directory, &p, &why)) {
        tn_observation_init_error(&w->out->observation, &w->action,
                                  "The action needs a confirmation, and was refused: %s", why.text);
        tn_tell_verdict(&w->out->observation, w->verdict);
        tn_ledger_end(w->ledger, &w->action, &w->noted, NULL, NULL, &w->out->observation);
        tn_work_write(w);
        return TN_ANSWERED;
    }
    if (w->reach->noted)
        w->reach->noted(w->ctx, &w->action, p.id);
    return await_answer(w, directory, &p, err);
}

/* One with the same key waits already: whoever asks again waits for the same answer. */
static int ask_again(struct tn_work *w, const struct tn_pending *p, struct tn_error *err)
{
    char mine[TN_ACTION_DIGEST_SIZE], its[TN_ACTION_DIGEST_SIZE];

    tn_action_digest(&w->action, mine);
    tn_action_digest(&p->action, its);
    if (strcmp(mine, its) != 0) {
        tn_fail(err, TN_E_UNPROCESSABLE,
                "This Idempotency-Key was used for another action, which waits for its "
                "confirmation");
        return -1;
    }
    if (p->taken && w->e->patience == TN_IMPATIENT)
        return tn_work_busy(err);
    return wait_for(w, tn_ledger_directory(w->ledger), p, err);
}

/* The hand is asked, which is waked for it: an action that can be carried out is judged by what it
 * would find.  Where it cannot, the judge goes by names alone, which allows nothing. */
static struct tn_json *lead(void *ctx, const char *const *names, size_t count, int64_t deadline,
                            struct tn_error *err)
{
    struct tn_work *w = ctx;
    const char *session = w->action.type == TN_ACTION_RUN ? w->action.run.session : NULL;
    int64_t soon = tn_deadline_in(LEAD_SECONDS);
    struct tn_json *targets = NULL;

    w->reach->enter(w->ctx);
    int failed = w->reach->ready(w->ctx, &w->deadline, err);
    struct tn_hand_client *client = failed ? NULL : w->reach->client(w->ctx, w->deadline, err);
    if (client) {
        targets = tn_hand_client_links(client, session, names, count,
                                       soon < deadline ? soon : deadline, err);
        w->reach->release(w->ctx, client, !targets && err->code != TN_E_UNSUPPORTED);
    }
    w->reach->leave(w->ctx, NULL);
    if (failed) {
        w->unready = *err;
        err->code = TN_E_UNSUPPORTED;
    }
    return targets;
}

static bool is_known(const struct tn_work *w)
{
    return w->key && tn_ledger_knows(w->ledger, w->key);
}

int tn_work_judge(struct tn_work *w, struct tn_error *err)
{
    const char *directory = tn_ledger_directory(w->ledger);
    tn_autobuf struct tn_buf json = TN_BUF_INIT(1 << 20);
    tn_autoverdict struct tn_verdict v = {0};
    struct tn_jw jw = tn_jw(&json);
    struct tn_pending same;
    int64_t began = tn_now();

    if (!w->e->judge || !tn_judging_applies(&w->action) || is_known(w))
        return TN_GO_ON;
    if (w->key && directory && !tn_pending_find(directory, w->key, &same)) {
        int r = ask_again(w, &same, err);
        w->key = w->e->key;
        tn_pending_done(&same);
        return r;
    }
    if (is_known(w)) /* answered between the two looks */
        return TN_GO_ON;
    bool inside = w->action.type != TN_ACTION_CALL_TOOL_MCP && !w->e->perform;
    tn_judging_ask(w->e->judge, w->e->thresholds, w->ledger, &w->action, inside ? lead : NULL, w,
                   w->deadline, &v);
    if (w->e->patience == TN_PATIENT)
        w->deadline += tn_now() - began;
    tn_verdict_to_json(&v, &jw);
    if (tn_json_parse(tn_buf_str(&json), json.len, &w->verdict, err))
        return refuse(w, "The verdict about the action cannot be written: it was refused.");
    w->action.event.verdict = w->verdict;
    if (v.decision != TN_ALLOW && w->reach->judged)
        w->reach->judged(w->ctx, &v);
    switch (v.decision) {
    case TN_ALLOW:
        if (!w->unready.code)
            return TN_GO_ON;
        *err = w->unready;
        return -1;
    case TN_ASK:
        return ask(w, err);
    case TN_BLOCK:
        return block(w, &v);
    }
    return block(w, &v);
}
