/* The public interface over runtime/session.h. */
#include "runtime/session.h"

#include <tendon/tendon.h>

#include "runtime/sandbox-journal.h"
#include "tendon/library.h"

enum { TOKENS_MAX = 16 };

struct tendon_session {
    struct tendon_sandbox *sandbox;
    struct tendon_session_watch watch;
    struct tn_stream *stream;
    struct tn_session *session;
    struct tendon_session *next; /* on the same handle */
};

static char *fail(struct tendon_error *to, const struct tn_error *from)
{
    tn_library_fail(to, from);
    return NULL;
}

/* --- being told ---------------------------------------------------------------------------- */

static void tell_status(const char *level, enum tn_runtime_status status, const char *message,
                        void *ctx)
{
    const struct tendon_session *s = ctx;

    if (s->watch.status)
        s->watch.status(level, tn_runtime_status_text(status), message, s->watch.ctx);
}

static void tell_note(const char *text, void *ctx)
{
    const struct tendon_session *s = ctx;

    if (s->watch.note)
        s->watch.note(text, s->watch.ctx);
}

void tn_library_tell_sessions(struct tendon_sandbox *sb, enum tn_goal goal)
{
    bool stop = goal == TN_GOAL_STOPPED || goal == TN_GOAL_SUSPENDED;
    struct tendon_session *s = sb->sessions;

    if (!stop && goal != TN_GOAL_RUNNING)
        return;
    while (s) {
        if ((tn_session_status(s->session) == TN_RUNTIME_STOPPED) == stop) {
            s = s->next;
            continue;
        }
        tn_session_tell(s->session, stop ? TN_RUNTIME_STOPPED : TN_RUNTIME_READY, "info", "");
        s = sb->sessions; /* whoever was told may have closed any of them */
    }
}

/* --- options ------------------------------------------------------------------------------- */

struct options {
    char *id, *workspace, *directory;
    bool attached, token_in_url;
    struct tn_json *env, *tokens;
};

#define OPTIONS struct options
static const struct tn_field option_rows[] = {
    TN_STRING("id", OPTIONS, id, .flags = TN_FIELD_NULLABLE),
    TN_STRING("workspace", OPTIONS, workspace, .flags = TN_FIELD_NULLABLE),
    TN_STRING("directory", OPTIONS, directory, .flags = TN_FIELD_NULLABLE),
    TN_BOOL("attached", OPTIONS, attached),
    TN_BOOL("token_in_url", OPTIONS, token_in_url),
    TN_JSON("env", OPTIONS, env, .flags = TN_FIELD_NULLABLE | TN_FIELD_MAP | TN_FIELD_SECRET),
    TN_JSON("tokens", OPTIONS, tokens, .flags = TN_FIELD_NULLABLE | TN_FIELD_SECRET),
};
static const struct tn_fields option_fields = TN_FIELDS(option_rows);

struct token {
    char *provider, *token, *host;
};

#define TOKEN struct token
static const struct tn_field token_rows[] = {
    TN_STRING("provider", TOKEN, provider),
    TN_STRING("token", TOKEN, token, .flags = TN_FIELD_NULLABLE | TN_FIELD_SECRET),
    TN_STRING("host", TOKEN, host, .flags = TN_FIELD_NULLABLE),
};
static const struct tn_fields token_fields = TN_FIELDS(token_rows);

struct repository {
    char *name, *provider, *branch;
};

#define REPOSITORY struct repository
static const struct tn_field repository_rows[] = {
    TN_STRING("name", REPOSITORY, name, .flags = TN_FIELD_NULLABLE),
    TN_STRING("provider", REPOSITORY, provider, .flags = TN_FIELD_NULLABLE),
    TN_STRING("branch", REPOSITORY, branch, .flags = TN_FIELD_NULLABLE),
};
static const struct tn_fields repository_fields = TN_FIELDS(repository_rows);

/* What the text says, over the defaults; the caller ends it with tn_fields_done, also then. */
static int read_fields(const struct tn_fields *fields, void *out, const char *what,
                       const char *text, struct tn_error *err)
{
    tn_autojson struct tn_json *json = NULL;

    tn_fields_defaults(fields, out);
    if (!text)
        return 0;
    if (tn_json_parse(text, strlen(text), &json, err) < 0 ||
        tn_fields_refuse_unknown(fields, json, err) < 0 ||
        tn_fields_from_json(fields, out, json, err) < 0)
        return tn_error_context(err, "%s", what);
    return 0;
}

/* A host that is misspelt must not send the token to the usual one. */
static int check_token(const struct tn_json *one, struct tn_error *err)
{
    struct token token;

    tn_fields_defaults(&token_fields, &token);
    int failed = tn_fields_refuse_unknown(&token_fields, one, err) < 0 ||
                 tn_fields_from_json(&token_fields, &token, one, err) < 0;
    if (!failed && !token.token)
        failed = tn_fail(err, TN_E_INVALID, "one has no token");
    tn_fields_done(&token_fields, &token);
    return failed ? tn_error_context(err, "tokens") : 0;
}

/* How many there are, or -1; borrowed from the JSON. */
static int read_tokens(const struct tn_json *list, struct tn_git_token out[TOKENS_MAX],
                       struct tn_error *err)
{
    size_t count = tn_json_count(list);

    if (list && tn_json_type(list) != TN_JSON_ARRAY)
        return tn_fail(err, TN_E_INVALID, "tokens: expected a list");
    if (count > TOKENS_MAX)
        return tn_fail(err, TN_E_INVALID, "tokens: more than %d", TOKENS_MAX);
    for (size_t i = 0; i < count; i++) {
        const struct tn_json *one = tn_json_at(list, i);

        if (check_token(one, err) < 0)
            return -1;
        out[i] = (struct tn_git_token){.token = tn_json_get_str(one, "token", NULL),
                                       .host = tn_json_get_str(one, "host", NULL)};
        if (tn_git_provider_find(tn_json_get_str(one, "provider", ""), &out[i].provider, err) < 0)
            return tn_error_context(err, "tokens");
    }
    return (int)count;
}

/* Where the main shell is, on the heap. */
static char *ask_directory(struct tn_sandbox *sb, struct tn_error *err)
{
    tn_autoaction struct tn_action action;
    tn_autoobservation struct tn_observation o;

    tn_action_init_run(&action, "pwd", 30);
    tn_observation_init(&o, TN_OBSERVATION_NULL);
    action.run.hidden = true;
    if (tn_sandbox_execute(sb, &action, &o, err) < 0)
        return NULL;
    if (o.type == TN_OBSERVATION_RUN && o.run.metadata.exit_code == 0 && o.content.data &&
        *o.content.data == '/')
        return tn_strdup(o.content.data);
    tn_fail(err, TN_E_CONFLICT, "the main shell does not say where it is");
    return NULL;
}

/* --- opening ------------------------------------------------------------------------------- */

static int start(struct tendon_session *s, struct options *o, struct tn_error *err)
{
    struct tn_sandbox *sb = s->sandbox->sb;
    const struct tn_spec *spec = tn_sandbox_spec(sb);
    struct tn_git_token tokens[TOKENS_MAX];
    int count = read_tokens(o->tokens, tokens, err);
    struct tn_toolbox *toolbox = count < 0 ? NULL : tn_sandbox_toolbox(sb, err);

    if (!toolbox)
        return -1;
    if (!o->workspace)
        o->workspace = spec->workspace ? tn_strdup(spec->workspace) : ask_directory(sb, err);
    if (!o->workspace)
        return -1;
    const struct tn_stream_options record = {.directory = o->directory};
    if (o->directory && !(s->stream = tn_stream_open(&record, err)))
        return -1;
    const struct tn_session_options how = {
        .config = &s->sandbox->tendon->config,
        .execute = tn_session_setup_in_sandbox,
        .execute_judged = tn_session_in_sandbox,
        .hide = tn_session_hide_in_sandbox,
        .execute_ctx = sb,
        .id = o->id,
        .workspace = o->workspace,
        .directory = o->directory,
        .stream = s->stream,
        .attached = o->attached,
        .shared_home = !(tn_sandbox_backend(sb)->abilities & TN_CAN_ISOLATE),
        .toolbox = toolbox,
        .plugins = &spec->plugins,
        .env = o->env,
        .tokens = tokens,
        .token_count = (size_t)count,
        .token_in_url = o->token_in_url,
        .refresh = getenv("WEB_HOST") ? tn_session_refresh_token : NULL,
        .status = tell_status,
        .note = tell_note,
        .ctx = s,
    };
    s->session = tn_session_new(&how, err);
    return s->session ? 0 : -1;
}

struct tendon_session *tendon_session_open(struct tendon_sandbox *sb, const char *options,
                                           const struct tendon_session_watch *watch,
                                           struct tendon_error *err)
{
    struct tendon_session *s = tn_calloc(1, sizeof *s);
    struct tn_error why = {0};
    struct options o = {0};

    s->sandbox = sb;
    if (watch)
        s->watch = *watch;
    int failed = read_fields(&option_fields, &o, "options", options, &why);
    if (!failed)
        failed = start(s, &o, &why);
    tn_fields_done(&option_fields, &o);
    if (!failed) {
        s->next = sb->sessions;
        return sb->sessions = s;
    }
    tendon_session_close(s);
    tn_library_fail(err, &why);
    return NULL;
}

void tendon_session_close(struct tendon_session *s)
{
    if (!s)
        return;
    for (struct tendon_session **at = &s->sandbox->sessions; *at; at = &(*at)->next)
        if (*at == s) {
            *at = s->next;
            break;
        }
    tn_session_free(s->session);
    tn_stream_close(s->stream);
    free(s);
}

/* --- the workspace ------------------------------------------------------------------------- */

int tendon_session_setup(struct tendon_session *s, struct tendon_error *err)
{
    struct tn_error why = {0};

    return tn_session_setup(s->session, &why) < 0 ? tn_library_fail(err, &why) : 0;
}

int tendon_session_add_env(struct tendon_session *s, const char *env, struct tendon_error *err)
{
    tn_autojson struct tn_json *json = NULL;
    struct tn_error why = {0};

    if (tn_json_parse(env, strlen(env), &json, &why) < 0 ||
        tn_session_add_env(s->session, json, &why) < 0)
        return tn_library_fail(err, &why);
    return 0;
}

static int prepare(struct tendon_session *s, const struct repository *wanted, struct tn_jw *w,
                   struct tn_error *err)
{
    tn_automicroagents struct tn_microagents list = {0};
    tn_autofree char *directory = NULL;
    const char *usual = s->sandbox->tendon->config.sandbox.selected_repo;
    struct tn_repository repository = {.name = wanted->name ? wanted->name : usual,
                                       .provider = TN_GIT_PROVIDERS,
                                       .branch = wanted->branch};

    if ((wanted->provider &&
         tn_git_provider_find(wanted->provider, &repository.provider, err) < 0) ||
        tn_session_prepare(s->session, &repository, &directory, &list, err) < 0)
        return -1;
    tn_jw_object(w);
    tn_jw_kstr(w, "directory", directory);
    tn_jw_key(w, "microagents");
    tn_jw_array(w);
    for (size_t i = 0; i < list.count; i++) {
        tn_jw_object(w);
        tn_fields_to_json(&tn_microagent_fields, &list.items[i], w);
        tn_jw_object_end(w);
    }
    tn_jw_array_end(w);
    tn_jw_object_end(w);
    return 0;
}

char *tendon_session_prepare(struct tendon_session *s, const char *repository,
                             struct tendon_error *err)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(MAX_TEXT);
    struct tn_jw w = tn_jw(&out);
    struct tn_error why = {0};
    struct repository wanted = {0};

    int failed = read_fields(&repository_fields, &wanted, "repository", repository, &why);
    if (!failed)
        failed = prepare(s, &wanted, &w, &why);
    tn_fields_done(&repository_fields, &wanted);
    return failed ? fail(err, &why) : tn_library_text(&out, err);
}

char *tendon_session_changes(struct tendon_session *s, const char *cwd, struct tendon_error *err)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(MAX_TEXT);
    struct tn_error why = {0};

    if (tn_session_git_changes(s->session, cwd, &out, &why) < 0)
        return fail(err, &why);
    return tn_library_text(&out, err);
}

char *tendon_session_diff(struct tendon_session *s, const char *file, const char *cwd,
                          struct tendon_error *err)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(MAX_TEXT);
    struct tn_error why = {0};

    if (tn_session_git_diff(s->session, file, cwd, &out, &why) < 0)
        return fail(err, &why);
    return tn_library_text(&out, err);
}

char *tendon_session_branch(struct tendon_session *s, const char *cwd, struct tendon_error *err)
{
    struct tn_error why = {0};
    char *branch = tn_session_git_branch(s->session, cwd, &why);

    return branch ? branch : fail(err, &why);
}

/* --- actions ------------------------------------------------------------------------------- */

char *tendon_session_act(struct tendon_session *s, const char *text, struct tendon_error *err)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(MAX_TEXT);
    tn_autojson struct tn_json *json = NULL;
    tn_autoobservation struct tn_observation o;
    struct tn_jw w = tn_jw(&out);
    struct tn_error why = {0};
    struct tn_action action;

    tn_observation_init(&o, TN_OBSERVATION_NULL);
    if (tn_json_parse(text, strlen(text), &json, &why) < 0 ||
        tn_action_from_json(json, &action, &why) < 0) {
        tn_error_context(&why, "action");
        return fail(err, &why);
    }
    int64_t id = tn_note_action(s->stream, &action);
    tn_session_run_action(s->session, &action, &o, &why);
    tn_note_observation(s->stream, &action, id, &o);
    tn_action_done(&action);
    tn_observation_to_json(&o, &w);
    return tn_library_text(&out, err);
}
