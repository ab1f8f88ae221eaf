#include "runtime/session.h"

#include "base/log.h"
#include "runtime/setup/env.h"
#include "runtime/setup/session-impl.h"

/* The start-up files of the shell may be slow; nothing else here is. */
#define SETUP_SECONDS 60.0
/* Far above what a program could be started with. */
#define COMMAND_MAX (16u << 20)

/* --- life --------------------------------------------------------------------------------- */

static bool has_plugin(const struct tn_str_list *plugins, const char *name)
{
    for (size_t i = 0; plugins && i < plugins->count; i++)
        if (strcmp(plugins->items[i], name) == 0)
            return true;
    return false;
}

int session_hide_token(struct tn_session *s, const struct tn_git_token *token, struct tn_error *err)
{
    const struct tn_secret secret = {.name = tn_git_provider_key(token->provider),
                                     .value = token->token};

    tn_log_secret(token->token);
    if (s->hide)
        s->hide(s->executor.ctx, &secret);
    return s->stream ? tn_stream_update_secrets(s->stream, &secret, 1, err) : 0;
}

static struct tn_git_token *copy_tokens(const struct tn_git_token *tokens, size_t count)
{
    struct tn_git_token *copy = tn_calloc(count, sizeof *copy);

    for (size_t i = 0; i < count; i++)
        copy[i] = (struct tn_git_token){
            .provider = tokens[i].provider,
            .token = tn_strdup(tokens[i].token),
            .host = tn_strdup_or_null(tokens[i].host),
        };
    return copy;
}

static void free_secret(const char *text)
{
    char *s = (char *)(uintptr_t)text;

    if (s)
        explicit_bzero(s, strlen(s));
    free(s);
}

void git_tokens_done(struct git_tokens *t)
{
    for (size_t i = 0; i < t->count; i++) {
        free_secret(t->items[i].token);
        free((char *)(uintptr_t)t->items[i].host);
    }
    free(t->items);
    *t = (struct git_tokens){0};
}

struct git_tokens session_tokens(struct tn_session *s)
{
    pthread_mutex_lock(&s->lock);
    struct git_tokens t = {.items = copy_tokens(s->tokens, s->token_count),
                           .count = s->token_count};
    pthread_mutex_unlock(&s->lock);
    return t;
}

struct tn_session *tn_session_new(const struct tn_session_options *o, struct tn_error *err)
{
    const char *workspace =
        o->workspace ? o->workspace : o->config->core.workspace_mount_path_in_sandbox;
    struct tn_session *s = tn_calloc(1, sizeof *s);

    *s = (struct tn_session){
        .config = o->config,
        .executor = {.execute = o->execute, .ctx = o->execute_ctx, .lock = &s->executing},
        .judged = {.execute = o->execute_judged ? o->execute_judged : o->execute,
                   .ctx = o->execute_ctx,
                   .lock = &s->executing},
        .hide = o->hide,
        .id = tn_strdup(o->id ? o->id : "default"),
        .workspace = tn_strdup(workspace),
        .directory = tn_strdup_or_null(o->directory),
        .stream = o->stream,
        .toolbox = o->toolbox,
        .attached = o->attached,
        .shared_home = o->shared_home,
        .jupyter = has_plugin(o->plugins, "jupyter"),
        .token_in_url = o->token_in_url,
        .refresh = o->refresh,
        .refresh_ctx = o->refresh_ctx,
        .status_fn = o->status,
        .note_fn = o->note,
        .ctx = o->ctx,
        .status = TN_RUNTIME_STARTING_RUNTIME,
        .env = o->env ? tn_json_ref((struct tn_json *)(uintptr_t)o->env) : NULL,
        .tokens = copy_tokens(o->tokens, o->token_count),
        .token_count = o->token_count,
    };
    pthread_mutex_init(&s->executing, NULL);
    pthread_mutex_init(&s->lock, NULL);
    for (size_t i = 0; i < TN_COUNT(s->own); i++)
        s->own[i] = -1;
    for (size_t i = 0; i < s->token_count; i++)
        if (session_hide_token(s, &s->tokens[i], err) < 0) {
            tn_session_free(s);
            return NULL;
        }
    return s;
}

void tn_session_free(struct tn_session *s)
{
    if (!s)
        return;
    if (s->subscribed)
        tn_stream_unsubscribe(s->stream, TN_SUBSCRIBER_RUNTIME, s->id, NULL);
    git_tokens_done(&(struct git_tokens){.items = s->tokens, .count = s->token_count});
    tn_json_free(s->env);
    pthread_mutex_destroy(&s->executing);
    pthread_mutex_destroy(&s->lock);
    free(s->id);
    free(s->workspace);
    free(s->directory);
    free(s);
}

/* --- status and notes --------------------------------------------------------------------- */

enum tn_runtime_status tn_session_status(struct tn_session *s)
{
    pthread_mutex_lock(&s->lock);
    enum tn_runtime_status status = s->status;
    pthread_mutex_unlock(&s->lock);
    return status;
}

void tn_session_tell(struct tn_session *s, enum tn_runtime_status status, const char *level,
                     const char *message)
{
    pthread_mutex_lock(&s->lock);
    s->status = status;
    pthread_mutex_unlock(&s->lock);
    if (s->status_fn)
        s->status_fn(level, status, message, s->ctx);
}

void session_note(struct tn_session *s, const char *fmt, ...)
{
    struct tn_error text = {0};
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text.text, sizeof text.text, fmt, ap);
    va_end(ap);
    session_hide_tokens(s, &text);
    if (s->note_fn)
        s->note_fn(text.text, s->ctx);
}

/* --- secrets and places ------------------------------------------------------------------- */

void session_hide_tokens(struct tn_session *s, struct tn_error *err)
{
    autotokens struct git_tokens tokens = session_tokens(s);

    for (size_t i = 0; err && i < tokens.count; i++) {
        const char *token = tokens.items[i].token;
        size_t n = strlen(token);
        /* Stars of the same length or more would not fit; three always do where a token did. */
        for (char *hit; n > 3 && (hit = strstr(err->text, token));) {
            memcpy(hit, "***", 3);
            memmove(hit + 3, hit + n, strlen(hit + n) + 1);
        }
    }
}

char *session_path(const struct tn_session *s, const char *directory)
{
    if (!directory || !*directory)
        return tn_strdup(s->workspace);
    if (directory[0] == '/')
        return tn_strdup(directory);
    return tn_asprintf("%s/%s", s->workspace, directory);
}

/* --- the batch ---------------------------------------------------------------------------- */

/* The kernel has an environment of its own. */
static void tell_kernel(struct tn_session *s, const struct setup_env *env)
{
    tn_autobuf struct tn_buf cell = TN_BUF_INIT(COMMAND_MAX);
    tn_autoaction struct tn_action action;
    tn_autoobservation struct tn_observation o;
    struct tn_error err = {0};

    setup_env_put_cell(env, &cell);
    tn_action_init(&action, TN_ACTION_RUN_IPYTHON);
    action.run_ipython.code = tn_buf_take(&cell);
    action.timeout = (struct tn_opt_double){.set = true, .value = SETUP_SECONDS};
    tn_observation_init(&o, TN_OBSERVATION_NULL);
    if (setup_execute(&s->executor, &action, &o, &err) < 0)
        session_note(s, "the variables are not set in IPython: %s", err.text);
    else if (o.type != TN_OBSERVATION_RUN_IPYTHON)
        session_note(s, "the variables are not set in IPython");
}

static int run_batch(struct tn_session *s, const struct setup_batch *batch, struct tn_error *err)
{
    tn_autobuf struct tn_buf command = TN_BUF_INIT(COMMAND_MAX), printed = TN_BUF_INIT(1 << 20);

    setup_batch_put(batch, &command);
    if (!tn_buf_ok(&command))
        return tn_fail(err, TN_E_TOO_LARGE, "the variables are longer than %u MiB",
                       COMMAND_MAX >> 20);
    const struct setup_command c = {.text = tn_buf_str(&command), .timeout = SETUP_SECONDS};
    int status = setup_run(&s->executor, &c, &printed, err);
    explicit_bzero(command.data, command.len);
    if (status < 0)
        return -1;
    if (setup_batch_failed(tn_buf_str(&printed), SETUP_ENV))
        return tn_fail(err, TN_E_INTERNAL, "the shell could not set the variables");
    if (batch->persist && setup_batch_failed(tn_buf_str(&printed), SETUP_PERSIST))
        session_note(s, "shells to come will not know the variables: the home directory in the "
                        "sandbox cannot be written");
    if (batch->directory && setup_batch_failed(tn_buf_str(&printed), SETUP_DIRECTORY))
        session_note(s, "the workspace %s cannot be made", batch->directory);
    if (batch->git_name && setup_batch_failed(tn_buf_str(&printed), SETUP_GIT))
        session_note(s, "git's identity is not set: is there a git in the sandbox?");
    if (s->jupyter && batch->env->count > 0)
        tell_kernel(s, batch->env);
    return 0;
}

int tn_session_setup(struct tn_session *s, struct tn_error *err)
{
    autoenv struct setup_env env = {0};
    autotokens struct git_tokens tokens = session_tokens(s);
    const struct tn_config_core *core = &s->config->core;
    bool git = !s->shared_home && core->git_user_name && *core->git_user_name &&
               core->git_user_email && *core->git_user_email;

    if (!s->attached) {
        /* It was made for this session, which finds it running. */
        tn_session_tell(s, TN_RUNTIME_RUNTIME_STARTED, "info", "");
        if (setup_env_initial(&env, s->config, s->env, tokens.items, tokens.count, err) < 0)
            return -1;
        const struct setup_batch batch = {
            .env = &env,
            .persist = !s->shared_home,
            .directory = s->workspace,
            .git_name = git ? core->git_user_name : NULL,
            .git_email = git ? core->git_user_email : NULL,
        };
        if (run_batch(s, &batch, err) < 0)
            return tn_error_context(err, "set-up");
    }
    tn_session_tell(s, TN_RUNTIME_READY, "info", "");
    return 0;
}

int tn_session_add_env(struct tn_session *s, const struct tn_json *object, struct tn_error *err)
{
    autoenv struct setup_env env = {0};
    const struct setup_batch batch = {.env = &env, .persist = !s->shared_home};

    if (setup_env_add(&env, object, err) < 0)
        return -1;
    return env.count ? run_batch(s, &batch, err) : 0;
}
