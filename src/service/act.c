/* Actions on their way to a hand: sent as they came, answered as the hand answers, journaled. */
#include "base/clock.h"
#include "runtime/hand-answer.h"
#include "runtime/sandbox-report.h"
#include "service/desk.h"
#include "service/metrics.h"
#include "service/proxy.h"
#include "service/timing.h"

/* An action without a timeout of its own is given up after this. */
#define LONGEST_SECONDS 3600.0
/* The hand answers within a second after the timeout, and so does the service. */
#define GRACE_SECONDS 0.9
/* To learn what became of a sandbox that does not answer any more. */
#define LOOK_SECONDS 1.0
/* To learn which limit a command has met; the library takes as long. */
#define LIMITS_SECONDS 5.0

enum { MAX_KEY = 255, TEXT_BYTES = 120, READ_BYTES = 4096 };

/* What a list of sandboxes shows of its last action. */
static const char *subject_of(const struct tn_action *a)
{
    switch ((int)a->type) {
    case TN_ACTION_RUN:
        return a->run.command;
    case TN_ACTION_RUN_IPYTHON:
        return a->run_ipython.code;
    case TN_ACTION_READ:
        return a->read.path;
    case TN_ACTION_WRITE:
        return a->write.path;
    case TN_ACTION_EDIT:
        return a->edit.path;
    case TN_ACTION_BROWSE:
        return a->browse.url;
    case TN_ACTION_BROWSE_INTERACTIVE:
        return a->browse_interactive.browser_actions;
    case TN_ACTION_CALL_TOOL_MCP:
        return a->call_tool_mcp.name;
    default:
        return NULL;
    }
}

/* Bytes of a purse, until the end of a scope. */
struct held {
    struct tn_purse *purse;
    size_t bytes;
};
static void held_done(const struct held *h)
{
    tn_purse_give(h->purse, h->bytes);
}
#define autoheld TN_CLEANUP(held_done)

static void tell(struct box *b, struct desk *d, const struct tn_action *a, int64_t id)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(8 << 10), shown = TN_BUF_INIT(1 << 20);
    const char *subject = subject_of(a);

    tn_buf_puts(&text, a->type == TN_ACTION_PLUGIN ? a->plugin.name : tn_action_name(a->type));
    if (subject) /* cut far behind what is shown, so that no half of a secret is */
        tn_buf_printf(&text, ": %.*s", READ_BYTES, subject);
    if (desk_hide(d, tn_buf_str(&text), &shown))
        return;
    tn_buf_cut(&shown, strcspn(tn_buf_str(&shown), "\n"));
    size_t n = shown.len < TEXT_BYTES ? shown.len : TEXT_BYTES;
    while (n < shown.len && n > 0 && (shown.data[n] & 0xC0) == 0x80)
        n--; /* not in the middle of a letter */
    tn_buf_cut(&shown, n);
    box_note_action(b, id, tn_buf_str(&shown));
}

static bool usable_key(const char *key)
{
    size_t n = 0;

    for (; key[n] && n <= MAX_KEY; n++)
        if ((unsigned char)key[n] < ' ' || (unsigned char)key[n] > '~')
            return false;
    return n > 0 && n <= MAX_KEY;
}

/* Nobody answered: say what became of the sandbox, as far as it can be known in time. */
static int explain(struct box *b, const struct tn_error *why, int64_t deadline,
                   struct tn_error *err)
{
    static const unsigned ended =
        1u << BOX_PAUSED | 1u << BOX_STOPPED | 1u << BOX_ERROR | 1u << BOX_MISSING;
    int64_t look_until = tn_deadline_in(LOOK_SECONDS);

    if (why->code == TN_E_BUSY)
        return tn_fail(err, TN_E_BUSY,
                       "The action was carried out, but there is no memory for its answer just "
                       "now. Ask again with the same Idempotency-Key to have it.");
    if (why->code == TN_E_TOO_LARGE)
        return tn_fail(err, TN_E_PEER, "The answer of the sandbox is larger than %d MiB",
                       OBSERVATION_MAX >> 20);
    box_suspect(b);
    if (why->code == TN_E_TIMEOUT)
        return tn_fail(err, TN_E_TIMEOUT,
                       "The sandbox did not answer in time; the action may still be running. Ask "
                       "again with the same Idempotency-Key to learn what became of it.");
    if (box_wait(b, ended, look_until < deadline ? look_until : deadline, NULL) == 0) {
        autoview struct box_view view;
        box_look(b, &view);
        return tn_fail(err, TN_E_PEER, "The sandbox has ended under the action (%s)%s%s",
                       box_state_words[view.state], view.reason ? ": " : "",
                       view.reason ? view.reason : "");
    }
    return tn_fail(err, TN_E_PEER, "The hand of the sandbox went away: %s", why->text);
}

struct errand {
    struct box *box;
    struct desk *desk;
    const char *body;
    size_t len;
    const char *idempotency, *request;
    int64_t deadline;
    char *address, *key; /* of the hand */
};

/* What a hand answers that is to tell of an action, not to carry it out, and knows none. */
enum { NOT_KNOWN = 412, NOT_KEPT = 410 }; /* ...or knows that it was done, and not how it ended */

/* The hand's answer as it comes: its status, or -1. */
static int send(const struct errand *e, bool expect_known, bool *again, struct tn_buf *out,
                struct tn_error *err)
{
    char headers[160];
    struct tn_error why = {0};
    struct tn_hand_request r = {.body = e->body,
                                .len = e->len,
                                .key = e->idempotency,
                                .headers = headers,
                                .deadline = e->deadline};

    snprintf(headers, sizeof headers, "X-Request-Id: %.64s\r\n%s", e->request ? e->request : "-",
             expect_known ? "Idempotency-Expect: replay\r\n" : "");
    struct tn_hand_client *client = desk_client(e->desk, e->address, e->key, err);
    if (!client)
        return -1;
    timing_enter(TIMING_BACKEND);
    int status = tn_hand_client_send(client, &r, out, again, &why);
    timing_leave();
    if (status == 200 || status >= 400) {
        desk_put_client(e->desk, e->address, client);
        return status;
    }
    /* Whoever answers so is no hand of ours: no client of the service is sent elsewhere by it. */
    if (status >= 0)
        tn_fail(&why, TN_E_PEER, "it answered %d, which no hand does", status);
    tn_hand_client_free(client);
    return explain(e->box, &why, e->deadline, err);
}

/* Somebody asks again for an action that is in the journal.  Its hand knows what became of it,
 * unless it was started anew since: then the journal does, or nobody. */
static int send_again(const struct errand *e, const struct tn_action *action,
                      const struct noted *noted, bool *again, struct tn_buf *out,
                      struct tn_error *err)
{
    int status = send(e, true, again, out, err);
    autoview struct box_view view = {0};

    if (status != NOT_KNOWN && status != NOT_KEPT)
        return status;
    box_look(e->box, &view);
    if (status == NOT_KNOWN && !noted->answered && view.restarts == noted->start)
        return send(e, false, again, out, err); /* it never got there */
    if (again)
        *again = true;
    if (noted->answered && !desk_read_answer(e->box, noted->id, out))
        return 200;
    tn_autoobservation struct tn_observation lost;
    struct tn_jw w = tn_jw(out);
    tn_observation_init_error(&lost, action,
                              status == NOT_KEPT
                                  ? "The action was carried out; its answer is not kept any more."
                                  : "The sandbox was started anew while this action was under way; "
                                    "whether it was completed is not known.");
    tn_buf_reset(out);
    tn_observation_to_json(&lost, &w);
    return 200;
}

/* What failed may have met a limit of the sandbox. */
static void look_for_limits(const struct errand *e)
{
    int64_t look_until = tn_deadline_in(LIMITS_SECONDS);

    timing_enter(TIMING_BACKEND);
    box_check_limits(e->box, look_until < e->deadline ? look_until : e->deadline);
    timing_leave();
}

/* One that has become too large for an answer stays as it was. */
static void rewrite(struct tn_buf *answer, const struct tn_observation *observation)
{
    tn_autobuf struct tn_buf whole = {.max = answer->max, .purse = answer->purse};
    struct tn_jw w = tn_jw(&whole);

    tn_observation_to_json(observation, &w);
    if (!tn_buf_ok(&whole))
        return;
    struct tn_buf before = *answer;
    *answer = whole;
    whole = before;
}

/* known: what the box was known to report before the action. */
static void note_answer(const struct errand *e, const struct tn_action *action,
                        const struct noted *noted, const char *known, struct tn_buf *answer)
{
    tn_autojson struct tn_json *tree = NULL;
    struct tn_observation observation;
    struct tn_error why = {0};

    if (noted->id < 0)
        return;
    autoheld struct held held = {.purse = answer->purse};
    if (tn_json_parse_held(tn_buf_str(answer), answer->len, held.purse, &held.bytes, &tree, &why) ||
        tn_observation_from_json(tree, &observation, &why)) {
        desk_note_failure(e->desk, action, noted->id, why.text);
        return;
    }
    if (tn_report_is_due(&observation) && !noted->answered)
        look_for_limits(e);
    if (desk_note_observation(e->desk, e->box, action, noted->id, known, &observation))
        rewrite(answer, &observation);
    tn_observation_done(&observation);
}

/* status: of a hand that refused; -1: none did, and why says what happened. */
static void note_failure(const struct errand *e, const struct tn_action *action, int64_t id,
                         int status, const struct tn_buf *answer, const struct tn_error *why)
{
    struct tn_error refusal = {0};

    if (status >= 0)
        tn_hand_refused_text(status, tn_buf_str(answer), answer->len, &refusal);
    desk_note_failure(e->desk, action, id, status >= 0 ? refusal.text : why->text);
}

static int carry_out(const struct errand *e, const struct tn_action *action, bool *again,
                     struct tn_buf *out, struct tn_error *err)
{
    struct metrics *metrics = box_service(e->box)->metrics;
    struct tn_error why = {0};
    int64_t began = tn_now();
    tn_autofree char *known = box_reason(e->box);
    struct noted noted = desk_note_action(e->desk, e->box, action, e->idempotency);
    int64_t id = noted.id;

    if (id >= 0 && !noted.known)
        tell(e->box, e->desk, action, id);
    int status = noted.known ? send_again(e, action, &noted, again, out, &why)
                             : send(e, false, again, out, &why);
    if (status == 200)
        note_answer(e, action, &noted, known, out);
    else if (!noted.known)
        note_failure(e, action, id, status, out, &why);
    metric_add(metrics, METRIC_ACTIONS, tn_action_name(action->type), 1);
    metric_seconds(metrics, METRIC_ACTION_SECONDS, (double)(tn_now() - began) / 1e9);
    if (status < 0 && err)
        *err = why;
    return status;
}

/* An action that its user rejected or has not confirmed is journaled and answered here; no sandbox
 * is woken for it, and its idempotency key stays free for when it is confirmed. */
static bool answer_unconfirmed(const struct errand *e, const struct tn_action *action,
                               struct tn_buf *out)
{
    struct tn_observation observation;
    struct tn_jw w = tn_jw(out);

    if (!tn_observation_init_unconfirmed(&observation, action))
        return false;
    struct noted noted = desk_note_action(e->desk, e->box, action, NULL);
    if (noted.id >= 0)
        desk_note_observation(e->desk, e->box, action, noted.id, NULL, &observation);
    tn_observation_to_json(&observation, &w);
    tn_observation_done(&observation);
    return true;
}

int act(struct box *b, const struct caller *who, const char *body, size_t n,
        const char *idempotency, const char *request, bool *again, struct tn_buf *out,
        struct tn_error *err)
{
    autodesk struct desk *desk = desk_take(b);
    autoheld struct held held = {.purse = out->purse};
    tn_autojson struct tn_json *tree = NULL;
    struct tn_error why = {0};
    struct tn_action action;
    struct errand e = {.box = b,
                       .desk = desk,
                       .body = body,
                       .len = n,
                       .idempotency = idempotency,
                       .request = request,
                       .deadline = tn_deadline_in(LONGEST_SECONDS)};

    if (idempotency && !usable_key(idempotency))
        return tn_fail(err, TN_E_INVALID, "Idempotency-Key: expected 1 to %d printable characters",
                       MAX_KEY);
    bool parsed = !tn_json_parse_held(body, n, held.purse, &held.bytes, &tree, &why);
    if (!parsed && why.code == TN_E_BUSY)
        return tn_fail(err, TN_E_BUSY, "%s", why.text);
    bool sound = parsed && !tn_action_from_json(tn_json_get(tree, "action"), &action, NULL);
    if (sound && action.timeout.set && action.timeout.value > 0)
        e.deadline = tn_deadline_in(action.timeout.value + GRACE_SECONDS);
    if (sound && answer_unconfirmed(&e, &action, out)) {
        tn_action_done(&action);
        return 200;
    }
    box_enter_use(b);
    int status = box_hand(b, &e.address, &e.key, e.deadline, err);
    if (status == 0) /* a hand says itself what is wrong with a body */
        status = sound ? carry_out(&e, &action, again, out, err) : send(&e, false, again, out, err);
    box_leave_use(b);
    if (sound)
        tn_action_done(&action);
    free(e.address);
    free(e.key);
    return status;
}
