/* Streamable HTTP without sessions: revision 2026-07-28.
 *
 * Every request says by itself who asks and in which version; headers repeat parts of the body and
 * must agree with it.  A client object lives for the one request. */
#include <strings.h>
#include <sys/timerfd.h>

#include "mcp/serve-internal.h"
#include "net/sse.h"

static const struct tn_json *meta(const struct tn_json *tree, const char *key)
{
    return tn_json_get(tn_json_get(tn_json_get(tree, "params"), "_meta"), key);
}

bool is_modern(const struct tn_http_exchange *x, const struct tn_json *tree)
{
    const char *header = tn_http_header(x, "MCP-Protocol-Version");
    const char *method = tn_json_get_str(tree, "method", "");

    return (header && strcmp(header, TN_MCP_MODERN) == 0) ||
           meta(tree, TN_MCP_META "protocolVersion") || strcmp(method, "server/discover") == 0;
}

/* --- headers against the body --------------------------------------------------------------- */

/* Which member of params Mcp-Name repeats. */
static const struct {
    const char *method, *member;
} named[] = {
    {"tools/call", "name"},
    {"prompts/get", "name"},
    {"resources/read", "uri"},
};

/* True when header and body agree; else says why not. */
static bool agrees(struct tn_http_exchange *x, const char *header, const char *body,
                   struct tn_error *err)
{
    const char *given = tn_http_header(x, header);
    tn_autofree char *value = given ? tn_mcp_header_value(given) : NULL;

    if (!given)
        tn_fail(err, TN_E_INVALID, "Header mismatch: %s header is required", header);
    else if (!value || !body || strcmp(value, body) != 0)
        tn_fail(err, TN_E_INVALID,
                "Header mismatch: %s header value '%.80s' does not match body value '%.80s'",
                header, given, body ? body : "");
    else
        return true;
    return false;
}

static bool headers_agree(struct tn_http_exchange *x, const struct tn_rpc *m, const char *version,
                          struct tn_error *err)
{
    if (!agrees(x, "MCP-Protocol-Version", version, err) ||
        !agrees(x, "Mcp-Method", m->method, err))
        return false;
    for (size_t i = 0; i < TN_COUNT(named); i++) {
        if (strcmp(m->method, named[i].method) == 0)
            return agrees(x, "Mcp-Name", tn_json_get_str(m->params, named[i].member, NULL), err);
    }
    return true;
}

static const char *get_header(void *ctx, const char *header)
{
    return tn_http_header(ctx, header);
}

/* Of a tool that wants arguments repeated in headers. */
static bool params_agree(struct tn_mcp_server *server, struct tn_http_exchange *x,
                         const struct tn_rpc *m, struct tn_error *err)
{
    const char *name = tn_json_get_str(m->params, "name", NULL);

    if (!server->ops->tool || !name || strcmp(m->method, "tools/call") != 0)
        return true;
    tn_autojson struct tn_json *tool = server->ops->tool(server->ctx, name);
    return !tool || tn_mcp_param_headers_check(tool, tn_json_get(m->params, "arguments"),
                                               get_header, x, err) == 0;
}

/* --- what we answer ourselves --------------------------------------------------------------- */

static void discover(struct tn_mcp_server *server, struct tn_http_exchange *x,
                     const struct tn_rpc *m)
{
    tn_autobuf struct tn_buf capabilities = TN_BUF_INIT(1 << 20), text = TN_BUF_INIT(1 << 20);
    tn_autobuf struct tn_buf result = TN_BUF_INIT(4 << 20), answer = TN_BUF_INIT(8 << 20);
    struct tn_jw w = tn_jw(&result);

    server->ops->describe(server->ctx, &capabilities, &text);
    tn_jw_object(&w);
    tn_jw_kstr(&w, "resultType", "complete");
    tn_jw_key(&w, "supportedVersions");
    put_versions(&w);
    tn_jw_key(&w, "capabilities");
    tn_jw_raw(&w, tn_buf_str(&capabilities), capabilities.len);
    tn_jw_key(&w, "serverInfo");
    put_server_info(server, &w);
    tn_jw_key(&w, "_meta");
    tn_jw_object(&w);
    tn_jw_key(&w, TN_MCP_META "serverInfo");
    put_server_info(server, &w);
    tn_jw_object_end(&w);
    if (text.len)
        tn_jw_kstr(&w, "instructions", tn_buf_str(&text));
    tn_jw_kint(&w, "ttlMs", 0);
    tn_jw_kstr(&w, "cacheScope", "private");
    tn_jw_object_end(&w);
    tn_rpc_put_result(&answer, m->id, tn_buf_str(&result));
    tn_http_reply_json(x, 200, &answer);
}

/* --- subscriptions/listen ------------------------------------------------------------------- */

static const struct {
    const char *wish, *method;
} wishes[] = {
    {"toolsListChanged", "notifications/tools/list_changed"},
    {"promptsListChanged", "notifications/prompts/list_changed"},
    {"resourcesListChanged", "notifications/resources/list_changed"},
};

static bool wants_resource(const struct tn_json *wants, const struct tn_json *params)
{
    const struct tn_json *uris = tn_json_get(wants, "resourceSubscriptions");
    const char *uri = tn_json_get_str(params, "uri", "");

    for (size_t i = 0, n = tn_json_count(uris); i < n; i++) {
        const char *one = tn_json_str(tn_json_at(uris, i), NULL);
        if (one && strcmp(one, uri) == 0)
            return true;
    }
    return false;
}

static bool wants(const struct tn_mcp_client *client, const char *method,
                  const struct tn_json *params)
{
    for (size_t i = 0; i < TN_COUNT(wishes); i++) {
        if (strcmp(wishes[i].method, method) == 0)
            return tn_json_bool(tn_json_get(client->wants, wishes[i].wish), false);
    }
    return strcmp(method, "notifications/resources/updated") == 0 &&
           wants_resource(client->wants, params);
}

/* A notification on the stream of a listener, with the number of its subscription. */
static void put_listened(struct tn_buf *out, const struct tn_mcp_client *client, const char *method,
                         const char *member, const struct tn_json *value)
{
    tn_autobuf struct tn_buf params = TN_BUF_INIT(1 << 20);
    struct tn_jw w = tn_jw(&params);

    tn_jw_object(&w);
    tn_jw_key(&w, "_meta");
    tn_jw_object(&w);
    tn_jw_key(&w, TN_MCP_META "subscriptionId");
    tn_jw_tree(&w, client->listen_id);
    tn_jw_object_end(&w);
    if (value) {
        tn_jw_key(&w, member);
        tn_jw_tree(&w, value);
    }
    tn_jw_object_end(&w);
    tn_rpc_put_notification(out, method, tn_buf_str(&params));
}

void listener_notify(struct tn_mcp_client *client, const char *method, const char *text)
{
    tn_autobuf struct tn_buf message = TN_BUF_INIT(1 << 20);
    tn_autojson struct tn_json *params = NULL;

    if (*text && tn_json_parse(text, strlen(text), &params, NULL) < 0)
        return;
    if (!wants(client, method, params))
        return;
    put_listened(&message, client, method, "uri", tn_json_get(params, "uri"));
    stream_push(client_main_stream(client), tn_buf_str(&message), message.len, false);
}

/* Subscribes to a resource the way older revisions do; the owner ends that with the client.  late:
 * the descriptor that is readable when that has taken too long. */
static void subscribe(struct tn_mcp_client *client, struct stream *s, const char *uri, int late)
{
    struct tn_mcp_server *server = client->server;
    tn_autobuf struct tn_buf params = TN_BUF_INIT(1 << 20), text = TN_BUF_INIT(1 << 20);
    tn_autobuf struct tn_buf result = TN_BUF_INIT(1 << 20);
    struct tn_mcp_request request = {.refs = 1, .client = client, .stream = s, .cancel = late};
    struct tn_jw w = tn_jw(&params);

    tn_jw_object(&w);
    tn_jw_kstr(&w, "uri", uri);
    tn_jw_object_end(&w);
    tn_rpc_put_request(&text, 0, "resources/subscribe", tn_buf_str(&params));
    if (tn_rpc_parse(tn_buf_str(&text), text.len, &request.message, NULL) == 0) {
        server->ops->request(server->ctx, client->state, &request, &result);
        tn_rpc_done(&request.message);
    }
    free(request.refusal);
    free(request.refusal_data);
}

/* All of them together have so long: a server that hangs must not keep the listener from hearing of
 * the others. */
static void subscribe_all(struct tn_mcp_client *client, struct stream *s,
                          const struct tn_json *uris)
{
    const struct itimerspec limit = {.it_value.tv_sec = SUBSCRIBE_SECONDS};
    size_t n = tn_json_count(uris);
    tn_autofd int late = n ? timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK) : -1;

    if (late < 0 || timerfd_settime(late, 0, &limit, NULL) < 0)
        return;
    for (size_t i = 0; i < n && i < LISTENED_MAX; i++) {
        const char *uri = tn_json_str(tn_json_at(uris, i), NULL);
        if (uri)
            subscribe(client, s, uri, late);
    }
}

static void listen_for(struct tn_mcp_client *client, struct tn_http_exchange *x,
                       const struct tn_rpc *m)
{
    tn_autobuf struct tn_buf message = TN_BUF_INIT(1 << 20);
    const struct tn_json *filter = tn_json_get(m->params, "notifications");
    const struct tn_json *uris = tn_json_get(filter, "resourceSubscriptions");
    struct stream *s = client_main_stream(client);

    if (tn_json_type(filter) != TN_JSON_OBJECT) {
        http_refuse(x, 400, m->id, TN_RPC_INVALID_PARAMS, "notifications: expected an object",
                    NULL);
        return;
    }
    client->listen_id = m->id;
    put_listened(&message, client, "notifications/subscriptions/acknowledged", "notifications",
                 filter);
    pthread_mutex_lock(&client->server->lock);
    stream_push(s, tn_buf_str(&message), message.len, false);
    client->wants = filter;
    pthread_mutex_unlock(&client->server->lock);
    subscribe_all(client, s, uris);
    if (tn_sse_start(x) == 0)
        http_pump(client, s, x, 0, false);
    pthread_mutex_lock(&client->server->lock);
    client->wants = NULL;
    pthread_mutex_unlock(&client->server->lock);
}

/* --- requests ------------------------------------------------------------------------------- */

/* What an owner knows of a client, from the request's own words. */
static struct tn_json *make_hello(const struct tn_json *tree)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(1 << 20);
    const struct tn_json *info = meta(tree, TN_MCP_META "clientInfo");
    const char *level = tn_json_str(meta(tree, TN_MCP_META "logLevel"), NULL);
    struct tn_json *hello = NULL;
    struct tn_jw w = tn_jw(&text);

    tn_jw_object(&w);
    tn_jw_kstr(&w, "protocolVersion", TN_MCP_MODERN);
    tn_jw_key(&w, "capabilities");
    tn_jw_tree(&w, meta(tree, TN_MCP_META "clientCapabilities"));
    if (info) {
        tn_jw_key(&w, "clientInfo");
        tn_jw_tree(&w, info);
    }
    if (level)
        tn_jw_kstr(&w, "logLevel", level);
    tn_jw_object_end(&w);
    if (tn_buf_ok(&text))
        tn_json_parse(tn_buf_str(&text), text.len, &hello, NULL);
    return hello;
}

static void run(struct tn_mcp_client *client, struct tn_http_exchange *x, struct tn_rpc *m)
{
    struct stream *s = client_stream(client, 1);

    client_take(client, m, s);
    if (http_answered(client, s, x))
        http_reply_answers(client, s, x, false);
    else if (tn_sse_start(x) == 0)
        http_pump(client, s, x, 0, false);
    pthread_mutex_lock(&client->server->lock);
    stream_unref(s);
    pthread_mutex_unlock(&client->server->lock);
}

/* The connection's end is the request's: who hangs up has cancelled. */
static void serve_request(struct tn_mcp_server *server, struct tn_http_exchange *x,
                          struct tn_rpc *m)
{
    struct tn_mcp_client *client = client_new(server, CLIENT_MODERN);

    if (!client) {
        http_refuse(x, 503, m->id, TN_RPC_INTERNAL_ERROR, "the server is about to end", NULL);
        return;
    }
    client->version = TN_MCP_MODERN;
    client->hello = make_hello(m->tree);
    if (server->ops->client_open)
        client->state = server->ops->client_open(server->ctx, client);
    client->opened = true;
    if (strcmp(m->method, "subscriptions/listen") == 0)
        listen_for(client, x, m);
    else
        run(client, x, m);
    client_end(client);
    client_unref(client);
}

/* Methods that this revision has no more. */
static bool is_removed(const char *method)
{
    static const char *const removed[] = {"initialize", "ping", "logging/setLevel",
                                          "resources/subscribe", "resources/unsubscribe"};

    for (size_t i = 0; i < TN_COUNT(removed); i++) {
        if (strcmp(removed[i], method) == 0)
            return true;
    }
    return false;
}

void http_modern(struct tn_mcp_server *server, struct tn_http_exchange *x, struct tn_json *tree)
{
    const char *version = tn_json_str(meta(tree, TN_MCP_META "protocolVersion"), NULL);
    struct tn_rpc m;
    struct tn_error err;

    if (tn_rpc_from_json(tree, &m, &err) < 0) {
        http_refuse(x, 400, NULL, TN_RPC_INVALID_REQUEST, err.text, NULL);
        return;
    }
    if (m.kind == TN_RPC_NOTIFICATION)
        tn_http_reply(x, 202, NULL, "", 0);
    else if (m.kind != TN_RPC_REQUEST)
        http_refuse(x, 400, NULL, TN_RPC_INVALID_REQUEST, "expected a request", NULL);
    else if (!version)
        http_refuse(x, 400, m.id, TN_RPC_INVALID_PARAMS,
                    "_meta: " TN_MCP_META "protocolVersion is missing", NULL);
    else if (!headers_agree(x, &m, version, &err))
        http_refuse(x, 400, m.id, TN_MCP_HEADER_MISMATCH, err.text, NULL);
    else if (strcmp(version, TN_MCP_MODERN) != 0)
        http_refuse_version(x, m.id, version);
    else if (tn_json_type(meta(tree, TN_MCP_META "clientCapabilities")) != TN_JSON_OBJECT)
        http_refuse(x, 400, m.id, TN_RPC_INVALID_PARAMS,
                    "_meta: " TN_MCP_META "clientCapabilities: expected an object", NULL);
    else if (!params_agree(server, x, &m, &err))
        http_refuse(x, 400, m.id, TN_MCP_HEADER_MISMATCH, err.text, NULL);
    else if (is_removed(m.method))
        http_refuse(x, 404, m.id, TN_RPC_METHOD_NOT_FOUND, "Method not found", NULL);
    else if (strcmp(m.method, "server/discover") == 0)
        discover(server, x, &m);
    else
        serve_request(server, x, &m);
    tn_rpc_done(&m);
}
