/* Actions for boxes: how a box is reached (runtime/execute.h does the rest). */
#include "base/clock.h"
#include "base/log.h"
#include "event/action-body.h"
#include "gate/rules.h"
#include "runtime/execute.h"
#include "service/audit.h"
#include "service/confirm.h"
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
/* A message of an MCP server, and what reading such ones may take (a tree is far larger than its
 * text). */
#define TOOL_MESSAGE_MAX ((size_t)1 << 20)
#define TOOL_MEMORY ((size_t)48 << 20)

enum { TEXT_BYTES = 120, READ_BYTES = 4096 };

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
    case TN_ACTION_NETWORK:
        return a->network.host;
    default:
        return NULL;
    }
}

/* One action on its way to a box. */
struct way {
    struct box *box;
    struct desk *desk;
    const struct caller *who; /* NULL: somebody has confirmed it */
    unsigned rights;          /* scopes of whoever asked */
    char *address, *key;      /* of the hand */
    struct tn_toolbox *tools;
    struct tn_held held; /* for them */
};

static void reach_noted(void *ctx, const struct tn_action *a, int64_t id)
{
    const struct way *w = ctx;
    tn_autobuf struct tn_buf text = TN_BUF_INIT(8 << 10), shown = TN_BUF_INIT(1 << 20);
    const char *subject = subject_of(a);

    tn_buf_puts(&text, a->type == TN_ACTION_PLUGIN ? a->plugin.name : tn_action_name(a->type));
    if (subject) /* cut far behind what is shown, so that no half of a secret is */
        tn_buf_printf(&text, ": %.*s", READ_BYTES, subject);
    if (tn_ledger_show(desk_ledger(w->desk, w->box), tn_buf_str(&text), &shown))
        return;
    tn_buf_cut(&shown, strcspn(tn_buf_str(&shown), "\n"));
    size_t n = shown.len < TEXT_BYTES ? shown.len : TEXT_BYTES;
    while (n < shown.len && n > 0 && (shown.data[n] & 0xC0) == 0x80)
        n--; /* not in the middle of a letter */
    tn_buf_cut(&shown, n);
    box_note_action(w->box, id, tn_buf_str(&shown));
}

static void reach_enter(void *ctx)
{
    const struct way *w = ctx;

    box_enter_use(w->box);
}

static void reach_leave(void *ctx, const struct tn_observation *o)
{
    struct way *w = ctx;

    (void)o;
    tn_toolbox_free(w->tools);
    tn_purse_give(w->held.purse, w->held.bytes);
    box_leave_use(w->box);
}

static int reach_ready(void *ctx, int64_t *deadline, struct tn_error *err)
{
    struct way *w = ctx;

    free(TN_TAKE_PTR(w->address)); /* of an earlier look */
    free(TN_TAKE_PTR(w->key));
    return box_hand(w->box, &w->address, &w->key, *deadline, err);
}

static struct tn_ledger *reach_ledger(void *ctx)
{
    const struct way *w = ctx;

    return desk_ledger(w->desk, w->box);
}

static int64_t reach_starts(void *ctx)
{
    const struct way *w = ctx;
    autoview struct box_view view = {0};

    box_look(w->box, &view);
    return view.restarts;
}

static struct tn_hand_client *reach_client(void *ctx, int64_t deadline, struct tn_error *err)
{
    const struct way *w = ctx;

    (void)deadline;
    timing_enter(TIMING_BACKEND);
    struct tn_hand_client *client = desk_client(w->desk, w->address, w->key, err);
    if (!client)
        timing_leave();
    return client;
}

static void reach_release(void *ctx, struct tn_hand_client *client, bool broken)
{
    const struct way *w = ctx;

    timing_leave();
    if (broken)
        tn_hand_client_free(client);
    else
        desk_put_client(w->desk, w->address, client);
}

/* What became of the sandbox, as far as it can be known in time. */
static enum tn_loss reach_lost(void *ctx, int status, const struct tn_error *why, int64_t *deadline,
                               struct tn_error *err)
{
    static const unsigned ended =
        1u << BOX_PAUSED | 1u << BOX_STOPPED | 1u << BOX_ERROR | 1u << BOX_MISSING;
    const struct way *w = ctx;
    int64_t look_until = tn_deadline_in(LOOK_SECONDS);

    if (status >= 0)
        return TN_LOSS_NONE; /* said as it was said to us */
    box_suspect(w->box);
    if (why->code == TN_E_TIMEOUT ||
        box_wait(w->box, ended, look_until < *deadline ? look_until : *deadline, NULL))
        return TN_LOSS_NONE;
    autoview struct box_view view;
    box_look(w->box, &view);
    tn_fail(err, TN_E_PEER, "The sandbox has ended (%s)%s%s", box_state_words[view.state],
            view.reason ? ": " : "", view.reason ? view.reason : ".");
    return TN_LOSS_ENDED;
}

static char *reach_known(void *ctx)
{
    const struct way *w = ctx;

    return box_reason(w->box);
}

static void reach_look(void *ctx, int64_t deadline)
{
    const struct way *w = ctx;

    timing_enter(TIMING_BACKEND);
    box_check_limits(w->box, deadline);
    box_note_refusals(w->box);
    timing_leave();
}

static char *reach_news(void *ctx, const char *known)
{
    const struct way *w = ctx;

    return box_take_report(w->box, known);
}

/* --- its tools --------------------------------------------------------------------------- */

static int reach_inside(void *ctx, char **address, char **key, int64_t deadline,
                        struct tn_error *err)
{
    const struct way *w = ctx;

    return box_hand(w->box, address, key, deadline, err);
}

/* For this call alone: what servers inside a sandbox say costs memory, which is the caller's for as
 * long as they can say it. */
static struct tn_toolbox *reach_tools(void *ctx, struct tn_error *err)
{
    struct way *w = ctx;
    const struct tn_config *config = tn_runtime_host(box_service(w->box)->rt)->config;
    const struct tn_toolbox_options options = {.config = config,
                                               .reach = reach_inside,
                                               .reach_ctx = w,
                                               .session = box_id(w->box),
                                               .max_message = TOOL_MESSAGE_MAX};

    if (!box_service(w->box)->options->tools && !(w->rights & SCOPE_ADMIN)) {
        tn_fail(err, TN_E_DENIED,
                "The tools of MCP servers are for the administrator of this service "
                "(service.tools opens them to tenants)");
        return NULL;
    }
    if (!tn_purse_take(w->held.purse, TOOL_MEMORY)) {
        tn_fail(err, TN_E_BUSY, "There is no memory for a tool just now; try again");
        return NULL;
    }
    w->held.bytes = TOOL_MEMORY;
    return w->tools = tn_toolbox_new(&options, err);
}

/* --- its confirmation -------------------------------------------------------------------- */

/* Who reads the audit log is not shown secrets either. */
static void reach_judged(void *ctx, const struct tn_verdict *v)
{
    const struct way *w = ctx;
    tn_autobuf struct tn_buf text = TN_BUF_INIT(8 << 10), shown = TN_BUF_INIT(16 << 10);
    bool blocked = v->decision == TN_BLOCK;
    const char *what = blocked ? "action.block" : "action.ask";

    tn_verdict_put_reason(v, &text);
    if (tn_ledger_show(desk_ledger(w->desk, w->box), tn_buf_str(&text), &shown))
        tn_buf_puts(&shown, "(not shown: there is no journal)");
    const struct audit_entry entry = {.who = w->who,
                                      .what = what,
                                      .box = box_id(w->box),
                                      .result = tn_code_row(blocked ? TN_E_DENIED : TN_OK)->name,
                                      .detail = tn_buf_str(&shown)};
    if (audit_write(box_service(w->box)->audit, &entry, NULL))
        tn_log(TN_LOG_ERROR, "no line in the audit log", tn_log_str("what", what),
               tn_log_str("sandbox", box_id(w->box)));
}

/* Whoever answers does so later: pages see the box change, and the operator's hook is told. */
static enum tn_confirmation reach_ask(void *ctx, const char *directory, const struct tn_pending *p)
{
    const struct way *w = ctx;

    (void)directory;
    hook_tell(box_service(w->box)->hook, w->box, p);
    return TN_AWAITING_CONFIRMATION;
}

static const struct tn_reach reach_box = {
    .enter = reach_enter,
    .leave = reach_leave,
    .ready = reach_ready,
    .ledger = reach_ledger,
    .noted = reach_noted,
    .starts = reach_starts,
    .client = reach_client,
    .release = reach_release,
    .lost = reach_lost,
    .known = reach_known,
    .look = reach_look,
    .news = reach_news,
    .tools = reach_tools,
    .judged = reach_judged,
    .ask = reach_ask,
};

/* The status of an outcome; -1: err tells. */
static int status_of(int outcome, const struct tn_outcome *out, struct tn_error *err)
{
    static const char advice[] =
        " Ask again with the same Idempotency-Key to learn what became of it.";
    size_t len;

    switch (outcome) {
    case TN_ANSWERED:
        return 200;
    case TN_REFUSED:
        return out->status;
    case TN_WAITS:
        return ACT_WAITS;
    case TN_LOST:
        len = strlen(err->text);
        if (err->code == TN_E_TIMEOUT || err->code == TN_E_BUSY)
            snprintf(err->text + len, sizeof err->text - len, "%s", advice);
        return -1;
    default: /* what we cannot read may say what no hand may: nobody else is given it, either */
        return -1;
    }
}

/* What became of it, as a status with an answer; -1 with err. */
static int conclude(struct way *w, const struct tn_errand *e, int r, struct tn_outcome *outcome,
                    int64_t began, struct tn_error *err)
{
    struct metrics *metrics = box_service(w->box)->metrics;

    if (r == TN_ANSWERED || r == TN_ENDED || r == TN_WAITS)
        tn_observation_done(&outcome->observation);
    if (r >= 0) {
        metric_add(metrics, METRIC_ACTIONS, tn_action_name(e->action->type), 1);
        metric_seconds(metrics, METRIC_ACTION_SECONDS, (double)(tn_now() - began) / 1e9);
    }
    free(w->address);
    free(w->key);
    return status_of(r, outcome, err);
}

static struct tn_errand errand(struct way *w, const struct tn_action *action)
{
    return (struct tn_errand){.reach = &reach_box,
                              .ctx = w,
                              .action = action,
                              .seconds = LONGEST_SECONDS,
                              .grace = GRACE_SECONDS,
                              .judge = tn_runtime_judge(box_service(w->box)->rt),
                              .judged_there = box_is_judged_there(w->box),
                              .patience = TN_TO_DEADLINE,
                              .rights = w->rights};
}

static void name_request(const char *request, char headers[100])
{
    snprintf(headers, 100, "X-Request-Id: %.64s\r\n", request ? request : "-");
}

int act(struct box *b, const struct caller *who, const char *body, size_t n,
        const struct act_how *how, struct act_news *news, struct tn_buf *out, struct tn_error *err)
{
    autodesk struct desk *desk = desk_take(b);
    tn_autoheld struct tn_held held = {.purse = out->purse};
    tn_autojson struct tn_json *tree = NULL;
    struct tn_error why = {0};
    struct tn_action action;
    char headers[100];
    struct way w = {
        .box = b, .desk = desk, .who = who, .rights = who->scopes, .held.purse = out->purse};
    int64_t began = tn_now();

    enum tn_body fault =
        tn_action_body_read(body, n, held.purse, &held.bytes, &tree, &action, &why);
    if (fault == TN_BODY_COSTLY)
        return tn_fail(err, TN_E_BUSY, "%s", why.text);
    if (fault) /* nobody else has to see that */
        return tn_action_body_refuse(fault, &why, out);
    struct tn_errand e = errand(&w, &action);
    struct tn_thresholds thresholds;
    if (e.judge) {
        thresholds = caller_thresholds(who, tn_judge_thresholds(e.judge));
        e.thresholds = &thresholds;
    }
    e.body = body;
    e.len = n;
    e.key = how->idempotency;
    e.headers = headers;
    e.watch = &how->watch;
    if (how->async)
        e.patience = TN_IMPATIENT;
    name_request(how->request, headers);
    struct tn_outcome outcome = {.answer = *out};
    int r = tn_execute_errand(&e, &outcome, &why);
    *out = outcome.answer;
    *news = (struct act_news){.again = outcome.again, .pending = outcome.pending};
    int status = conclude(&w, &e, r, &outcome, began, &why);
    tn_action_done(&action);
    if (status < 0 && err)
        *err = why;
    return status;
}

/* --- connections that wait --------------------------------------------------------------- */

/* In place of the hand, which knows nothing of them. */
static void let_through(void *ctx, const struct tn_action *action, struct tn_observation *o)
{
    box_let_through(ctx, action, o);
}

/* Nobody is allowed by it but by somebody who says so: an analyzer only where the maker of the box
 * could have the rule. */
static struct tn_thresholds stricter(struct box *b, struct tn_judge *judge, const char *rule)
{
    struct caller maker = {0};
    autoview struct box_view v = {0};

    box_look(b, &v);
    if (keyring_find(box_service(b)->keys, v.key_id, &maker, NULL))
        maker = (struct caller){0};
    struct tn_thresholds t = caller_thresholds(&maker, tn_judge_thresholds(judge));
    bool may = box_may_reach(b, NULL, rule, NULL) == 0;
    if (t.low == TN_ALLOW && !may)
        t.low = TN_ASK;
    if (t.medium == TN_ALLOW)
        t.medium = TN_ASK;
    if (t.unknown == TN_ALLOW)
        t.unknown = TN_ASK;
    return t;
}

/* It is not there to be answered any more. */
static void withdraw(struct box *b, int64_t id)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(1 << 20);
    struct tn_pending p;

    if (tn_pending_take(box_directory(b), id, NULL, NULL, &p, NULL))
        return;
    act_rejected(b, &p, "The connection does not wait any more.", &out);
    tn_pending_done(&p);
}

bool act_network(struct box *b, struct tn_judge *judge, const char *host, int port, int over)
{
    double seconds = tn_runtime_host(box_service(b)->rt)->config->jail.ask_seconds;
    autodesk struct desk *desk = desk_take(b);
    struct way w = {.box = b, .desk = desk};
    struct tn_outcome outcome = {.answer = TN_BUF_INIT(1 << 20)};
    struct tn_error why = {0};
    tn_autoaction struct tn_action action;
    int64_t began = tn_now();
    char rule[TN_RULE_FOR];

    tn_action_init(&action, TN_ACTION_NETWORK);
    action.network.host = tn_strdup(host);
    action.network.port = port;
    action.timeout = (struct tn_opt_double){.set = true, .value = seconds};
    if (!tn_rule_for(host, (unsigned)port, rule))
        return false;
    struct tn_errand e = errand(&w, &action);
    struct tn_thresholds thresholds = stricter(b, judge, rule);
    e.judge = judge;
    e.thresholds = &thresholds;
    e.watch = &over;
    e.perform = let_through;
    e.perform_ctx = b;
    e.confirm_seconds = seconds;
    int r = tn_execute_errand(&e, &outcome, &why);
    bool passes = r == TN_ANSWERED && outcome.observation.type == TN_OBSERVATION_SUCCESS;
    if (r == TN_WAITS)
        withdraw(b, outcome.pending);
    tn_buf_done(&outcome.answer);
    conclude(&w, &e, r, &outcome, began, &why);
    box_changed(b);
    return passes;
}

int act_confirmed(struct box *b, const struct tn_pending *pending, const char *request,
                  struct tn_buf *out, struct tn_error *err)
{
    autodesk struct desk *desk = desk_take(b);
    struct way w = {.box = b, .desk = desk, .rights = pending->rights, .held.purse = out->purse};
    struct tn_outcome outcome = {.answer = *out};
    struct tn_error why = {0};
    int64_t began = tn_now();
    char headers[100];

    struct tn_errand e = errand(&w, &pending->action);
    if (pending->action.type == TN_ACTION_NETWORK)
        e.perform = let_through;
    e.perform_ctx = b;
    e.headers = headers;
    name_request(request, headers);
    int r = tn_execute_confirmed(&e, pending, &outcome, &why);
    *out = outcome.answer;
    int status = conclude(&w, &e, r, &outcome, began, &why);
    if (status < 0 && err)
        *err = why;
    return status;
}

void act_rejected(struct box *b, const struct tn_pending *pending, const char *reason,
                  struct tn_buf *out)
{
    autodesk struct desk *desk = desk_take(b);
    tn_autoobservation struct tn_observation o;
    struct tn_jw jw = tn_jw(out);

    tn_execute_rejected(desk_ledger(desk, b), pending, reason, &o);
    tn_observation_to_json(&o, &jw);
    box_changed(b);
}
