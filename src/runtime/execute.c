
#include "base/again.h"
#include "event/process-spec.h"
#include "runtime/execute-work.h"
#include "runtime/sandbox-report.h"

/* To learn which limit a command has met. */
#define LIMITS_SECONDS 5.0

/* Until a shell that does not come to its first command is given up. */
#define SHELL_SECONDS 60.0
/* ...and between two questions for it: whoever answers at once is not asked without end. */
enum { SHELL_MS = 100 };

bool tn_errand_key_fits(const char *key)
{
    size_t n = 0;

    for (; key[n] && n <= TN_KEY_MAX; n++)
        if ((unsigned char)key[n] < ' ' || (unsigned char)key[n] > '~')
            return false;
    return n > 0 && n <= TN_KEY_MAX;
}

/* --- the answer ------------------------------------------------------------------------------- */

bool tn_work_write(struct tn_work *w)
{
    tn_autobuf struct tn_buf whole = {.max = w->out->answer.max, .purse = w->out->answer.purse};
    struct tn_jw jw = tn_jw(&whole);

    if (!w->e->body)
        return true;
    tn_observation_to_json(&w->out->observation, &jw);
    if (!tn_buf_ok(&whole))
        return false;
    struct tn_buf before = w->out->answer;
    w->out->answer = whole;
    whole = before;
    return true;
}

static char *take_news(void *ctx)
{
    const struct tn_work *w = ctx;

    return w->reach->news(w->ctx, w->known);
}

/* Ours in place of whatever is there, which is the word of a stranger; NULL: none. */
static bool set_verdict(struct tn_observation *o, struct tn_json *verdict)
{
    struct tn_json **places[] = {&o->event.verdict,
                                 o->type == TN_OBSERVATION_RUN ? &o->run.metadata.verdict : NULL};
    bool changed = verdict;

    for (size_t i = 0; i < TN_COUNT(places) && places[i]; i++) {
        changed |= *places[i] != NULL;
        tn_json_free(*places[i]);
        *places[i] = tn_json_ref(verdict);
    }
    return changed;
}

bool tn_tell_verdict(struct tn_observation *o, struct tn_json *verdict)
{
    bool allowed = strcmp(tn_json_get_str(verdict, "decision", tn_decision_words[TN_ALLOW]),
                          tn_decision_words[TN_ALLOW]) == 0;

    if (allowed && !tn_json_count(tn_json_get(verdict, "findings")))
        return false;
    return set_verdict(o, verdict);
}

/* Ours and that of a service behind, whose findings say so: the stricter one holds. */
static struct tn_json *join_verdicts(const struct tn_json *ours, const struct tn_json *far)
{
    tn_autoverdict struct tn_verdict both = {.risk = TN_RISK_LOW};
    tn_autobuf struct tn_buf text = TN_BUF_INIT(1 << 20);
    struct tn_jw w = tn_jw(&text);
    struct tn_json *tree = NULL;

    tn_verdict_add_told(&both, ours, "");
    tn_verdict_add_told(&both, far, "behind: ");
    tn_verdict_to_json(&both, &w);
    return tn_json_parse(tn_buf_str(&text), text.len, &tree, NULL) < 0 ? NULL : tree;
}

/* An action that is asked for again is not judged again: the journal knows its verdict. */
static bool tell_verdict(const struct tn_work *w, struct tn_observation *o)
{
    const char *directory = tn_ledger_directory(w->ledger);
    bool before = !w->verdict && w->noted.known && w->noted.id >= 0 && directory;
    tn_autojson struct tn_json *event = before ? tn_pending_event(directory, w->noted.id) : NULL;
    struct tn_json *verdict = w->verdict ? w->verdict : tn_json_get(event, "verdict");
    bool far = w->by_hand && w->e->judged_there && o->event.verdict;
    tn_autojson struct tn_json *both = far ? join_verdicts(verdict, o->event.verdict) : NULL;

    if (w->by_hand && set_verdict(o, NULL)) {
        tn_tell_verdict(o, both ? both : verdict);
        return true;
    }
    return tn_tell_verdict(o, both ? both : verdict);
}

/* The verdict into the bytes as well; those of a hand, with a verdict of its own, are never told
 * instead of ours. */
static void write_verdict(struct tn_work *w)
{
    struct tn_observation *o = &w->out->observation;

    if (!tell_verdict(w, o) || tn_work_write(w))
        return;
    tn_buf_done(&w->out->answer);
    tn_observation_done(o);
    tn_observation_init_error(
        o, &w->action,
        "The action was carried out; its answer is too large to be told with its verdict.");
    tell_verdict(w, o);
    tn_work_write(w);
}

/* There is an observation: what failed may have met a limit of the sandbox. */
static int answered(struct tn_work *w)
{
    struct tn_observation *o = &w->out->observation;
    int64_t look_until = tn_deadline_in(LIMITS_SECONDS);
    bool inside = w->action.type != TN_ACTION_CALL_TOOL_MCP && !w->e->perform;

    if (inside && tn_report_is_due(o) && !w->noted.answered)
        w->reach->look(w->ctx, look_until < w->deadline ? look_until : w->deadline);
    write_verdict(w);
    if (tn_ledger_end(w->ledger, &w->action, &w->noted, inside ? take_news : NULL, w, o))
        tn_work_write(w);
    return TN_ANSWERED;
}

/* The hand's bytes become the observation. */
static int parse_answer(struct tn_work *w, struct tn_error *err)
{
    const struct tn_buf *answer = &w->out->answer;
    tn_autoheld struct tn_held held = {.purse = answer->purse};
    tn_autojson struct tn_json *tree = NULL;
    struct tn_error why = {0};

    if (tn_json_parse_held(tn_buf_str(answer), answer->len, held.purse, &held.bytes, &tree, &why) ||
        tn_observation_from_json(tree, &w->out->observation, &why)) {
        tn_error_context(&why, "the answer of the hand");
        if (why.code != TN_E_BUSY)
            why.code = TN_E_PEER;
        tn_ledger_fail(w->ledger, &w->action, &w->noted, why.text);
        *err = why;
        return TN_UNREADABLE;
    }
    return TN_ANSWERED;
}

static int read_answer(struct tn_work *w, struct tn_error *err)
{
    int r = parse_answer(w, err);

    return r == TN_ANSWERED ? answered(w) : r;
}

/* --- the way there ---------------------------------------------------------------------------- */

void tn_work_explain(const struct tn_error *why, size_t most, struct tn_error *err)
{
    switch ((int)why->code) {
    case TN_E_BUSY:
        tn_fail(err, TN_E_BUSY,
                "The action was carried out, but there is no memory for its answer just now.");
        break;
    case TN_E_TOO_LARGE:
        tn_fail(err, TN_E_PEER, "The answer of the sandbox is larger than %zu MiB", most >> 20);
        break;
    case TN_E_TIMEOUT:
        tn_fail(err, TN_E_TIMEOUT,
                "The sandbox did not answer in time; the action may still be running.");
        break;
    default:
        tn_fail(err, TN_E_PEER, "The hand of the sandbox went away: %s", why->text);
    }
}

static int ended(struct tn_work *w, const struct tn_error *err)
{
    tn_observation_init_error(&w->out->observation, &w->action, "%s", err->text);
    tn_tell_verdict(&w->out->observation, w->verdict);
    return TN_ENDED;
}

/* Sends it once: TN_ANSWERED with the hand's bytes, or what else became of it; -1: asleep
 * before. */
static int send(struct tn_work *w, bool replay, struct tn_error *err)
{
    struct tn_outcome *out = w->out;
    struct tn_error why = {0};

    struct tn_hand_client *client = w->reach->client(w->ctx, w->deadline, err);
    if (!client)
        return TN_LOST;
    w->request.deadline = w->deadline;
    w->request.replay = replay;
    int status = tn_hand_client_send(client, &w->request, &out->answer, &out->again, &why);
    bool far = tn_hand_client_is_far(client);
    /* Whoever answers so is no hand of ours: nobody is sent elsewhere by it. */
    if (status >= 0 && status != 200 && status < 400) {
        tn_fail(&why, TN_E_PEER, "it answered %d, which no hand does", status);
        status = -1;
    }
    if (status >= 400)
        tn_hand_client_refused(client, status, &out->answer, &why);
    w->reach->release(w->ctx, client, status < 0);
    w->by_hand = status == 200;
    if (status == 200)
        return TN_ANSWERED;
    bool ours = status < 0 && (why.code == TN_E_BUSY || why.code == TN_E_TOO_LARGE);
    enum tn_loss loss = ours || (status >= 0 && !far)
                            ? TN_LOSS_NONE
                            : w->reach->lost(w->ctx, status, &why, &w->deadline, err);
    if (loss == TN_LOSS_AGAIN)
        return -1;
    if (loss == TN_LOSS_ENDED)
        return ended(w, err);
    if (loss == TN_LOSS_ASLEEP)
        return TN_LOST;
    if (status >= 0)
        *err = why;
    else
        tn_work_explain(&why, out->answer.max, err);
    out->status = status;
    return status >= 0 ? TN_REFUSED : TN_LOST;
}

static int send_awake(struct tn_work *w, bool replay, struct tn_error *err)
{
    int r = send(w, replay, err);

    if (r < 0)
        r = send(w, replay, err);
    if (r < 0)
        tn_fail(err, TN_E_BUSY, "The sandbox does not stay awake");
    return r < 0 ? TN_LOST : r;
}

/* The words for an answer that is lost. */
static const char *lost_answer(const struct tn_work *w, int status)
{
    if (status == TN_HAND_KEEPS_NOTHING)
        return "This action was sent before, and its hand remembers none; whether it was completed "
               "is not known.";
    if (status == TN_HAND_NOT_KEPT || w->noted.answered)
        return "The action was carried out; its answer is not kept any more.";
    return "The sandbox was started anew while this action was under way; whether it was completed "
           "is not known.";
}

/* What the hand says of an action that it is asked for again and cannot tell. */
static bool is_forgotten(int status)
{
    return status == TN_HAND_NOT_KNOWN || status == TN_HAND_NOT_KEPT ||
           status == TN_HAND_KEEPS_NOTHING;
}

/* ...because it never got there. */
static bool never_arrived(const struct tn_work *w)
{
    return w->out->status == TN_HAND_NOT_KNOWN && !w->noted.answered &&
           w->noted.start != TN_START_UNKNOWN && w->noted.start == w->reach->starts(w->ctx);
}

/* The hand was started anew, or keeps no answers: the journal knows, or nobody. */
static int recollect(struct tn_work *w, struct tn_error *err)
{
    int status = w->out->status;

    w->out->again = true;
    if (w->noted.answered && !tn_ledger_answer(w->ledger, &w->noted, &w->out->answer))
        return read_answer(w, err);
    tn_observation_init_error(&w->out->observation, &w->action, "%s", lost_answer(w, status));
    tn_work_write(w);
    return answered(w);
}

/* Whoever asked for a confirmed action may be gone, and sends it no more: it is sent, with its key,
 * until its shell has read its start-up files, which have their own time. */
static int until_begun(struct tn_work *w, struct tn_error *err)
{
    bool alone = w->action.event.cause.set && !w->e->judge;
    int64_t before = tn_now(), until = tn_deadline_in(SHELL_SECONDS);
    int r = parse_answer(w, err);

    while (alone && r == TN_ANSWERED && tn_observation_is_starting(&w->out->observation) &&
           !w->out->again && tn_look_again_in(SHELL_MS, until)) {
        tn_observation_done(&w->out->observation);
        r = send_awake(w, false, err);
        w->deadline += tn_now() - before;
        before = tn_now();
        if (r == TN_ANSWERED)
            r = parse_answer(w, err);
    }
    return r == TN_ANSWERED ? answered(w) : r;
}

/* The hand carries it out; one that is in the ledger it only tells of, if it can. */
static int by_hand(struct tn_work *w, struct tn_error *err)
{
    int r = send_awake(w, w->noted.known, err);

    if (w->noted.known && r == TN_REFUSED && is_forgotten(w->out->status)) {
        if (!never_arrived(w))
            return recollect(w, err);
        r = send_awake(w, false, err);
    }
    if (r == TN_ANSWERED)
        r = until_begun(w, err);
    if (r == TN_ANSWERED || r == TN_UNREADABLE)
        return r;
    if (!w->noted.known)
        tn_ledger_fail(w->ledger, &w->action, &w->noted, err->text);
    return r;
}

int tn_work_busy(struct tn_error *err)
{
    return tn_fail(err, TN_E_CONFLICT,
                   "The action with this Idempotency-Key is being carried out.");
}

/* Nobody but the ledger knows what became of a call of a tool. */
static int tool_again(struct tn_work *w, struct tn_error *err)
{
    if (w->noted.running)
        return tn_work_busy(err);
    w->out->again = true;
    if (w->noted.answered && !tn_ledger_answer(w->ledger, &w->noted, &w->out->answer))
        return read_answer(w, err);
    tn_observation_init_error(
        &w->out->observation, &w->action,
        "This action was begun before; whether it was completed is not known.");
    tell_verdict(w, &w->out->observation);
    tn_work_write(w);
    return TN_ANSWERED;
}

/* This side does: a tool of an MCP server. */
static int by_tool(struct tn_work *w, struct tn_error *err)
{
    struct tn_observation *o = &w->out->observation;

    if (w->noted.known || !w->tools)
        return tool_again(w, err);
    tn_toolbox_execute(w->tools, &w->action, o);
    tn_work_write(w);
    if (w->e->body && !w->out->answer.len) {
        tn_observation_done(o);
        tn_observation_init_error(o, &w->action, "The answer of the tool is too large");
        tn_work_write(w);
    }
    return answered(w);
}

/* --- the order of things ---------------------------------------------------------------------- */

int tn_work_answer(struct tn_work *w)
{
    w->noted = tn_ledger_begin(w->ledger, &w->action, NULL, TN_START_UNKNOWN);
    tn_tell_verdict(&w->out->observation, w->verdict);
    tn_ledger_end(w->ledger, &w->action, &w->noted, NULL, NULL, &w->out->observation);
    tn_work_write(w);
    return TN_ANSWERED;
}

/* A process whose command line is another than what would be judged is not even sent. */
static bool is_no_process(struct tn_work *w)
{
    tn_autoprocess struct tn_process_spec spec = {0};
    struct tn_error why = {0};

    if (tn_action_process(&w->action, &spec, &why) >= 0)
        return false;
    tn_observation_init_not_started(&w->out->observation, &w->action, &why);
    return true;
}

/* What nobody has to carry out: a thought, an action that its user rejected or has not confirmed,
 * one that makes no sense. */
static bool answer_here(struct tn_work *w)
{
    bool held = w->action.type == TN_ACTION_NETWORK && w->e->perform;

    if (!tn_observation_init_unconfirmed(&w->out->observation, &w->action) &&
        (held || !tn_observation_init_by_host(&w->out->observation, &w->action)) &&
        !is_no_process(w))
        return false;
    tn_work_answer(w);
    return true;
}

/* Notes it: 0, or -1 when its key is that of another action. */
static int note(struct tn_work *w, struct tn_error *err)
{
    w->noted = tn_ledger_begin(w->ledger, &w->action, w->key,
                               w->key ? w->reach->starts(w->ctx) : TN_START_UNKNOWN);
    if (w->noted.other)
        return tn_fail(err, TN_E_UNPROCESSABLE,
                       "This Idempotency-Key was used for another action: each action needs a key "
                       "of its own");
    if (w->noted.id >= 0 && !w->noted.known && w->reach->noted)
        w->reach->noted(w->ctx, &w->action, w->noted.id);
    return 0;
}

/* -1: there are none, and *r is what becomes of the action. */
static int open_tools(struct tn_work *w, int *r, struct tn_error *err)
{
    if ((w->tools = w->reach->tools(w->ctx, err)))
        return 0;
    *r = -1;
    if (err->code != TN_E_BUSY) {
        tn_observation_init_error(&w->out->observation, &w->action, "%s", err->text);
        *r = tn_work_answer(w);
    }
    return -1;
}

/* The tools are opened before it is noted, for a refusal keeps no key; and once, however many ask
 * for the same at that moment: they take memory. */
static int call_tool(struct tn_work *w, struct tn_error *err)
{
    enum tn_claim claim = w->key ? tn_ledger_claim(w->ledger, w->key) : TN_CLAIM_MINE;
    int r = 0;

    if (claim == TN_CLAIM_OTHERS)
        return tn_work_busy(err);
    int failed = (claim == TN_CLAIM_MINE && open_tools(w, &r, err)) || (r = note(w, err));
    if (w->key && claim == TN_CLAIM_MINE)
        tn_ledger_unclaim(w->ledger, w->key);
    return failed ? r : by_tool(w, err);
}

/* The caller carries it out. */
static int by_caller(struct tn_work *w, struct tn_error *err)
{
    if (note(w, err))
        return -1;
    if (w->noted.known)
        return tool_again(w, err);
    w->e->perform(w->e->perform_ctx, &w->action, &w->out->observation);
    tn_work_write(w);
    return answered(w);
}

static int carry_out(struct tn_work *w, struct tn_error *err)
{
    if (w->e->perform)
        return by_caller(w, err);
    if (w->action.type == TN_ACTION_CALL_TOOL_MCP)
        return call_tool(w, err);
    if (w->reach->ready(w->ctx, &w->deadline, err))
        return -1;
    w->known = w->reach->known(w->ctx);
    int r = note(w, err) ? -1 : by_hand(w, err);
    free(w->known);
    return r;
}

/* --- all of it -------------------------------------------------------------------------------- */

static int use(struct tn_work *w, struct tn_error *err)
{
    w->reach->enter(w->ctx);
    int r = carry_out(w, err);
    w->reach->leave(w->ctx, r == TN_ANSWERED ? &w->out->observation : NULL);
    if (w->waited)
        w->out->again = false; /* for its caller it was done now */
    return r;
}

static int run(const struct tn_errand *e, struct tn_work *w, struct tn_error *err)
{
    tn_autobuf struct tn_buf made = TN_BUF_INIT(TN_HAND_BODY_MAX);
    struct tn_action action = *e->action; /* borrows everything */
    char key[TN_HAND_KEY_SIZE];

    if (!action.timeout.set || action.timeout.value <= 0)
        action.timeout = (struct tn_opt_double){.set = true, .value = e->seconds};
    w->deadline = tn_deadline_in(action.timeout.value + e->grace);
    w->ledger = e->reach->ledger(e->ctx);
    w->key = e->key;
    if (answer_here(w))
        return TN_ANSWERED;
    /* The same key and the same bytes, however often it has to be sent. */
    w->request = (struct tn_hand_request){
        .body = e->body, .len = e->len, .key = e->key ? e->key : key, .headers = e->headers};
    if (!e->key && tn_hand_make_key(key, err))
        return -1;
    if (!e->body) {
        if (tn_hand_write_request(&action, &made, err))
            return -1;
        w->request.body = tn_buf_str(&made);
        w->request.len = made.len;
    }
    int64_t deadline = w->deadline;
    int r = tn_work_judge(w, err);
    w->out->held_up = w->deadline - deadline;
    return r == TN_GO_ON ? use(w, err) : r;
}

static int execute(const struct tn_errand *e, struct tn_work *w, struct tn_error *err)
{
    struct tn_error why = {0};

    if (e->key && !tn_errand_key_fits(e->key))
        return tn_fail(err, TN_E_INVALID, "Idempotency-Key: expected 1 to %d printable characters",
                       TN_KEY_MAX);
    int r = run(e, w, &why);
    if (r != TN_ANSWERED && err)
        *err = why;
    return r;
}

int tn_execute_errand(const struct tn_errand *e, struct tn_outcome *out, struct tn_error *err)
{
    struct tn_work w = {.e = e, .reach = e->reach, .ctx = e->ctx, .out = out, .action = *e->action};

    /* a stranger's words */
    w.action.event.cause = (struct tn_opt_int){0};
    w.action.event.verdict = NULL;
    int r = execute(e, &w, err);
    tn_json_free(w.verdict);
    return r;
}

int tn_execute_confirmed(const struct tn_errand *errand, const struct tn_pending *p,
                         struct tn_outcome *out, struct tn_error *err)
{
    struct tn_errand e = *errand;
    struct tn_work w = {.e = &e, .reach = e.reach, .ctx = e.ctx, .out = out, .action = p->action};

    e.action = &p->action;
    e.body = p->body;
    e.len = p->len;
    e.key = p->key;
    e.judge = NULL;
    w.verdict = p->verdict;
    w.action.event.verdict = p->verdict;
    w.action.event.cause = (struct tn_opt_int){.set = true, .value = p->id};
    return execute(&e, &w, err);
}
