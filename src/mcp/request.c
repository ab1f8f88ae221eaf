/* Messages of clients: initialize, cancel, and requests, each in a thread of its own. */
#include <stdarg.h>
#include <sys/eventfd.h>

#include "base/thread.h"
#include "mcp/serve-internal.h"

bool batches_allowed(const struct tn_mcp_client *client)
{
    /* Added by one revision, removed by the next; harmless before. */
    return !client->version || strcmp(client->version, "2025-03-26") <= 0;
}

void put_server_info(struct tn_mcp_server *server, struct tn_jw *w)
{
    const struct tn_mcp_server_ops *ops = server->ops;

    tn_jw_object(w);
    tn_jw_kstr(w, "name", ops->name);
    if (ops->title)
        tn_jw_kstr(w, "title", ops->title);
    tn_jw_kstr(w, "version", ops->version);
    tn_jw_object_end(w);
}

static const char *agree(const char *wanted)
{
    for (size_t i = 0; wanted && tn_mcp_versions[i]; i++) {
        if (strcmp(tn_mcp_versions[i], wanted) == 0)
            return tn_mcp_versions[i];
    }
    return tn_mcp_versions[0];
}

int client_initialize(struct tn_mcp_client *client, const struct tn_rpc *message,
                      struct tn_buf *result, struct tn_error *err)
{
    struct tn_mcp_server *server = client->server;
    tn_autobuf struct tn_buf capabilities = TN_BUF_INIT(1 << 20), text = TN_BUF_INIT(1 << 20);
    const char *wanted = tn_json_get_str(message->params, "protocolVersion", NULL);

    if (!wanted)
        return tn_fail(err, TN_E_UNPROCESSABLE, "protocolVersion: expected a string");
    server->ops->describe(server->ctx, &capabilities, &text);
    pthread_mutex_lock(&server->lock);
    bool again = client->version;
    if (!again) {
        client->version = agree(wanted);
        client->hello = tn_json_copy(message->params);
    }
    pthread_mutex_unlock(&server->lock);
    if (again)
        return tn_fail(err, TN_E_CONFLICT, "initialize was called already");
    if (server->ops->client_open)
        client->state = server->ops->client_open(server->ctx, client);
    pthread_mutex_lock(&server->lock);
    client->opened = true;
    pthread_mutex_unlock(&server->lock);

    struct tn_jw w = tn_jw(result);
    tn_jw_object(&w);
    tn_jw_kstr(&w, "protocolVersion", client->version);
    tn_jw_key(&w, "capabilities");
    tn_jw_raw(&w, tn_buf_str(&capabilities), capabilities.len);
    tn_jw_key(&w, "serverInfo");
    put_server_info(server, &w);
    if (text.len)
        tn_jw_kstr(&w, "instructions", tn_buf_str(&text));
    tn_jw_object_end(&w);
    return 0;
}

/* --- requests ------------------------------------------------------------------------------- */

static char *id_text(const struct tn_json *id)
{
    struct tn_buf text = TN_BUF_INIT(1 << 20);
    struct tn_jw w = tn_jw(&text);

    tn_jw_tree(&w, id);
    return tn_buf_take(&text);
}

struct tn_mcp_request *tn_mcp_request_ref(struct tn_mcp_request *request)
{
    pthread_mutex_lock(&request->client->server->lock);
    request->refs++;
    pthread_mutex_unlock(&request->client->server->lock);
    return request;
}

void tn_mcp_request_unref(struct tn_mcp_request *request)
{
    struct tn_mcp_client *client = request->client;

    pthread_mutex_lock(&client->server->lock);
    bool last = --request->refs == 0;
    if (last)
        stream_unref(request->stream);
    pthread_mutex_unlock(&client->server->lock);
    if (!last)
        return;
    tn_rpc_done(&request->message);
    tn_close(request->cancel);
    free(request->key);
    free(request->refusal);
    free(request->refusal_data);
    free(request);
    client_unref(client);
}

static struct tn_mcp_request *find_request(struct tn_mcp_client *client, const char *key)
{
    struct tn_mcp_request *r = client->requests;

    while (r && strcmp(r->key, key) != 0)
        r = r->next;
    return r;
}

/* Sends the answer that makes the stream's pending ones one less; NULL when nothing is to be said
 * any more. */
static void finish(struct tn_mcp_client *client, struct stream *s, const struct tn_buf *message)
{
    if (message)
        client_send(client, s, tn_buf_str(message), message->len, true, NULL);
    pthread_mutex_lock(&client->server->lock);
    if (s->pending > 0 && --s->pending == 0) {
        s->done = true;
        stream_wake(s);
    }
    pthread_mutex_unlock(&client->server->lock);
}

static void refuse(struct tn_mcp_client *client, struct stream *s, const struct tn_json *id,
                   int64_t code, const char *why)
{
    tn_autobuf struct tn_buf message = TN_BUF_INIT(MESSAGE_MAX);

    tn_rpc_put_error(&message, id, code, why, NULL);
    finish(client, s, &message);
}

/* Results of the latest revision say that they are whole, and how long they keep. */
static void put_modern_result(struct tn_mcp_request *r, struct tn_buf *out,
                              const struct tn_buf *result)
{
    static const char *const cacheable[] = {"tools/list",     "prompts/list",
                                            "resources/list", "resources/templates/list",
                                            "resources/read", "server/discover"};
    const char *rest = tn_buf_str(result) + (result->len > 0);

    if (r->asks) {
        tn_buf_add(out, tn_buf_str(result), result->len);
        return;
    }
    tn_buf_puts(out, "{\"resultType\":\"complete\"");
    for (size_t i = 0; i < TN_COUNT(cacheable); i++) {
        if (strcmp(r->message.method, cacheable[i]) == 0)
            tn_buf_puts(out, ",\"ttlMs\":0,\"cacheScope\":\"private\"");
    }
    if (*rest && *rest != '}')
        tn_buf_putc(out, ',');
    tn_buf_puts(out, *rest ? rest : "}");
}

static void answer_request(struct tn_mcp_request *r, int outcome, const struct tn_buf *result)
{
    tn_autobuf struct tn_buf message = TN_BUF_INIT(MESSAGE_MAX), modern = TN_BUF_INIT(MESSAGE_MAX);
    bool is_new = r->client->kind == CLIENT_MODERN;

    if (outcome == 0 && tn_buf_ok(result)) {
        if (is_new)
            put_modern_result(r, &modern, result);
        tn_rpc_put_result(&message, r->message.id, tn_buf_str(is_new ? &modern : result));
    } else if (outcome < 0) {
        int64_t code = r->code ? r->code : TN_RPC_INTERNAL_ERROR;
        if (is_new && code == TN_RPC_NOT_FOUND)
            code = TN_RPC_INVALID_PARAMS;
        tn_rpc_put_error(&message, r->message.id, code, r->refusal ? r->refusal : "failed",
                         r->refusal_data);
    }
    if (message.len == 0 || !tn_buf_ok(&message)) {
        tn_buf_reset(&message);
        tn_rpc_put_error(&message, r->message.id, TN_RPC_INTERNAL_ERROR, "the result is too large",
                         NULL);
    }
    pthread_mutex_lock(&r->client->server->lock);
    bool cancelled = r->cancelled;
    r->stream->code = outcome < 0 ? r->code : 0;
    pthread_mutex_unlock(&r->client->server->lock);
    finish(r->client, r->stream, cancelled ? NULL : &message);
}

static void *run_request(void *arg)
{
    struct tn_mcp_request *r = arg;
    struct tn_mcp_client *client = r->client;
    struct tn_mcp_server *server = client->server;
    tn_autobuf struct tn_buf result = TN_BUF_INIT(MESSAGE_MAX);

    int outcome = server->ops->request(server->ctx, client->state, r, &result);
    pthread_mutex_lock(&server->lock);
    for (struct tn_mcp_request **at = &client->requests; *at; at = &(*at)->next) {
        if (*at == r) {
            *at = r->next;
            break;
        }
    }
    client->request_count--;
    client->last_used = tn_now();
    server->threads--;
    pthread_mutex_unlock(&server->lock);
    answer_request(r, outcome, &result);
    pthread_mutex_lock(&server->lock);
    client->owed--;
    if (client->pipe)
        tn_mcp_pipe_wake(client->pipe);
    pthread_mutex_unlock(&server->lock);
    tn_mcp_request_unref(r);
    return NULL;
}

/* Enlists it: NULL, or why not. */
static const char *enlist(struct tn_mcp_request *r)
{
    struct tn_mcp_client *client = r->client;
    struct tn_mcp_server *server = client->server;
    const char *why = NULL;

    pthread_mutex_lock(&server->lock);
    if (client->gone || server->stopping)
        why = "the server is about to end";
    else if (find_request(client, r->key))
        why = "a request with this id is under way";
    else if (client->request_count >= REQUESTS_MAX || server->threads >= THREADS_MAX)
        why = "too many requests are under way";
    if (!why) {
        r->next = client->requests;
        client->requests = r;
        client->request_count++;
        client->owed++;
        server->threads++;
        client->refs++;
        r->stream->refs++;
    }
    pthread_mutex_unlock(&server->lock);
    return why;
}

static void start_request(struct tn_mcp_client *client, struct tn_rpc *message, struct stream *s)
{
    struct tn_mcp_request *r = tn_calloc(1, sizeof *r);
    pthread_t thread;

    r->refs = 1;
    r->client = client;
    r->stream = s ? s : client_main_stream(client);
    r->message = *message;
    *message = (struct tn_rpc){0};
    r->key = id_text(r->message.id);
    r->progress_token = tn_json_get(tn_json_get(r->message.params, "_meta"), "progressToken");
    r->cancel = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    const char *why = r->cancel < 0 ? "no descriptors are left" : enlist(r);
    if (!why) {
        if (tn_thread_start(&thread, run_request, r) == 0)
            pthread_detach(thread);
        else
            run_request(r); /* slower for the others, but answered */
        return;
    }
    refuse(client, r->stream, r->message.id, TN_RPC_INVALID_REQUEST, why);
    tn_rpc_done(&r->message);
    tn_close(r->cancel);
    free(r->key);
    free(r);
}

static void cancel_request(struct tn_mcp_client *client, const struct tn_rpc *message)
{
    tn_autofree char *key = id_text(tn_json_get(message->params, "requestId"));
    uint64_t one = 1;

    pthread_mutex_lock(&client->server->lock);
    struct tn_mcp_request *r = find_request(client, key);
    if (r) {
        r->cancelled = true;
        (void)!write(r->cancel, &one, sizeof one);
    }
    pthread_mutex_unlock(&client->server->lock);
}

/* initialize on a transport that has its one stream. */
static void initialize(struct tn_mcp_client *client, const struct tn_rpc *message, struct stream *s)
{
    tn_autobuf struct tn_buf result = TN_BUF_INIT(4 << 20), answer = TN_BUF_INIT(8 << 20);
    struct tn_error err;

    if (client_initialize(client, message, &result, &err) < 0) {
        refuse(client, s, message->id, TN_RPC_INVALID_PARAMS, err.text);
        return;
    }
    tn_rpc_put_result(&answer, message->id, tn_buf_str(&result));
    finish(client, s, &answer);
}

/* Its messages may come in several threads: one of them may still be saying hello. */
static bool is_open(struct tn_mcp_client *client)
{
    pthread_mutex_lock(&client->server->lock);
    bool opened = client->opened;
    pthread_mutex_unlock(&client->server->lock);
    return opened;
}

static void take_request(struct tn_mcp_client *client, struct tn_rpc *m, struct stream *s)
{
    tn_autobuf struct tn_buf answer = TN_BUF_INIT(MESSAGE_MAX);

    if (strcmp(m->method, "ping") == 0 && client->kind != CLIENT_MODERN) {
        tn_rpc_put_result(&answer, m->id, "{}");
        finish(client, s, &answer);
    } else if (strcmp(m->method, "initialize") == 0) {
        initialize(client, m, s);
    } else if (!is_open(client)) {
        refuse(client, s, m->id, TN_RPC_INVALID_REQUEST, "the first request must be initialize");
    } else {
        start_request(client, m, s);
    }
}

void client_take(struct tn_mcp_client *client, struct tn_rpc *m, struct stream *s)
{
    if (m->kind == TN_RPC_REQUEST)
        take_request(client, m, s ? s : client_main_stream(client));
    else if (m->kind != TN_RPC_NOTIFICATION)
        tn_mcp_peer_take(client->peer, m);
    else if (strcmp(m->method, "notifications/cancelled") == 0)
        cancel_request(client, m);
    else if (strcmp(m->method, "notifications/initialized") != 0 && is_open(client))
        tn_mcp_peer_take(client->peer, m);
    tn_rpc_done(m);
}

/* --- for who carries a request out ---------------------------------------------------------- */

const struct tn_rpc *tn_mcp_request_message(const struct tn_mcp_request *request)
{
    return &request->message;
}

struct tn_mcp_client *tn_mcp_request_client(const struct tn_mcp_request *request)
{
    return request->client;
}

int tn_mcp_request_cancel_fd(const struct tn_mcp_request *request)
{
    return request->cancel;
}

void tn_mcp_request_asks(struct tn_mcp_request *request)
{
    request->asks = true;
}

void tn_mcp_request_notify(struct tn_mcp_request *request, const char *method, const char *params)
{
    tn_autobuf struct tn_buf message = TN_BUF_INIT(MESSAGE_MAX);

    tn_rpc_put_notification(&message, method, params);
    if (tn_buf_ok(&message))
        client_send(request->client, request->stream, tn_buf_str(&message), message.len, false,
                    NULL);
}

bool tn_mcp_wants_progress(const struct tn_mcp_request *request)
{
    return request->progress_token;
}

static int put_member(const char *key, struct tn_json *value, void *ctx)
{
    if (strcmp(key, "progressToken") != 0) {
        tn_jw_key(ctx, key);
        tn_jw_tree(ctx, value);
    }
    return 0;
}

/* The beginning of what a notification says; false: nobody wants one. */
static bool begin_progress(const struct tn_mcp_request *request, struct tn_jw *w)
{
    if (!request->progress_token)
        return false;
    tn_jw_object(w);
    tn_jw_key(w, "progressToken");
    tn_jw_tree(w, request->progress_token);
    return true;
}

void tn_mcp_progress_forward(struct tn_mcp_request *request, const struct tn_json *params)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(1 << 20);
    struct tn_jw w = tn_jw(&text);

    if (!begin_progress(request, &w))
        return;
    tn_json_each(params, put_member, &w);
    tn_jw_object_end(&w);
    if (tn_buf_ok(&text))
        tn_mcp_request_notify(request, "notifications/progress", tn_buf_str(&text));
}

void tn_mcp_progress(struct tn_mcp_request *request, double progress, double total,
                     const char *message)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(1 << 20);
    struct tn_jw w = tn_jw(&text);

    if (!begin_progress(request, &w))
        return;
    tn_jw_kdouble(&w, "progress", progress);
    if (total >= 0)
        tn_jw_kdouble(&w, "total", total);
    if (message)
        tn_jw_kstr(&w, "message", message);
    tn_jw_object_end(&w);
    tn_mcp_request_notify(request, "notifications/progress", tn_buf_str(&text));
}

int tn_mcp_refuse_with(struct tn_mcp_request *request, int64_t code, const char *message,
                       const struct tn_json *data)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(MESSAGE_MAX / 2);
    struct tn_jw w = tn_jw(&text);

    free(request->refusal);
    free(request->refusal_data);
    request->code = code;
    request->refusal = tn_strdup(message);
    if (data)
        tn_jw_tree(&w, data);
    request->refusal_data = data && tn_buf_ok(&text) ? tn_buf_take(&text) : NULL;
    return -1;
}

int tn_mcp_refuse(struct tn_mcp_request *request, int64_t code, const char *fmt, ...)
{
    char text[1024];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return tn_mcp_refuse_with(request, code, text, NULL);
}
