/* Using a sandbox: its hand, its ports, its logs. */
#include "base/clock.h"
#include "runtime/hand-tunnel.h"
#include "runtime/runtime.h"

/* What a look at a sandbox may cost after something went wrong. */
#define LOOK_SECONDS 5.0

/* How long a hand that answers at all may take to say that it is ready, before the backend is asked
 * what is the matter. */
#define PATIENCE_SECONDS 2.0

/* What to do about a state in which there is nobody to talk to. */
static const char *const advice[] = {
    [TN_STATUS_PAUSED] = "resume it with: tendon resume %s",
    [TN_STATUS_STOPPED] = "start it with: tendon resume %s",
    [TN_STATUS_SUSPENDED] = "wake it with: tendon resume %s",
    [TN_STATUS_ERROR] = "start it again with: tendon resume %s, or remove it with: tendon rm %s",
    [TN_STATUS_MISSING] = "remove what is left of it with: tendon rm %s",
};

static int not_running(const struct tn_sandbox *sb, struct tn_error *err)
{
    const struct tn_record *r = &sb->record;
    const char *name = r->name ? r->name : r->id;
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

int tn_sandbox_address(struct tn_sandbox *sb, const char **address, const char **key,
                       int64_t deadline, struct tn_error *err)
{
    if (!reachable(sb) && tn_sandbox_inspect(sb, NULL, deadline, err))
        return -1;
    if (!reachable(sb))
        return not_running(sb, err);
    *address = sb->record.address;
    *key = sb->record.key;
    return 0;
}

/* A client of the hand at the address the store knows, once it is ready. */
static struct tn_hand_client *connect_hand(struct tn_sandbox *sb, int64_t deadline,
                                           struct tn_error *err)
{
    if (!reachable(sb)) {
        not_running(sb, err);
        return NULL;
    }
    struct tn_hand_client *client = tn_hand_client_new(sb->record.address, sb->record.key, err);
    if (client && tn_hand_client_wait(client, -1, deadline, err)) {
        tn_hand_client_free(client);
        return NULL;
    }
    return client;
}

struct tn_hand_client *tn_sandbox_client(struct tn_sandbox *sb, int64_t deadline,
                                         struct tn_error *err)
{
    int64_t soon = tn_deadline_in(PATIENCE_SECONDS);
    int64_t look_until = tn_deadline_in(PATIENCE_SECONDS + LOOK_SECONDS);

    if (sb->client)
        return sb->client;
    if (reachable(sb))
        sb->client = connect_hand(sb, soon < deadline ? soon : deadline, err);
    if (sb->client)
        return sb->client;
    /* The store may be behind the times: ask (also when no time is left to do anything about it),
     * and try once more with what the backend says. */
    if (tn_sandbox_inspect(sb, NULL, deadline > look_until ? deadline : look_until, err))
        return NULL;
    sb->client = connect_hand(sb, deadline, err);
    return sb->client;
}

/* --- actions -----------------------------------------------------------------------------------
 */

/* The sandbox has something to say about what happened: a limit that was hit, its end.  True when
 * that is news. */
static bool look(struct tn_sandbox *sb)
{
    tn_autofree char *before = tn_strdup_or_null(sb->record.reason);

    if (tn_sandbox_inspect(sb, NULL, tn_deadline_in(LOOK_SECONDS), NULL) || !sb->record.reason)
        return false;
    return !before || strcmp(before, sb->record.reason) != 0;
}

static void set_text(struct tn_text *text, const char *value)
{
    free(text->data);
    text->data = tn_strdup(value);
    text->len = strlen(value);
}

/* It died under the action: say why. */
static int died(struct tn_sandbox *sb, struct tn_observation *observation)
{
    tn_autofree char *text =
        tn_asprintf("The sandbox has ended (%s)%s%s", tn_status_words[sb->record.status],
                    sb->record.reason ? ": " : "", sb->record.reason ? sb->record.reason : ".");

    tn_observation_init(observation, TN_OBSERVATION_ERROR);
    set_text(&observation->content, text);
    return 0;
}

/* A command that failed may have met a limit of the sandbox. */
static void name_limits(struct tn_sandbox *sb, struct tn_observation *o)
{
    bool failed = o->type == TN_OBSERVATION_ERROR ||
                  (o->type == TN_OBSERVATION_RUN && o->run.metadata.exit_code != 0);

    if (!failed || !(sb->backend->abilities & TN_CAN_LIMIT) || !look(sb))
        return;
    tn_autofree char *suffix =
        o->type == TN_OBSERVATION_RUN ? tn_strdup_or_null(o->run.metadata.suffix) : NULL;
    if (o->type == TN_OBSERVATION_RUN) {
        free(o->run.metadata.suffix);
        o->run.metadata.suffix =
            tn_asprintf("%s\n[The sandbox reports: %s]", suffix ? suffix : "", sb->record.reason);
    } else {
        tn_autofree char *text =
            tn_asprintf("%s\n[The sandbox reports: %s]", o->content.data ? o->content.data : "",
                        sb->record.reason);
        set_text(&o->content, text);
    }
}

/* --- the journal -------------------------------------------------------------------------------
 */

bool tn_names_secret(const char *name)
{
    static const char *const words[] = {"KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL"};

    for (size_t i = 0; i < TN_COUNT(words); i++)
        if (strcasestr(name, words[i]))
            return true;
    return false;
}

static int add_secret(const char *name, struct tn_json *value, void *ctx)
{
    const char *text = tn_json_str(value, NULL);
    struct tn_secret secret = {.name = name, .value = text};

    if (text && tn_names_secret(name))
        tn_stream_update_secrets(ctx, &secret, 1, NULL);
    return 0;
}

/* Set-up by the host: it may hold values that nobody should read. */
static bool is_hidden(const struct tn_action *action)
{
    return action->type == TN_ACTION_RUN && action->run.hidden;
}

/* The stream that its actions are journaled in; NULL when there can be none, which never stops an
 * action. */
static struct tn_stream *journal(struct tn_sandbox *sb)
{
    struct tn_stream_options options = {
        .directory = sb->directory, .existing = true, .log_only = true};
    struct tn_secret key = {.name = "session_api_key", .value = sb->record.key};

    if (sb->stream)
        return sb->stream;
    sb->stream = tn_stream_open(&options, NULL);
    if (sb->stream) {
        tn_stream_set_secrets(sb->stream, &key, 1, NULL);
        tn_json_each(sb->spec.env, add_secret, sb->stream);
        tn_sandbox_hide_tool_secrets(sb);
    }
    return sb->stream;
}

static enum tn_source source_of(const struct tn_action *action)
{
    for (int i = 0; action->event.source && tn_source_words[i]; i++)
        if (!strcmp(tn_source_words[i], action->event.source))
            return (enum tn_source)i;
    return TN_SOURCE_AGENT;
}

/* --- actions, done -----------------------------------------------------------------------------
 */

static int execute(struct tn_sandbox *sb, const struct tn_action *action,
                   struct tn_observation *observation, struct tn_error *err)
{
    double patience = action->timeout.set ? action->timeout.value : LOOK_SECONDS;
    struct tn_hand_client *client = tn_sandbox_client(sb, tn_deadline_in(patience), err);
    struct tn_error why = {0};

    if (!client)
        return -1;
    if (!tn_hand_client_execute(client, action, observation, &why)) {
        name_limits(sb, observation);
        return 0;
    }
    tn_hand_client_free(sb->client);
    sb->client = NULL;
    if (why.code == TN_E_PEER || why.code == TN_E_TIMEOUT) {
        tn_sandbox_inspect(sb, NULL, tn_deadline_in(LOOK_SECONDS), NULL);
        if (!reachable(sb))
            return died(sb, observation);
    }
    if (err)
        *err = why;
    return -1;
}

/* Whoever carries it out: the hand, or this side for tools of MCP servers. */
static int carry_out(struct tn_sandbox *sb, const struct tn_action *action,
                     struct tn_observation *observation, struct tn_error *err)
{
    if (action->type != TN_ACTION_CALL_TOOL_MCP)
        return execute(sb, action, observation, err);
    struct tn_toolbox *tools = tn_sandbox_toolbox(sb, err);
    if (!tools)
        return -1;
    tn_toolbox_execute(tools, action, observation);
    return 0;
}

/* There is an answer to every action in the journal, also when nobody could give one. */
static void note_failure(struct tn_stream *stream, const struct tn_action *action, int64_t cause,
                         const struct tn_error *why)
{
    tn_autoobservation struct tn_observation failure;

    tn_observation_init(&failure, TN_OBSERVATION_ERROR);
    set_text(&failure.content, why->text);
    tn_stream_add_observation(stream, &failure, source_of(action), cause, NULL, NULL);
}

int tn_sandbox_execute(struct tn_sandbox *sb, const struct tn_action *action,
                       struct tn_observation *observation, struct tn_error *err)
{
    struct tn_stream *stream = is_hidden(action) ? NULL : journal(sb);
    struct tn_action entry = *action; /* borrows everything */
    struct tn_error why = {0};
    int64_t cause = -1;

    entry.event.id = (struct tn_opt_int){0}; /* the journal gives it one of its own */
    if (stream)
        tn_stream_add_action(stream, &entry, source_of(action), &cause, NULL);
    int failed = carry_out(sb, action, observation, &why);
    if (stream && failed)
        note_failure(stream, action, cause, &why);
    else if (stream)
        tn_stream_add_observation(stream, observation, source_of(action), cause, NULL, NULL);
    if (failed && err)
        *err = why;
    return failed;
}

/* --- the backend's own ways --------------------------------------------------------------------
 */

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

int tn_sandbox_logs(struct tn_sandbox *sb, bool follow, tn_log_fn fn, void *ctx, int64_t deadline,
                    struct tn_error *err)
{
    struct tn_subject subject = tn_sandbox_subject(sb);

    return sb->backend->logs(sb->engine, &subject, follow, fn, ctx, deadline, err);
}

int tn_sandbox_usage(struct tn_sandbox *sb, struct tn_usage *out, struct tn_error *err)
{
    struct tn_subject subject = tn_sandbox_subject(sb);

    *out = (struct tn_usage){-1, -1, -1, -1, -1};
    return sb->backend->usage ? sb->backend->usage(sb->engine, &subject, out, err) : 0;
}
