/* Using a sandbox: its hand, its ports, its logs. */
#include <poll.h>

#include "base/clock.h"
#include "base/proc.h"
#include "runtime/execute.h"
#include "runtime/gated.h"
#include "runtime/hand-tunnel.h"
#include "runtime/owner.h"
#include "runtime/runtime.h"
#include "runtime/sandbox-report.h"

/* What a look at a sandbox may cost after something went wrong. */
#define LOOK_SECONDS 5.0

/* How long a hand that answers at all may take to say that it is ready, before the backend is asked
 * what is the matter. */
#define PATIENCE_SECONDS 2.0

/* How long a hand may say nothing at all, not even that it is starting, and how old its process
 * must be for that to count. */
#define SILENT_SECONDS 10.0
#define STARTING_SECONDS 20.0

/* --- that it is used ----------------------------------------------------------------------- */

void tn_sandbox_touch(struct tn_sandbox *sb)
{
    tn_store_touch(sb->rt->store, sb->id, NULL);
}

static void attend(struct tn_sandbox *sb, bool used)
{
    struct tn_subject subject = tn_sandbox_subject(sb);

    if (sb->backend->attend)
        sb->backend->attend(sb->engine, &subject, used);
}

void tn_sandbox_use(struct tn_sandbox *sb)
{
    if (sb->uses++)
        return;
    attend(sb, true);
    if (sb->record.lease <= 0)
        return;
    sb->use_mark = tn_sandbox_use_mark(sb->rt->state, sb->record.id);
    tn_sandbox_touch(sb);
}

void tn_sandbox_rest(struct tn_sandbox *sb)
{
    if (--sb->uses)
        return;
    attend(sb, false);
    if (sb->record.lease > 0)
        tn_sandbox_touch(sb); /* before others may look */
    tn_close(TN_TAKE_FD(sb->use_mark));
}

/* --- its hand ------------------------------------------------------------------------------ */

/* What to do about a state in which there is nobody to talk to. */
static const char *const advice[] = {
    [TN_STATUS_PAUSED] = "resume it with: tendon resume %s",
    [TN_STATUS_STOPPED] = "start it with: tendon resume %s",
    [TN_STATUS_SUSPENDED] = "wake it with: tendon resume %s",
    [TN_STATUS_ERROR] = "start it again with: tendon resume %s, or remove it with: tendon rm %s",
    [TN_STATUS_MISSING] = "remove what is left of it with: tendon rm %s",
};

static const char *name_of(const struct tn_sandbox *sb)
{
    return sb->record.name ? sb->record.name : sb->record.id;
}

static int not_running(const struct tn_sandbox *sb, struct tn_error *err)
{
    const struct tn_record *r = &sb->record;
    const char *name = name_of(sb);
    const char *what = (size_t)r->status < TN_COUNT(advice) ? advice[r->status] : NULL;
    char text[256] = "";

    if (what)
        snprintf(text, sizeof text, what, name, name);
    return tn_fail(err, TN_E_CONFLICT, "sandbox %s is %s%s%s%s%s%s", name,
                   tn_status_words[r->status], r->reason ? " (" : "", r->reason ? r->reason : "",
                   r->reason ? ")" : "", *text ? ": " : "", text);
}

static bool reachable(const struct tn_sandbox *sb)
{
    return sb->record.status == TN_STATUS_RUNNING && sb->record.address;
}

/* Others may have paused it: whoever keeps sandboxes alive wants the next use to wake it.  That is
 * a start, and has the time of one, however little time the use itself has; nothing is held
 * meanwhile but the sandbox's own lock. */
static int wake(struct tn_sandbox *sb, struct tn_error *err)
{
    const struct tn_config *config = sb->rt->host.config;
    int64_t deadline = tn_deadline_in(config->sandbox.remote_runtime_init_timeout);
    bool asleep = sb->record.status == TN_STATUS_PAUSED || sb->record.status == TN_STATUS_STOPPED;

    if (!asleep || !sb->backend->elsewhere || !config->sandbox.keep_runtime_alive)
        return 0;
    return tn_sandbox_drive(sb, TN_GOAL_RUNNING, deadline, err);
}

int tn_sandbox_address(struct tn_sandbox *sb, const char **address, const char **key,
                       int64_t deadline, struct tn_error *err)
{
    if (!reachable(sb) && (tn_sandbox_inspect(sb, NULL, deadline, err) || wake(sb, err)))
        return -1;
    if (!reachable(sb))
        return not_running(sb, err);
    *address = sb->record.address;
    *key = sb->record.key;
    return 0;
}

/* A client of the hand at the address the store knows. */
static struct tn_hand_client *make_client(const struct tn_sandbox *sb, struct tn_error *err)
{
    struct tn_hand_client *client = tn_hand_client_new(sb->record.address, sb->record.key, err);

    if (client)
        tn_hand_client_patience(client, sb->rt->host.config->sandbox.remote_runtime_enable_retries);
    return client;
}

void tn_sandbox_trust_hand(struct tn_sandbox *sb)
{
    if (!sb->client && reachable(sb))
        sb->client = make_client(sb, NULL);
}

/* One whose hand is ready.  watch: readable when it never will be, or -1. */
static struct tn_hand_client *connect_hand(struct tn_sandbox *sb, int watch, int64_t deadline,
                                           struct tn_error *err)
{
    if (!reachable(sb)) {
        not_running(sb, err);
        return NULL;
    }
    struct tn_hand_client *client = make_client(sb, err);
    if (client && tn_hand_client_wait(client, watch, deadline, err)) {
        tn_hand_client_free(client);
        return NULL;
    }
    return client;
}

/* The same for one that should long have answered: whoever holds it up inside (limits that its
 * agent took from it, no processor, no memory) is not waited for. */
static struct tn_hand_client *connect_old_hand(struct tn_sandbox *sb, int watch, int64_t deadline,
                                               struct tn_error *err)
{
    struct tn_proc process = tn_sandbox_process(sb);
    double young = process.pid > 0 ? STARTING_SECONDS - tn_proc_age(process.start) : 0;
    int64_t silent = tn_deadline_in(young > SILENT_SECONDS ? young : SILENT_SECONDS);
    struct tn_error why = {0};

    bool cut = process.pid > 0 && silent < deadline;
    struct tn_hand_client *client = connect_hand(sb, watch, cut ? silent : deadline, &why);
    if (!client && cut && why.code == TN_E_BUSY) /* it says that it is starting */
        return connect_hand(sb, watch, deadline, err);
    if (!client && cut && why.code == TN_E_TIMEOUT)
        tn_fail(&why, TN_E_PEER,
                "the hand of sandbox %s does not answer, though it runs: start it anew with: "
                "tendon stop %s && tendon resume %s",
                name_of(sb), name_of(sb), name_of(sb));
    if (!client && err)
        *err = why;
    return client;
}

/* When it has ended since the last look, why says more than that nobody answers. */
static void tell_end(struct tn_sandbox *sb, struct tn_error *err)
{
    if (tn_sandbox_inspect(sb, NULL, tn_deadline_in(LOOK_SECONDS), NULL) == 0 && !reachable(sb))
        not_running(sb, err);
}

struct tn_hand_client *tn_sandbox_client(struct tn_sandbox *sb, int64_t deadline,
                                         struct tn_error *err)
{
    int64_t soon = tn_deadline_in(PATIENCE_SECONDS);
    int64_t look_until = tn_deadline_in(PATIENCE_SECONDS + LOOK_SECONDS);

    if (sb->client)
        return sb->client;
    if (reachable(sb))
        sb->client = connect_hand(sb, -1, soon < deadline ? soon : deadline, err);
    if (sb->client)
        return sb->client;
    /* The store may be behind the times: ask (also when no time is left to do anything about it),
     * and try once more with what the backend says. */
    if (tn_sandbox_inspect(sb, NULL, deadline > look_until ? deadline : look_until, err) ||
        wake(sb, err))
        return NULL;
    tn_autofd int watch = tn_sandbox_watch(sb);
    if (watch < 0 &&
        sb->backend->process) /* it may have ended since that look: nobody would tell */
        tn_sandbox_inspect(sb, NULL, look_until, NULL);
    sb->client = connect_old_hand(sb, watch, deadline, err);
    if (!sb->client && err && err->code == TN_E_PEER) /* not for who has no time left */
        tell_end(sb, err);
    return sb->client;
}

/* --- actions ------------------------------------------------------------------------------- */

static void reach_enter(void *ctx)
{
    tn_sandbox_use(ctx);
}

/* A command that goes on after its action is a use too, until one is seen to have ended. */
static void reach_leave(void *ctx, const struct tn_observation *o)
{
    struct tn_sandbox *sb = ctx;

    if (o && o->type == TN_OBSERVATION_RUN && o->run.metadata.command_id) {
        bool runs = o->run.metadata.exit_code < 0;
        if (runs && !sb->command_runs)
            tn_sandbox_use(sb);
        if (!runs && sb->command_runs)
            tn_sandbox_rest(sb);
        sb->command_runs = runs;
    }
    tn_sandbox_rest(sb);
}

/* What has to be waked first has its own time for that. */
static int reach_ready(void *ctx, int64_t *deadline, struct tn_error *err)
{
    struct tn_sandbox *sb = ctx;
    int64_t began = tn_now();

    if (tn_gated_is_lost(sb->directory)) /* it would wait for a network that nobody keeps */
        tn_sandbox_inspect(sb, NULL, *deadline, NULL);
    if (!tn_sandbox_client(sb, *deadline, err))
        return -1;
    *deadline += tn_now() - began;
    return 0;
}

static struct tn_ledger *reach_ledger(void *ctx)
{
    struct tn_sandbox *sb = ctx;
    const struct tn_sandbox_journal of = {.directory = sb->directory,
                                          .key = sb->record.key,
                                          .env = sb->spec.env,
                                          .config = sb->rt->host.config};

    if (!sb->ledger)
        sb->ledger = tn_ledger_new();
    tn_ledger_open(sb->ledger, &of);
    return sb->ledger;
}

/* The store does not count them. */
static int64_t reach_starts(void *ctx)
{
    (void)ctx;
    return TN_START_UNKNOWN;
}

static struct tn_hand_client *reach_client(void *ctx, int64_t deadline, struct tn_error *err)
{
    return tn_sandbox_client(ctx, deadline, err);
}

static void reach_release(void *ctx, struct tn_hand_client *client, bool broken)
{
    struct tn_sandbox *sb = ctx;

    if (!broken)
        return;
    tn_hand_client_free(client);
    sb->client = NULL;
}

/* A hand that is killed lets go of its connections before it is dead for whoever asks: waits for
 * that, or a look would find it running and nothing to tell. */
static void await_end(struct tn_sandbox *sb)
{
    struct tn_proc process = tn_sandbox_process(sb);
    tn_autofd int watch = tn_sandbox_watch(sb);
    struct pollfd p = {.fd = watch, .events = POLLIN};

    if (watch >= 0 && !tn_proc_is_well(&process))
        poll(&p, 1, (int)(LOOK_SECONDS * 1000));
}

/* The way to the hand failed, or its service does not have it running: something is to be learnt by
 * asking the backend. */
static enum tn_loss reach_lost(void *ctx, int status, const struct tn_error *why, int64_t *deadline,
                               struct tn_error *err)
{
    struct tn_sandbox *sb = ctx;
    bool asleep = status >= 0 && why->code == TN_E_BUSY && sb->backend->elsewhere;
    int64_t began = tn_now();

    if (!asleep && why->code != TN_E_PEER && why->code != TN_E_TIMEOUT &&
        !(why->code == TN_E_NOT_FOUND && sb->backend->elsewhere))
        return TN_LOSS_NONE;
    tn_hand_client_free(TN_TAKE_PTR(sb->client));
    await_end(sb);
    tn_sandbox_inspect(sb, NULL, tn_deadline_in(LOOK_SECONDS), NULL);
    if (reachable(sb))
        return TN_LOSS_NONE;
    /* A service that had it paused has not run the action. */
    if (asleep && wake(sb, err))
        return TN_LOSS_ASLEEP;
    if (asleep && reachable(sb)) {
        *deadline += tn_now() - began;
        return TN_LOSS_AGAIN;
    }
    if (asleep) {
        not_running(sb, err);
        return TN_LOSS_ASLEEP;
    }
    tn_fail(err, TN_E_PEER, "The sandbox has ended (%s)%s%s", tn_status_words[sb->record.status],
            sb->record.reason ? ": " : "", sb->record.reason ? sb->record.reason : ".");
    return TN_LOSS_ENDED;
}

/* Whether an inspect may tell of a limit that was met, or of what a gate has refused. */
static bool has_news(const struct tn_sandbox *sb)
{
    return sb->backend->abilities & (TN_CAN_LIMIT | TN_CAN_SECRETS);
}

static char *reach_known(void *ctx)
{
    const struct tn_sandbox *sb = ctx;

    return tn_strdup_or_null(sb->record.reason);
}

static void reach_look(void *ctx, int64_t deadline)
{
    if (has_news(ctx))
        tn_sandbox_inspect(ctx, NULL, deadline, NULL);
    tn_sandbox_note_refusals(ctx, NULL, deadline);
}

static char *reach_news(void *ctx, const char *known)
{
    const struct tn_sandbox *sb = ctx;

    return has_news(sb) ? tn_report_without(sb->record.reason, known) : NULL;
}

static struct tn_toolbox *reach_tools(void *ctx, struct tn_error *err)
{
    return tn_sandbox_toolbox(ctx, err);
}

static enum tn_confirmation reach_ask(void *ctx, const char *directory, const struct tn_pending *p)
{
    const struct tn_sandbox *sb = ctx;

    return sb->ask ? sb->ask(sb->ask_ctx, sb->id, directory, p) : TN_AWAITING_CONFIRMATION;
}

static const struct tn_reach reach_sandbox = {
    .enter = reach_enter,
    .leave = reach_leave,
    .ready = reach_ready,
    .ledger = reach_ledger,
    .starts = reach_starts,
    .client = reach_client,
    .release = reach_release,
    .lost = reach_lost,
    .known = reach_known,
    .look = reach_look,
    .news = reach_news,
    .tools = reach_tools,
    .ask = reach_ask,
};

static struct tn_errand errand(struct tn_sandbox *sb, const struct tn_action *action,
                               struct tn_judge *judge)
{
    return (struct tn_errand){.reach = &reach_sandbox,
                              .ctx = sb,
                              .action = action,
                              .seconds = sb->rt->host.config->sandbox.timeout,
                              .grace = LOOK_SECONDS,
                              .judge = judge,
                              .judged_there = tn_sandbox_backend(sb)->judges,
                              .patience = sb->impatient ? TN_IMPATIENT : TN_PATIENT};
}

/* What became of it: 0 with the observation, or -1. */
static int conclude(int r, const struct tn_action *action, struct tn_outcome *out,
                    struct tn_observation *observation, struct tn_error *err)
{
    tn_buf_done(&out->answer);
    if (r == TN_ANSWERED || r == TN_ENDED || r == TN_WAITS) {
        *observation = out->observation;
        return 0;
    }
    if (r >= 0)
        tn_error_context(err, "action %s",
                         action->type == TN_ACTION_PLUGIN ? action->plugin.name
                                                          : tn_action_name(action->type));
    return -1;
}

static int execute(struct tn_sandbox *sb, const struct tn_action *action, struct tn_judge *judge,
                   struct tn_observation *observation, struct tn_error *err)
{
    const struct tn_errand e = errand(sb, action, judge);
    struct tn_outcome out = {.answer = TN_BUF_INIT(TN_HAND_BODY_MAX)};

    int r = tn_execute_errand(&e, &out, err);
    sb->held_up = out.held_up;
    return conclude(r, action, &out, observation, err);
}

int64_t tn_sandbox_held_up(const struct tn_sandbox *sb)
{
    return sb->held_up;
}

int tn_sandbox_execute(struct tn_sandbox *sb, const struct tn_action *action,
                       struct tn_observation *observation, struct tn_error *err)
{
    return execute(sb, action, sb->rt->judge, observation, err);
}

int tn_sandbox_execute_own(struct tn_sandbox *sb, const struct tn_action *action,
                           struct tn_observation *observation, struct tn_error *err)
{
    return execute(sb, action, NULL, observation, err);
}

int tn_sandbox_perform(struct tn_sandbox *sb, const struct tn_action *action, tn_perform_fn fn,
                       void *ctx, struct tn_observation *observation, struct tn_error *err)
{
    struct tn_errand e = errand(sb, action, sb->rt->judge);
    struct tn_outcome out = {.answer = TN_BUF_INIT(TN_HAND_BODY_MAX)};

    e.perform = fn;
    e.perform_ctx = ctx;
    return conclude(tn_execute_errand(&e, &out, err), action, &out, observation, err);
}

void tn_sandbox_set_ask(struct tn_sandbox *sb, tn_ask_fn ask, void *ctx, bool waits)
{
    sb->ask = ask;
    sb->ask_ctx = ctx;
    sb->impatient = !waits;
}

static void let_through(void *ctx, const struct tn_action *action, struct tn_observation *o)
{
    tn_sandbox_let_through(ctx, action, o);
}

int tn_sandbox_answer(struct tn_sandbox *sb, int64_t id, bool confirm, const char *reason,
                      struct tn_observation *observation, struct tn_error *err)
{
    struct tn_outcome out = {.answer = TN_BUF_INIT(TN_HAND_BODY_MAX)};
    struct tn_pending p;

    if (tn_pending_take(sb->directory, id, NULL, NULL, &p, err))
        return -1;
    struct tn_errand e = errand(sb, &p.action, NULL);
    if (p.action.type == TN_ACTION_NETWORK)
        e.perform = let_through;
    e.perform_ctx = sb;
    int r = -1;
    if (tn_pending_is_late(&p)) {
        tn_execute_rejected(reach_ledger(sb), &p, NULL, &out.observation);
        tn_observation_done(&out.observation);
        tn_fail(err, TN_E_GONE, "nobody answered in time: action %lld was refused", (long long)id);
    } else if (confirm) {
        r = conclude(tn_execute_confirmed(&e, &p, &out, err), &p.action, &out, observation, err);
    } else {
        tn_execute_rejected(reach_ledger(sb), &p, reason ? reason : "", observation);
        r = 0;
    }
    tn_pending_done(&p);
    return r;
}

void tn_sandbox_hide(struct tn_sandbox *sb, const struct tn_secret *secret)
{
    tn_ledger_hide(reach_ledger(sb), secret, 1, NULL);
}

/* --- the backend's own ways ---------------------------------------------------------------- */

int tn_sandbox_put(struct tn_sandbox *sb, const char *path, const void *bytes, size_t n,
                   mode_t mode, int64_t deadline, struct tn_error *err)
{
    struct tn_subject subject = tn_sandbox_subject(sb);

    return sb->backend->put(sb->engine, &subject, path, bytes, n, mode, deadline, err);
}

int tn_sandbox_exec(struct tn_sandbox *sb, const char *const *argv, struct tn_buf *out, int *status,
                    int64_t deadline, struct tn_error *err)
{
    struct tn_subject subject = tn_sandbox_subject(sb);

    return sb->backend->exec(sb->engine, &subject, argv, out, status, deadline, err);
}

int tn_sandbox_dial(struct tn_sandbox *sb, int port, int64_t deadline, struct tn_error *err)
{
    struct tn_subject subject = tn_sandbox_subject(sb);
    const char *address, *key;

    tn_sandbox_use(sb);
    if (sb->backend->dial)
        return sb->backend->dial(sb->engine, &subject, port, deadline, err);
    if (tn_sandbox_address(sb, &address, &key, deadline, err))
        return -1;
    return tn_hand_tunnel(address, key, port, deadline, err);
}

char *tn_sandbox_url(struct tn_sandbox *sb, int port, struct tn_error *err)
{
    struct tn_subject subject = tn_sandbox_subject(sb);

    if (sb->backend->url)
        return sb->backend->url(sb->engine, &subject, port, err);
    tn_fail(err, TN_E_UNSUPPORTED, "%s publishes no ports: forward one with tendon port",
            sb->backend->name);
    return NULL;
}

char *tn_sandbox_look_url(struct tn_sandbox *sb, int port, bool *there, int64_t deadline,
                          struct tn_error *err)
{
    struct tn_subject subject = tn_sandbox_subject(sb);

    if (there)
        *there = false;
    return sb->backend->look_url
               ? sb->backend->look_url(sb->engine, &subject, port, there, deadline, err)
               : NULL;
}

int tn_sandbox_logs(struct tn_sandbox *sb, bool follow, tn_log_fn fn, void *ctx, int64_t deadline,
                    struct tn_error *err)
{
    struct tn_subject subject = tn_sandbox_subject(sb);

    return sb->backend->logs(sb->engine, &subject, follow, fn, ctx, deadline, err);
}

int tn_sandbox_usage(struct tn_sandbox *sb, struct tn_usage *out, struct tn_error *err)
{
    struct tn_subject subject = tn_sandbox_subject(sb);

    *out = TN_USAGE_UNKNOWN;
    return sb->backend->usage ? sb->backend->usage(sb->engine, &subject, out, err) : 0;
}

int tn_sandbox_usage_whole(struct tn_sandbox *sb, struct tn_usage *out, int64_t deadline,
                           struct tn_error *err)
{
    int r;

    while ((r = tn_sandbox_usage(sb, out, err)) == 0 && out->disk_partial && tn_now() < deadline)
        ;
    return r;
}

struct tn_proc tn_sandbox_process(struct tn_sandbox *sb)
{
    struct tn_subject subject = tn_sandbox_subject(sb);

    return sb->backend->process ? sb->backend->process(sb->engine, &subject) : (struct tn_proc){0};
}

int tn_sandbox_watch(struct tn_sandbox *sb)
{
    struct tn_proc process = tn_sandbox_process(sb);

    return process.pid > 0 ? tn_proc_open(&process) : -1;
}
