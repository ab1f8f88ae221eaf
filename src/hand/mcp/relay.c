/* What servers tell and ask by themselves, and who hears it. */
#include "base/log.h"
#include "base/thread.h"
#include "hand/mcp/proxy-internal.h"

enum { RELAYS_MAX = 32 };
#define TEXT_MAX ((size_t)32 << 20)

/* --- levels of logging ---------------------------------------------------------------------- */

static const char *const levels[MCP_LEVELS] = {"debug", "info",     "notice", "warning",
                                               "error", "critical", "alert",  "emergency"};

int mcp_level(const char *name)
{
    for (int i = 0; i < (int)TN_COUNT(levels); i++) {
        if (strcmp(levels[i], name) == 0)
            return i;
    }
    return -1;
}

void mcp_send_level(struct mcp_proxy *p, struct mcp_backend *b)
{
    tn_autorpc struct tn_rpc answer = {0};
    int level = MCP_LEVELS;
    struct tn_error err;

    pthread_mutex_lock(&p->lock);
    for (const struct mcp_listener *l = p->listeners; l; l = l->next) {
        if (l->level < level)
            level = l->level;
    }
    pthread_mutex_unlock(&p->lock);
    if (level == MCP_LEVELS || !mcp_backend_pid(b) || !mcp_backend_can(b, "logging") ||
        mcp_backend_is_modern(b))
        return;
    if (!mcp_backend_note_level(b, level))
        return;
    tn_autofree char *params = tn_asprintf("{\"level\":\"%s\"}", levels[level]);
    mcp_backend_call(b, "logging/setLevel", params, NULL, &answer, &err);
}

/* --- notifications -------------------------------------------------------------------------- */

static bool wants_log(const struct mcp_listener *l, const struct tn_json *params)
{
    return mcp_level(tn_json_get_str(params, "level", "")) >= l->level;
}

static bool wants_update(const struct mcp_listener *l, const struct tn_json *params)
{
    return mcp_subscribed(l, tn_json_get_str(params, "uri", ""));
}

/* Tells those clients that want it. */
static void tell(struct mcp_proxy *p, const struct tn_rpc *m, const char *params,
                 bool (*wants)(const struct mcp_listener *l, const struct tn_json *params))
{
    struct tn_mcp_client **clients = NULL;
    size_t n = 0;

    pthread_mutex_lock(&p->lock);
    for (const struct mcp_listener *l = p->listeners; l; l = l->next) {
        struct tn_mcp_client *client = wants(l, m->params) ? tn_mcp_client_ref(l->client) : NULL;
        if (client) {
            clients = tn_realloc(clients, (n + 1) * sizeof *clients);
            clients[n++] = client;
        }
    }
    pthread_mutex_unlock(&p->lock);
    for (size_t i = 0; i < n; i++) {
        tn_mcp_client_notify(clients[i], m->method, params);
        tn_mcp_client_unref(clients[i]);
    }
    free(clients);
}

/* What is logged for a client without a session comes with its request; servers do not say for
 * which it is. */
static void tell_requests(struct mcp_proxy *p, struct mcp_backend *b, const struct tn_rpc *m,
                          const char *params)
{
    struct tn_mcp_request **requests;
    size_t n = mcp_backend_requests(b, &requests);
    int level = mcp_level(tn_json_get_str(m->params, "level", ""));

    for (size_t i = 0; i < n; i++) {
        const struct tn_json *hello = tn_mcp_client_hello(tn_mcp_request_client(requests[i]));
        int wanted = mcp_level(tn_json_get_str(hello, "logLevel", ""));
        if (wanted >= 0 && level >= wanted)
            tn_mcp_request_notify(requests[i], m->method, params);
        tn_mcp_request_unref(requests[i]);
    }
    free(requests);
}

static const char *level_of(void *ctx, const struct tn_mcp_client *client)
{
    struct mcp_proxy *p = ctx;
    int level = MCP_LEVELS;

    pthread_mutex_lock(&p->lock);
    for (const struct mcp_listener *l = p->listeners; l; l = l->next) {
        if (l->client == client)
            level = l->level;
    }
    pthread_mutex_unlock(&p->lock);
    return level < MCP_LEVELS ? levels[level] : NULL;
}

static const struct {
    const char *method;
    bool (*wants)(const struct mcp_listener *l, const struct tn_json *params); /* NULL: all do */
} notifications[] = {
    {"notifications/message", wants_log},
    {"notifications/resources/updated", wants_update},
    {"notifications/tools/list_changed", NULL},
    {"notifications/prompts/list_changed", NULL},
    {"notifications/resources/list_changed", NULL},
};

static void take_notification(void *ctx, struct mcp_backend *b, const struct tn_rpc *m)
{
    struct mcp_proxy *p = ctx;
    tn_autobuf struct tn_buf params = TN_BUF_INIT(TEXT_MAX);

    mcp_copy_params(&params, m->params, NULL, NULL);
    if (!tn_buf_ok(&params))
        return;
    if (strcmp(m->method, "notifications/message") == 0)
        tell_requests(p, b, m, tn_buf_str(&params));
    for (size_t i = 0; i < TN_COUNT(notifications); i++) {
        if (strcmp(notifications[i].method, m->method) != 0)
            continue;
        if (notifications[i].wants)
            tell(p, m, tn_buf_str(&params), notifications[i].wants);
        else
            tn_mcp_server_notify(p->server, m->method, tn_buf_str(&params));
    }
}

/* --- requests ------------------------------------------------------------------------------- */

struct relay {
    struct mcp_proxy *proxy;
    struct mcp_run *run;
    struct tn_mcp_request *cause;
    struct tn_json *id;
    char *method;
    char *params;
    double seconds;
};

static void free_relay(struct relay *r)
{
    pthread_mutex_lock(&r->proxy->lock);
    r->proxy->relays--;
    pthread_cond_broadcast(&r->proxy->fewer);
    pthread_mutex_unlock(&r->proxy->lock);
    tn_json_free(r->id);
    free(r->method);
    free(r->params);
    free(r);
}

static void *run_relay(void *arg)
{
    struct relay *r = arg;
    tn_autobuf struct tn_buf text = TN_BUF_INIT(TEXT_MAX);
    tn_autorpc struct tn_rpc answer = {0};
    struct tn_jw w = tn_jw(&text);
    struct tn_error err;

    if (tn_mcp_client_call(tn_mcp_request_client(r->cause), r->cause, r->method, r->params,
                           tn_deadline_in(r->seconds), &answer, &err) < 0) {
        mcp_run_answer(r->run, r->id, TN_RPC_INTERNAL_ERROR, err.text);
    } else if (answer.kind == TN_RPC_ERROR) {
        mcp_run_answer(r->run, r->id, answer.code ? answer.code : TN_RPC_INTERNAL_ERROR,
                       answer.message);
    } else {
        tn_jw_tree(&w, answer.result);
        mcp_run_answer(r->run, r->id, 0, tn_buf_ok(&text) ? tn_buf_str(&text) : "");
    }
    tn_mcp_request_unref(r->cause);
    mcp_run_unref(r->run);
    free_relay(r);
    return NULL;
}

static const struct mcp_question questions[] = {
    {"sampling/createMessage", "sampling", NULL},
    {"elicitation/create", "elicitation", NULL},
    {"roots/list", "roots", "{\"roots\":[]}"},
};

const struct mcp_question *mcp_question_find(const char *method)
{
    for (size_t i = 0; i < TN_COUNT(questions); i++) {
        if (strcmp(questions[i].method, method) == 0)
            return &questions[i];
    }
    return NULL;
}

/* False when there are too many, or no thread is to be had. */
static bool start_relay(struct mcp_proxy *p, struct mcp_backend *b, struct mcp_run *run,
                        const struct tn_rpc *m, struct tn_mcp_request *cause)
{
    tn_autobuf struct tn_buf params = TN_BUF_INIT(TEXT_MAX);
    struct tn_jw w = tn_jw(&params);
    pthread_t thread;

    if (m->params)
        tn_jw_tree(&w, m->params);
    pthread_mutex_lock(&p->lock);
    bool room = p->relays < RELAYS_MAX && tn_buf_ok(&params);
    p->relays += room;
    pthread_mutex_unlock(&p->lock);
    if (!room)
        return false;
    struct relay *r = tn_calloc(1, sizeof *r);
    *r = (struct relay){
        .proxy = p,
        .run = mcp_run_ref(run),
        .cause = cause,
        .id = tn_json_copy(m->id),
        .method = tn_strdup(m->method),
        .params = tn_buf_take(&params),
        .seconds = mcp_backend_spec(b)->timeout,
    };
    if (tn_thread_start(&thread, run_relay, r) == 0) {
        pthread_detach(thread);
        return true;
    }
    mcp_run_unref(run);
    free_relay(r);
    return false;
}

static void take_request(void *ctx, struct mcp_backend *b, struct mcp_run *run,
                         const struct tn_rpc *m)
{
    const struct mcp_question *q = mcp_question_find(m->method);

    if (!q) {
        mcp_run_answer(run, m->id, TN_RPC_METHOD_NOT_FOUND, "Method not found");
        return;
    }
    struct tn_mcp_request *cause = mcp_backend_cause(b, q->capability);
    if (cause && start_relay(ctx, b, run, m, cause))
        return;
    if (cause)
        tn_mcp_request_unref(cause);
    if (q->otherwise)
        mcp_run_answer(run, m->id, 0, q->otherwise);
    else
        mcp_run_answer(run, m->id, TN_RPC_METHOD_NOT_FOUND,
                       "no client that could answer this has a request under way here");
}

/* --- what a server without sessions tells ----------------------------------------------------- */

#define LISTEN_MAX ((size_t)2 << 20)

static int compare(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The resources of a server that clients want to hear of, once each. */
static void put_wanted(struct mcp_proxy *p, const char *server, struct tn_jw *w)
{
    const char **uris = NULL;
    size_t n = 0;

    pthread_mutex_lock(&p->lock);
    for (const struct mcp_listener *l = p->listeners; l; l = l->next) {
        for (size_t i = 0; i < l->subscription_count; i++) {
            if (strcmp(l->subscriptions[i].server, server) == 0) {
                uris = tn_realloc(uris, (n + 1) * sizeof *uris);
                uris[n++] = l->subscriptions[i].uri;
            }
        }
    }
    if (n)
        qsort(uris, n, sizeof *uris, compare);
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || strcmp(uris[i], uris[i - 1]) != 0)
            tn_jw_str(w, uris[i]);
    }
    pthread_mutex_unlock(&p->lock);
    free(uris);
}

int mcp_relisten(struct mcp_proxy *p, struct mcp_backend *b, struct tn_error *err)
{
    tn_autobuf struct tn_buf wish = TN_BUF_INIT(LISTEN_MAX);
    struct tn_jw w = tn_jw(&wish);

    pthread_mutex_lock(&p->listening);
    tn_jw_object(&w);
    tn_jw_kbool(&w, "toolsListChanged", true);
    tn_jw_kbool(&w, "promptsListChanged", true);
    tn_jw_kbool(&w, "resourcesListChanged", true);
    tn_jw_key(&w, "resourceSubscriptions");
    tn_jw_array(&w);
    put_wanted(p, mcp_backend_spec(b)->name, &w);
    tn_jw_array_end(&w);
    tn_jw_object_end(&w);
    int result = tn_buf_ok(&wish)
                     ? mcp_backend_listen(b, tn_buf_str(&wish), err)
                     : tn_fail(err, TN_E_TOO_LARGE,
                               "the subscriptions at MCP server '%s' need more than %zu MB",
                               mcp_backend_spec(b)->name, LISTEN_MAX >> 20);
    pthread_mutex_unlock(&p->listening);
    return result;
}

/* --- a server is back ----------------------------------------------------------------------- */

/* To what clients subscribed to at this server. */
static void resubscribe(struct mcp_proxy *p, struct mcp_backend *b)
{
    const char *name = mcp_backend_spec(b)->name;
    char **uris = NULL;
    size_t n = 0;

    pthread_mutex_lock(&p->lock);
    for (const struct mcp_listener *l = p->listeners; l; l = l->next) {
        for (size_t i = 0; i < l->subscription_count; i++) {
            if (strcmp(l->subscriptions[i].server, name) == 0) {
                uris = tn_realloc(uris, (n + 1) * sizeof *uris);
                uris[n++] = tn_strdup(l->subscriptions[i].uri);
            }
        }
    }
    pthread_mutex_unlock(&p->lock);
    for (size_t i = 0; i < n; i++) {
        tn_autobuf struct tn_buf params = TN_BUF_INIT(1 << 20);
        tn_autorpc struct tn_rpc answer = {0};
        struct tn_jw w = tn_jw(&params);
        struct tn_error err;
        tn_jw_object(&w);
        tn_jw_kstr(&w, "uri", uris[i]);
        tn_jw_object_end(&w);
        mcp_backend_call(b, "resources/subscribe", tn_buf_str(&params), NULL, &answer, &err);
        free(uris[i]);
    }
    free(uris);
}

static void listen_to_all(void *ctx, struct mcp_backend *b)
{
    struct tn_error err;

    if (mcp_relisten(ctx, b, &err) < 0)
        tn_log(TN_LOG_WARN, "MCP server does not tell of changes",
               tn_log_str("name", mcp_backend_spec(b)->name), tn_log_str("reason", err.text));
}

static void take_up(void *ctx, struct mcp_backend *b, bool again)
{
    struct mcp_proxy *p = ctx;

    if (mcp_backend_is_modern(b)) {
        listen_to_all(p, b);
    } else if (again) {
        mcp_send_level(p, b);
        resubscribe(p, b);
    }
    if (again)
        tn_mcp_server_notify(p->server, "notifications/tools/list_changed", "");
}

const struct mcp_backend_ops mcp_relay_ops = {
    .request = take_request,
    .notification = take_notification,
    .up = take_up,
    .listen = listen_to_all,
    .level = level_of,
};
