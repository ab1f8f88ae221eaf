#include "runtime/toolbox.h"

#include <pthread.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "runtime/mcp/challenge.h"
#include "runtime/mcp/result.h"
#include "runtime/mcp/sandbox.h"

#define DEFAULT_SECONDS 120.0
#define CONTENT_MAX ((size_t)256 << 20)

struct tn_toolbox {
    char *session;
    tn_toolbox_note_fn note;
    void *note_ctx;
    char *state; /* or NULL */
    tn_toolbox_visit_fn visit;
    tn_toolbox_question_fn question;
    void *person_ctx;
    size_t max_message;
    struct mcp_sandbox *sandbox; /* or NULL */
    pthread_mutex_t lock;        /* of what follows */
    struct mcp_client **clients; /* in the order in which tools are looked for; never removed */
    size_t count;
    size_t sandbox_at;                 /* where the sandbox's own belongs */
    struct mcp_client *sandbox_client; /* once there are programs for it */
};

static void note(const struct tn_toolbox *t, const char *who, const struct tn_error *why)
{
    tn_autofree char *text = tn_asprintf("MCP server %s: %s", who, why->text);

    if (t->note)
        t->note(text, t->note_ctx);
}

/* --- making --------------------------------------------------------------------------------- */

/* Takes what the server holds. */
static void insert(struct tn_toolbox *t, size_t at, struct mcp_server server)
{
    server.max_message = t->max_message;
    struct mcp_client *client = mcp_client_new(&server);

    t->clients = tn_realloc(t->clients, (t->count + 1) * sizeof *t->clients);
    memmove(t->clients + at + 1, t->clients + at, (t->count - at) * sizeof *t->clients);
    t->clients[at] = client;
    t->count++;
}

static void append(struct tn_toolbox *t, struct mcp_server server)
{
    const char *url = server.ways[0].url;
    mcp_autourl struct mcp_url plain = {0}; /* a user in it is a login, too */

    if (server.key)
        tn_log_secret(server.key);
    else if (t->state && url && mcp_url_read(url, &plain, NULL) == 0)
        server.oauth = mcp_oauth_new(t->state, url, t->visit, t->person_ctx);
    server.question = t->question;
    server.question_ctx = t->person_ctx;
    pthread_mutex_lock(&t->lock);
    insert(t, t->count, server);
    pthread_mutex_unlock(&t->lock);
}

static void add_programs(struct tn_toolbox *t, const struct tn_json *list)
{
    mcp_sandbox_add(t->sandbox, list);
    pthread_mutex_lock(&t->lock);
    if (!t->sandbox_client && mcp_sandbox_used(t->sandbox)) {
        insert(t, t->sandbox_at, mcp_sandbox_server(t->sandbox, t->session));
        t->sandbox_client = t->clients[t->sandbox_at];
    }
    pthread_mutex_unlock(&t->lock);
}

static void add_configured(struct tn_toolbox *t, const struct tn_config *config)
{
    tn_autojson struct tn_json *programs = mcp_default_programs(config);
    tn_autojson struct tn_json *shttp = mcp_default_shttp(config);
    const struct tn_json *sse = config->mcp.sse_servers;

    for (size_t i = 0, n = tn_json_count(sse); i < n; i++)
        append(t, mcp_server_sse(tn_json_at(sse, i), t->session));
    t->sandbox_at = t->count;
    for (size_t i = 0, n = tn_json_count(shttp); i < n; i++)
        append(t, mcp_server_shttp(tn_json_at(shttp, i), t->session));
    if (t->sandbox)
        add_programs(t, programs);
}

struct tn_toolbox *tn_toolbox_new(const struct tn_toolbox_options *o, struct tn_error *err)
{
    struct tn_toolbox *t = tn_calloc(1, sizeof *t);

    t->session = tn_strdup_or_null(o->session);
    t->note = o->note;
    t->note_ctx = o->note_ctx;
    t->state = o->state ? tn_strdup(o->state) : o->config ? tn_config_state(o->config) : NULL;
    t->visit = o->visit;
    t->question = o->question;
    t->person_ctx = o->person_ctx;
    t->max_message = o->max_message ? o->max_message : MCP_MESSAGE_MAX;
    pthread_mutex_init(&t->lock, NULL);
    if (o->reach)
        t->sandbox = mcp_sandbox_new(o);
    if (o->config)
        add_configured(t, o->config);
    return t;
}

void tn_toolbox_free(struct tn_toolbox *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < t->count; i++)
        mcp_client_free(t->clients[i]);
    if (t->sandbox)
        mcp_sandbox_free(t->sandbox);
    pthread_mutex_destroy(&t->lock);
    free(t->clients);
    free(t->session);
    free(t->state);
    free(t);
}

int tn_toolbox_add_url(struct tn_toolbox *t, const char *url, const char *key, struct tn_error *err)
{
    if (tn_config_check_mcp_url(url, err) < 0)
        return -1;
    append(t, mcp_server_any(url, key, t->session));
    return 0;
}

int tn_toolbox_add_program(struct tn_toolbox *t, const char *command, struct tn_error *err)
{
    if (!*command)
        return tn_fail(err, TN_E_INVALID, "a command is expected");
    append(t, mcp_server_program(command));
    return 0;
}

int tn_toolbox_add_microagent(struct tn_toolbox *t, const struct tn_json *mcp_tools,
                              struct tn_error *err)
{
    tn_autojson struct tn_json *programs = NULL;
    const struct tn_error unsupported = {.text = "it is not yet supported."};

    if (tn_json_count(tn_json_get(mcp_tools, "sse_servers")))
        note(t, "Microagent MCP config contains SSE servers", &unsupported);
    if (!tn_json_get(mcp_tools, "stdio_servers"))
        return 0;
    if (tn_config_settle_programs(tn_json_get(mcp_tools, "stdio_servers"), &programs, err) < 0)
        return -1;
    if (!t->sandbox)
        return tn_fail(err, TN_E_UNSUPPORTED, "there is no sandbox for programs of microagents");
    add_programs(t, programs);
    return 0;
}

/* --- logins --------------------------------------------------------------------------------- */

static struct mcp_oauth *oauth_for(struct tn_toolbox *t, const char *url, struct tn_error *err)
{
    if (tn_config_check_mcp_url(url, err) < 0)
        return NULL;
    if (t->state)
        return mcp_oauth_new(t->state, url, NULL, NULL);
    tn_fail(err, TN_E_UNSUPPORTED, "there is no state directory to keep logins in");
    return NULL;
}

int tn_toolbox_prepare_login(struct tn_toolbox *t, const char *url,
                             const struct tn_toolbox_login *login, struct tn_error *err)
{
    struct mcp_oauth *oauth = oauth_for(t, url, err);
    int result = oauth ? mcp_oauth_prepare(oauth, login, err) : -1;

    mcp_oauth_free(oauth);
    return result;
}

int tn_toolbox_logout(struct tn_toolbox *t, const char *url, struct tn_error *err)
{
    struct mcp_oauth *oauth = oauth_for(t, url, err);
    int result = oauth ? mcp_oauth_forget(oauth, err) : -1;

    mcp_oauth_free(oauth);
    return result;
}

/* --- readiness of all ----------------------------------------------------------------------- */

struct attempt {
    struct mcp_client *client;
    bool refresh;
    int64_t deadline;
    pthread_t thread;
    bool started;
    int result;
    struct tn_error err;
};

/* The clients as they are now. */
static struct attempt *snapshot(struct tn_toolbox *t, size_t *count)
{
    pthread_mutex_lock(&t->lock);
    struct attempt *all = tn_calloc(t->count, sizeof *all);
    for (size_t i = 0; i < t->count; i++)
        all[i].client = t->clients[i];
    *count = t->count;
    pthread_mutex_unlock(&t->lock);
    return all;
}

static void *attempt(void *arg)
{
    struct attempt *a = arg;

    a->result = mcp_client_ready(a->client, a->refresh, a->deadline, &a->err);
    return NULL;
}

/* All at once: none waits for a slow one.  Returns how many are ready. */
static size_t make_ready(struct attempt *all, size_t count, bool refresh, int64_t deadline)
{
    size_t ready = 0;

    for (size_t i = 0; i < count; i++) {
        struct attempt *a = &all[i];
        a->result = 0;
        a->started = false;
        if (!refresh && mcp_client_is_ready(a->client))
            continue;
        a->refresh = refresh;
        a->deadline = deadline;
        a->started = tn_thread_start(&a->thread, attempt, a) == 0;
        if (!a->started)
            attempt(a);
    }
    for (size_t i = 0; i < count; i++) {
        if (all[i].started)
            pthread_join(all[i].thread, NULL);
        ready += all[i].result == 0;
    }
    return ready;
}

/* Tells the sandbox of programs that came meanwhile. */
static void update_sandbox(struct tn_toolbox *t, int64_t deadline)
{
    struct tn_error err = {0};

    if (!t->sandbox)
        return;
    int updated = mcp_sandbox_update(t->sandbox, deadline, &err);
    if (updated < 0)
        note(t, "sandbox", &err);
    if (updated <= 0)
        return;
    pthread_mutex_lock(&t->lock);
    mcp_client_stale(t->sandbox_client);
    pthread_mutex_unlock(&t->lock);
}

/* A server that hangs must not take all the time there is for the call to another one. */
static int64_t connect_deadline(int64_t deadline)
{
    return tn_now() + (deadline - tn_now()) / 2;
}

static const char *label(const struct attempt *a)
{
    return mcp_client_server(a->client)->label;
}

/* --- listing -------------------------------------------------------------------------------- */

struct listing {
    tn_tool_fn fn;
    void *ctx;
    const char **names; /* borrowed from the lists, which `held` keeps */
    size_t count;
};

static bool is_new(struct listing *l, const char *name)
{
    for (size_t i = 0; i < l->count; i++)
        if (strcmp(l->names[i], name) == 0)
            return false;
    l->names = tn_realloc(l->names, (l->count + 1) * sizeof *l->names);
    l->names[l->count++] = name;
    return true;
}

static int list_one(struct listing *l, const char *server, const struct tn_json *tools)
{
    int stop = 0;

    for (size_t i = 0, n = tn_json_count(tools); i < n && !stop; i++) {
        const struct tn_json *json = tn_json_at(tools, i);
        const struct tn_tool tool = {
            .server = server, .name = tn_json_get_str(json, "name", ""), .json = json};
        if (is_new(l, tool.name))
            stop = l->fn(&tool, l->ctx);
    }
    return stop;
}

int tn_toolbox_list(struct tn_toolbox *t, int64_t deadline, tn_tool_fn fn,
                    tn_tool_problem_fn problem, void *ctx)
{
    size_t count;
    tn_autofree struct attempt *all = snapshot(t, &count);
    struct tn_json **held = tn_calloc(count, sizeof *held);
    struct listing l = {.fn = fn, .ctx = ctx};
    int stop = 0;

    update_sandbox(t, deadline);
    size_t ready = make_ready(all, count, true, deadline);
    if (t->sandbox && problem)
        mcp_sandbox_complain(t->sandbox, problem, ctx);
    for (size_t i = 0; i < count; i++) {
        if (all[i].result < 0 && problem)
            problem(label(&all[i]), &all[i].err, ctx);
        if (all[i].result == 0 && !stop) {
            held[i] = mcp_client_tools(all[i].client);
            stop = list_one(&l, label(&all[i]), held[i]);
        }
    }
    for (size_t i = 0; i < count; i++)
        tn_json_free(held[i]);
    free(held);
    free(l.names);
    return (int)ready;
}

/* --- calling -------------------------------------------------------------------------------- */

/* before: also who had it once.  Names may change when servers come and go, and a server that knows
 * both shall be asked. */
static struct mcp_client *find_owner(const struct attempt *all, size_t count, const char *name,
                                     bool before)
{
    for (size_t i = 0; i < count; i++)
        if (all[i].result == 0 && mcp_client_owns(all[i].client, name, before))
            return all[i].client;
    return NULL;
}

/* Nobody can be asked: why, if there was anybody. */
static void answer_nobody(const struct attempt *all, size_t count, struct tn_observation *o)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(16 << 10);

    tn_buf_puts(&text, "No MCP clients found");
    for (size_t i = 0; i < count; i++)
        tn_buf_printf(&text, "%s%s: %s", i ? "; " : " (", label(&all[i]), all[i].err.text);
    tn_buf_puts(&text, count ? ")" : "");
    tn_observation_init_error(o, NULL, "%s", tn_buf_str(&text));
}

static void answer(struct tn_observation *o, const struct tn_action *action, struct tn_buf *content)
{
    if (!tn_buf_ok(content)) {
        struct tn_jw w = tn_jw(content);
        tn_buf_reset(content);
        mcp_put_failure(&w, "the result is too large");
    }
    tn_observation_init(o, TN_OBSERVATION_MCP);
    free(o->mcp.name);
    o->mcp.name = tn_strdup(action->call_tool_mcp.name);
    if (action->call_tool_mcp.arguments) {
        tn_json_free(o->mcp.arguments);
        o->mcp.arguments = tn_json_ref(action->call_tool_mcp.arguments);
    }
    tn_observation_take_content(o, content);
}

static void call(struct mcp_client *client, const struct tn_action *action, double seconds,
                 int64_t deadline, struct tn_buf *content)
{
    const struct mcp_server *server = mcp_client_server(client);
    const struct tn_mcp_action *wanted = &action->call_tool_mcp;
    tn_autorpc struct tn_rpc result = {0};
    struct tn_jw w = tn_jw(content);
    struct tn_error err = {0};

    if (server->timeout > 0 && tn_deadline_in(server->timeout) < deadline) {
        seconds = server->timeout;
        deadline = tn_deadline_in(seconds);
    }
    if (mcp_client_call(client, wanted->name, wanted->arguments, deadline, &result, &err) == 0) {
        if (result.kind == TN_RPC_ERROR)
            mcp_put_failure(&w, result.message);
        else
            mcp_put_result(&w, result.result);
    } else if (err.code == TN_E_TIMEOUT) {
        tn_autofree char *text =
            tn_asprintf("Tool \"%s\" timed out after %g seconds", wanted->name, seconds);
        mcp_put_failure(&w, text);
    } else {
        mcp_put_failure(&w, err.text);
    }
}

void tn_toolbox_execute(struct tn_toolbox *t, const struct tn_action *action,
                        struct tn_observation *o)
{
    double seconds =
        action->timeout.set && action->timeout.value > 0 ? action->timeout.value : DEFAULT_SECONDS;
    int64_t deadline = tn_deadline_in(seconds);
    const char *name = action->call_tool_mcp.name;
    tn_autobuf struct tn_buf content = TN_BUF_INIT(CONTENT_MAX);
    size_t count;
    tn_autofree struct attempt *all = snapshot(t, &count);

    update_sandbox(t, connect_deadline(deadline));
    size_t ready = make_ready(all, count, false, connect_deadline(deadline));
    struct mcp_client *owner = find_owner(all, count, name, false);
    if (!owner && ready) {
        ready = make_ready(all, count, true, connect_deadline(deadline));
        owner = find_owner(all, count, name, true);
    }
    if (!ready) {
        answer_nobody(all, count, o);
    } else if (!owner) {
        tn_observation_init_error(o, NULL, "No matching MCP agent found for tool name: %s", name);
    } else {
        call(owner, action, seconds, deadline, &content);
        answer(o, action, &content);
    }
}
