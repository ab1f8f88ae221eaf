/* What servers tell and ask by themselves, and who hears it. */
#include "base/thread.h"
#include "hand/mcp/proxy-internal.h"

enum { RELAYS_MAX = 32 };
#define TEXT_MAX ((size_t)32 << 20)

/* --- levels of logging ---------------------------------------------------------------------- */

static const char *const levels[] = {"debug", "info",     "notice", "warning",
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
    int level = (int)TN_COUNT(levels);
    struct tn_error err;

    pthread_mutex_lock(&p->lock);
    for (const struct mcp_listener *l = p->listeners; l; l = l->next) {
        if (l->level < level)
            level = l->level;
    }
    pthread_mutex_unlock(&p->lock);
    if (level == (int)TN_COUNT(levels) || !mcp_backend_pid(b) || !mcp_backend_can(b, "logging"))
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
    struct tn_jw w = tn_jw(&params);

    if (m->params)
        tn_jw_tree(&w, m->params);
    if (!tn_buf_ok(&params))
        return;
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

/* Which ability of a client a request of a server needs. */
static const struct {
    const char *method, *capability;
    const char *otherwise; /* what is answered when nobody can be asked; NULL: an error */
} questions[] = {
    {"sampling/createMessage", "sampling", NULL},
    {"elicitation/create", "elicitation", NULL},
    {"roots/list", "roots", "{\"roots\":[]}"},
};

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
    for (size_t i = 0; i < TN_COUNT(questions); i++) {
        if (strcmp(questions[i].method, m->method) != 0)
            continue;
        struct tn_mcp_request *cause = mcp_backend_cause(b, questions[i].capability);
        if (cause && start_relay(ctx, b, run, m, cause))
            return;
        if (cause)
            tn_mcp_request_unref(cause);
        if (questions[i].otherwise)
            mcp_run_answer(run, m->id, 0, questions[i].otherwise);
        else
            mcp_run_answer(run, m->id, TN_RPC_METHOD_NOT_FOUND,
                           "no client that could answer this has a request under way here");
        return;
    }
    mcp_run_answer(run, m->id, TN_RPC_METHOD_NOT_FOUND, "Method not found");
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

static void take_return(void *ctx, struct mcp_backend *b)
{
    struct mcp_proxy *p = ctx;

    mcp_send_level(p, b);
    resubscribe(p, b);
    tn_mcp_server_notify(p->server, "notifications/tools/list_changed", "");
}

const struct mcp_backend_ops mcp_relay_ops = {
    .request = take_request,
    .notification = take_notification,
    .again = take_return,
};
