/* The session as a subscriber: actions come in, observations go out. */
#include "runtime/setup/session-impl.h"

/* --- what the session itself added --------------------------------------------------------- */

int session_add_own_action(struct tn_session *s, const struct tn_action *action,
                           struct tn_error *err)
{
    int64_t id;

    if (!s->stream)
        return 0;
    /* Under the lock, so that the subscription cannot see it before it is known. */
    pthread_mutex_lock(&s->lock);
    int result = tn_stream_add_action(s->stream, action, TN_SOURCE_ENVIRONMENT, &id, err);
    if (result == 0)
        s->own[s->own_next++ % TN_COUNT(s->own)] = id;
    pthread_mutex_unlock(&s->lock);
    return result;
}

bool session_is_own(struct tn_session *s, int64_t id)
{
    bool found = false;

    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < TN_COUNT(s->own); i++)
        found |= s->own[i] == id;
    pthread_mutex_unlock(&s->lock);
    return found;
}

/* --- tokens ------------------------------------------------------------------------------- */

static bool mentions(const char *command, const char *key)
{
    size_t n = strlen(key);

    for (; *command; command++)
        if (strncasecmp(command, key, n) == 0)
            return true;
    return false;
}

static void replace_token(struct tn_session *s, enum tn_git_provider provider, const char *token)
{
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < s->token_count; i++)
        if (s->tokens[i].provider == provider) {
            char *old = (char *)(uintptr_t)s->tokens[i].token;
            explicit_bzero(old, strlen(old));
            free(old);
            s->tokens[i].token = tn_strdup(token);
        }
    pthread_mutex_unlock(&s->lock);
}

static int refresh_token(struct tn_session *s, const struct tn_git_token *old, struct tn_error *err)
{
    const char *key = tn_git_provider_key(old->provider);
    tn_autofree char *token = s->refresh(old->provider, s->id, s->refresh_ctx, err);
    tn_autobuf struct tn_buf text = TN_BUF_INIT(1 << 20);
    tn_autojson struct tn_json *env = NULL;
    struct tn_jw w = tn_jw(&text);

    if (!token)
        return -1;
    if (strcmp(token, old->token) == 0)
        return 0;
    replace_token(s, old->provider, token);
    /* Added to what is hidden already: nothing is uncovered. */
    const struct tn_git_token fresh = {.provider = old->provider, .token = token};
    if (session_hide_token(s, &fresh, err) < 0)
        return -1;
    tn_jw_object(&w);
    tn_jw_kstr(&w, key, token);
    tn_jw_object_end(&w);
    if (tn_json_parse(tn_buf_str(&text), text.len, &env, err) < 0)
        return -1;
    return tn_session_add_env(s, env, err);
}

void session_refresh_tokens(struct tn_session *s, const struct tn_action *action)
{
    if (action->type != TN_ACTION_RUN || !action->run.command || !s->refresh)
        return;
    autotokens struct git_tokens tokens = session_tokens(s);
    for (size_t i = 0; i < tokens.count; i++) {
        struct tn_error err = {0};
        if (mentions(action->run.command, tn_git_provider_key(tokens.items[i].provider)) &&
            refresh_token(s, &tokens.items[i], &err) < 0)
            session_note(s, "the token of %s is not fresh: %s",
                         tn_git_provider_name(tokens.items[i].provider), err.text);
    }
}

/* --- events ------------------------------------------------------------------------------- */

static enum tn_source source_of(const struct tn_event *event)
{
    for (size_t i = 0; event->source && tn_source_words[i]; i++)
        if (strcmp(tn_source_words[i], event->source) == 0)
            return (enum tn_source)i;
    return TN_SOURCE_AGENT;
}

static void answer(struct tn_session *s, struct tn_observation *o, enum tn_source source,
                   int64_t cause)
{
    struct tn_error err = {0};

    if (o->type != TN_OBSERVATION_NULL &&
        tn_stream_add_observation(s->stream, o, source, cause, NULL, &err) < 0)
        session_note(s, "an observation is lost: %s", err.text);
}

static void refuse(struct tn_session *s, const struct tn_stream_event *event,
                   const struct tn_error *why)
{
    const char *type = tn_json_get_str(event->tree, "action", "?");
    tn_autoobservation struct tn_observation o;

    if (why->code == TN_E_UNSUPPORTED)
        tn_observation_init_error(&o, NULL, "Action %.60s does not exist.", type);
    else
        tn_observation_init_error(&o, NULL, "Action %.60s: %s", type, why->text);
    free(o.error_id);
    o.error_id = tn_strdup("AGENT_ERROR$BAD_ACTION");
    answer(s, &o, TN_SOURCE_AGENT, event->id);
}

static int take_event(const struct tn_stream_event *event, void *ctx)
{
    struct tn_session *s = ctx;
    struct tn_action action;
    tn_autoobservation struct tn_observation o;
    struct tn_error err = {0};

    tn_observation_init(&o, TN_OBSERVATION_NULL);
    if (event->kind != TN_EVENT_ACTION || session_is_own(s, event->id))
        return 0;
    if (tn_action_from_json(event->tree, &action, &err) < 0) {
        refuse(s, event, &err);
        return 0;
    }
    if (!action.timeout.set && action.type == TN_ACTION_RUN)
        action.run.blocking = false;
    tn_session_run_action(s, &action, &o, &err);
    answer(s, &o, source_of(&action.event), event->id);
    tn_action_done(&action);
    return 0;
}

int tn_session_subscribe(struct tn_session *s, struct tn_error *err)
{
    if (!s->stream)
        return tn_fail(err, TN_E_INVALID, "the session has no event stream");
    if (tn_stream_subscribe(s->stream, TN_SUBSCRIBER_RUNTIME, s->id, -1, take_event, s, err) < 0)
        return -1;
    s->subscribed = true;
    return 0;
}
