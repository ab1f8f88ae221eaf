/* Streamable HTTP with sessions: revisions 2025-03-26 to 2025-11-25. */
#include <inttypes.h>
#include <poll.h>
#include <strings.h>

#include "mcp/serve-internal.h"
#include "net/sse.h"

/* An answer that comes sooner than this is one JSON reply; what takes longer gets a stream, which
 * can be resumed. */
#define QUICK_SECONDS 0.25

/* --- headers -------------------------------------------------------------------------------- */

/* Whether a header such as Accept lists the media type. */
static bool lists(const char *header, const char *type)
{
    size_t n = strlen(type), family = strcspn(type, "/") + 1;

    for (const char *at = header; at && *at; at += strcspn(at, ","), at += *at == ',') {
        at += strspn(at, " \t");
        size_t len = strcspn(at, " \t;,");
        if ((len == n && strncasecmp(at, type, n) == 0) ||
            (len == 3 && strncmp(at, "*/*", 3) == 0) ||
            (len == family + 1 && strncasecmp(at, type, family) == 0 && at[family] == '*'))
            return true;
    }
    return false;
}

void http_refuse(struct tn_http_exchange *x, int status, const struct tn_json *id, int64_t code,
                 const char *message, const char *data)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(1 << 20);

    tn_rpc_put_error(&json, id, code, message, data);
    tn_http_reply_json(x, status, &json);
}

void put_versions(struct tn_jw *w)
{
    tn_jw_array(w);
    tn_jw_str(w, TN_MCP_MODERN);
    for (size_t i = 0; tn_mcp_versions[i]; i++)
        tn_jw_str(w, tn_mcp_versions[i]);
    tn_jw_array_end(w);
}

void http_refuse_version(struct tn_http_exchange *x, const struct tn_json *id, const char *version)
{
    tn_autobuf struct tn_buf data = TN_BUF_INIT(4096);
    struct tn_jw w = tn_jw(&data);

    tn_jw_object(&w);
    tn_jw_key(&w, "supported");
    put_versions(&w);
    tn_jw_key(&w, "requested");
    tn_jw_strn(&w, version, strnlen(version, 64));
    tn_jw_object_end(&w);
    http_refuse(x, 400, id, TN_MCP_UNSUPPORTED_VERSION, "Unsupported protocol version",
                tn_buf_str(&data));
}

/* False when the header names a version we do not speak: answered then. */
static bool check_version(struct tn_http_exchange *x)
{
    const char *version = tn_http_header(x, "MCP-Protocol-Version");

    if (!version || tn_mcp_version_known(version))
        return true;
    http_refuse_version(x, NULL, version);
    return false;
}

/* The session of the request, with a reference; or NULL, answered. */
static struct tn_mcp_client *find_session(struct tn_mcp_server *server, struct tn_http_exchange *x)
{
    const char *id = tn_http_header(x, "Mcp-Session-Id");

    if (!id) {
        http_refuse(x, 400, NULL, SERVER_BUSY, "Bad Request: Mcp-Session-Id header is required",
                    NULL);
        return NULL;
    }
    struct tn_mcp_client *client = client_find(server, CLIENT_HTTP, id);
    if (!client)
        http_refuse(x, 404, NULL, -32001, "Session not found", NULL);
    return client;
}

/* --- streams -------------------------------------------------------------------------------- */

bool http_wait(struct stream *s, struct tn_http_exchange *x, int64_t deadline)
{
    struct pollfd fds[] = {{.fd = s->ready, .events = POLLIN},
                           {.fd = tn_http_fd(x), .events = POLLRDHUP}};
    uint64_t count;

    if (poll(fds, 2, tn_poll_ms(deadline)) > 0 && fds[1].revents)
        return false;
    if (fds[0].revents)
        (void)!read(s->ready, &count, sizeof count);
    return true;
}

/* The next event; or NULL with *over when there is none to come for this connection. */
static struct event *next_event(struct tn_mcp_client *client, struct stream *s, unsigned turn,
                                bool *over)
{
    struct tn_mcp_server *server = client->server;

    pthread_mutex_lock(&server->lock);
    bool mine = s->turn == turn;
    struct event *e = mine && !client->gone ? stream_take(s) : NULL;
    *over = !e && (!mine || s->done || client->gone || server->stopping);
    pthread_mutex_unlock(&server->lock);
    return e;
}

static int send_event(struct tn_http_exchange *x, const struct stream *s, const struct event *e,
                      bool with_ids)
{
    char id[64];

    snprintf(id, sizeof id, "%" PRIu64 "-%" PRIu64, s->number, e->number);
    return tn_sse_send(x, "message", with_ids ? id : NULL, e->text, e->len);
}

bool http_pump(struct tn_mcp_client *client, struct stream *s, struct tn_http_exchange *x,
               unsigned turn, bool with_ids)
{
    struct tn_mcp_server *server = client->server;
    bool over = false, lost = false;

    pthread_mutex_lock(&server->lock);
    s->readers++;
    pthread_mutex_unlock(&server->lock);
    int64_t beat = tn_deadline_in(BEAT_SECONDS);
    while (!over && !lost) {
        struct event *e = next_event(client, s, turn, &over);
        if (e) {
            lost = send_event(x, s, e, with_ids) < 0;
            pthread_mutex_lock(&server->lock);
            event_unref(e);
            pthread_mutex_unlock(&server->lock);
        } else if (!over && tn_now() >= beat) {
            lost = tn_sse_beat(x) < 0;
            beat = tn_deadline_in(BEAT_SECONDS);
        } else if (!over) {
            lost = !http_wait(s, x, beat);
        }
    }
    pthread_mutex_lock(&server->lock);
    s->readers--;
    bool all = !lost && s->done && !s->unsent;
    stream_wake(s); /* whoever comes next may have missed a call */
    pthread_mutex_unlock(&server->lock);
    if (!lost)
        tn_http_end(x);
    return all;
}

/* --- POST ----------------------------------------------------------------------------------- */

bool http_answered(struct tn_mcp_client *client, struct stream *s, struct tn_http_exchange *x)
{
    int64_t deadline = tn_deadline_in(QUICK_SECONDS);

    for (;;) {
        pthread_mutex_lock(&client->server->lock);
        bool done = s->done, talk = s->talk || client->gone || client->server->stopping;
        pthread_mutex_unlock(&client->server->lock);
        if (done || talk || tn_now() >= deadline)
            return done && !talk;
        if (!http_wait(s, x, deadline))
            return false;
    }
}

/* Some errors are also told by the status, in the revision without sessions. */
static int status_of(int64_t code)
{
    switch (code) {
    case TN_RPC_METHOD_NOT_FOUND:
        return 404;
    case TN_MCP_HEADER_MISMATCH:
    case TN_MCP_MISSING_CAPABILITY:
    case TN_MCP_UNSUPPORTED_VERSION:
        return 400;
    default:
        return 200;
    }
}

void http_reply_answers(struct tn_mcp_client *client, struct stream *s, struct tn_http_exchange *x,
                        bool batch)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(UNREAD_MAX + BATCH_MAX + 2);
    const char *separator = "";

    pthread_mutex_lock(&client->server->lock);
    if (batch)
        tn_buf_putc(&json, '[');
    for (struct event *e; (e = stream_take(s)); separator = ",") {
        tn_buf_puts(&json, separator);
        tn_buf_add(&json, e->text, e->len);
        event_unref(e);
    }
    if (batch)
        tn_buf_putc(&json, ']');
    int status = client->kind == CLIENT_MODERN ? status_of(s->code) : 200;
    pthread_mutex_unlock(&client->server->lock);
    tn_http_reply_json(x, status, &json);
}

/* By this event a client knows where to resume, should the connection break before the first
 * message.  Older ones would take its empty data for a message. */
static int prime(struct tn_mcp_client *client, struct stream *s, struct tn_http_exchange *x)
{
    char id[64];

    if (strcmp(client->version, "2025-11-25") < 0)
        return 0;
    snprintf(id, sizeof id, "%" PRIu64 "-0", s->number);
    return tn_sse_send(x, NULL, id, "", 0);
}

static void answer_post(struct tn_mcp_client *client, struct stream *s, struct tn_http_exchange *x,
                        bool batch)
{
    bool quick = http_answered(client, s, x);

    pthread_mutex_lock(&client->server->lock);
    unsigned turn = stream_claim(s); /* before the client knows where to resume */
    bool empty = !s->first;
    pthread_mutex_unlock(&client->server->lock);
    if (quick && !empty) {
        http_reply_answers(client, s, x, batch);
        client_forget_stream(client, s);
    } else if (tn_sse_start(x) == 0 && prime(client, s, x) == 0) {
        http_pump(client, s, x, turn, true);
    }
}

int read_batch(const struct tn_json *tree, struct tn_rpc messages[BATCH_MAX], struct tn_error *err)
{
    size_t n = tn_json_count(tree);

    if (n == 0 || n > BATCH_MAX)
        return tn_fail(err, TN_E_INVALID, "expected 1 to %d messages, found %zu", BATCH_MAX, n);
    for (size_t i = 0; i < n; i++) {
        if (tn_rpc_from_json(tn_json_copy(tn_json_at(tree, i)), &messages[i], err) < 0) {
            while (i-- > 0)
                tn_rpc_done(&messages[i]);
            return -1;
        }
    }
    return (int)n;
}

static void post_initialize(struct tn_mcp_server *server, struct tn_http_exchange *x,
                            const struct tn_rpc *message)
{
    tn_autobuf struct tn_buf result = TN_BUF_INIT(4 << 20), answer = TN_BUF_INIT(8 << 20);
    struct tn_error err;

    if (tn_http_header(x, "Mcp-Session-Id")) {
        http_refuse(x, 400, message->id, TN_RPC_INVALID_REQUEST,
                    "Invalid Request: Server already initialized", NULL);
        return;
    }
    struct tn_mcp_client *client = client_new(server, CLIENT_HTTP);
    if (!client) {
        tn_http_set_header(x, "Retry-After", "1");
        http_refuse(x, 503, message->id, SERVER_BUSY, "too many sessions", NULL);
        return;
    }
    if (client_initialize(client, message, &result, &err) < 0) {
        client_end(client);
        http_refuse(x, 400, message->id, TN_RPC_INVALID_PARAMS, err.text, NULL);
    } else {
        tn_rpc_put_result(&answer, message->id, tn_buf_str(&result));
        tn_http_set_header(x, "Mcp-Session-Id", client->id);
        tn_http_reply_json(x, 200, &answer);
    }
    client_unref(client);
}

static void post_messages(struct tn_mcp_client *client, struct tn_http_exchange *x,
                          struct tn_rpc *messages, int n, bool batch)
{
    struct stream *s = NULL;
    int requests = 0;

    for (int i = 0; i < n; i++)
        requests += messages[i].kind == TN_RPC_REQUEST;
    if (requests > 0)
        s = client_stream(client, requests);
    for (int i = 0; i < n; i++)
        client_take(client, &messages[i], s);
    if (!s) {
        tn_http_reply(x, 202, NULL, "", 0);
        return;
    }
    answer_post(client, s, x, batch);
    pthread_mutex_lock(&client->server->lock);
    stream_unref(s);
    pthread_mutex_unlock(&client->server->lock);
}

static void post_session(struct tn_mcp_server *server, struct tn_http_exchange *x,
                         struct tn_rpc *messages, int n, bool batch)
{
    struct tn_mcp_client *client = find_session(server, x);

    if (!client)
        return;
    if (batch && !batches_allowed(client)) {
        http_refuse(x, 400, NULL, TN_RPC_INVALID_REQUEST,
                    "this protocol version has no batches: send one message", NULL);
    } else if (!client_enter(client)) {
        http_refuse(x, 404, NULL, -32001, "Session not found", NULL);
    } else {
        post_messages(client, x, messages, n, batch);
        client_leave(client);
    }
    client_unref(client);
}

static void post_batch(struct tn_mcp_server *server, struct tn_http_exchange *x,
                       struct tn_json *tree)
{
    struct tn_rpc *messages = tn_calloc(BATCH_MAX, sizeof *messages);
    struct tn_error err;

    int n = read_batch(tree, messages, &err);
    if (n < 0)
        http_refuse(x, 400, NULL, TN_RPC_INVALID_REQUEST, err.text, NULL);
    else
        post_session(server, x, messages, n, true);
    for (int i = 0; i < n; i++)
        tn_rpc_done(&messages[i]);
    free(messages);
    tn_json_free(tree);
}

static void post_one(struct tn_mcp_server *server, struct tn_http_exchange *x, struct tn_json *tree)
{
    tn_autorpc struct tn_rpc message = {0};
    struct tn_error err;

    if (tn_rpc_from_json(tree, &message, &err) < 0)
        http_refuse(x, 400, NULL, TN_RPC_INVALID_REQUEST, err.text, NULL);
    else if (message.kind == TN_RPC_REQUEST && strcmp(message.method, "initialize") == 0)
        post_initialize(server, x, &message);
    else
        post_session(server, x, &message, 1, false);
}

void tn_mcp_http_post(struct tn_mcp_server *server, struct tn_http_exchange *x)
{
    tn_autobuf struct tn_buf body = TN_BUF_INIT(MESSAGE_MAX);
    const char *accept = tn_http_header(x, "Accept");
    struct tn_json *tree = NULL;
    struct tn_error err;

    if (!lists(accept, "application/json") || !lists(accept, "text/event-stream")) {
        http_refuse(x, 406, NULL, SERVER_BUSY,
                    "Not Acceptable: Client must accept both application/json and "
                    "text/event-stream",
                    NULL);
    } else if (!lists(tn_http_header(x, "Content-Type"), "application/json")) {
        http_refuse(x, 415, NULL, SERVER_BUSY,
                    "Unsupported Media Type: Content-Type must be application/json", NULL);
    } else if (tn_http_read_all(x, &body, &err) < 0) {
        http_refuse(x, tn_code_row(err.code)->http_status, NULL, TN_RPC_INVALID_REQUEST, err.text,
                    NULL);
    } else if (tn_json_parse(tn_buf_str(&body), body.len, &tree, &err) < 0) {
        http_refuse(x, 400, NULL, TN_RPC_PARSE_ERROR, err.text, NULL);
    } else {
        tn_buf_done(&body);
        if (is_modern(x, tree))
            http_modern(server, x, tree);
        else if (!check_version(x))
            tn_json_free(tree);
        else if (tn_json_type(tree) == TN_JSON_ARRAY)
            post_batch(server, x, tree);
        else
            post_one(server, x, tree);
    }
}

/* --- GET and DELETE ------------------------------------------------------------------------- */

/* The number that starts there, which then points behind it. */
static bool take_number(const char **text, uint64_t *out)
{
    size_t n = strspn(*text, "0123456789");

    *out = strtoull(*text, NULL, 10);
    *text += n;
    return n > 0 && n < 20;
}

/* The stream of a Last-Event-ID, wound back to what follows; NULL when it is not kept. */
static struct stream *resume(struct tn_mcp_client *client, const char *event_id)
{
    uint64_t stream, number;

    if (!take_number(&event_id, &stream) || *event_id++ != '-' ||
        !take_number(&event_id, &number) || *event_id)
        return NULL;
    struct stream *s = client->streams;
    while (s && s->number != stream)
        s = s->next;
    return s && stream_rewind(s, number) == 0 ? s : NULL;
}

static void get_stream(struct tn_mcp_client *client, struct tn_http_exchange *x)
{
    const char *last = tn_http_header(x, "Last-Event-ID");

    pthread_mutex_lock(&client->server->lock);
    struct stream *s = last ? resume(client, last) : client_main_stream(client);
    bool taken = s && !last && s->readers > 0;
    unsigned turn = s && !taken ? stream_claim(s) : 0;
    if (s)
        s->refs++;
    pthread_mutex_unlock(&client->server->lock);
    if (!s)
        http_refuse(x, 400, NULL, SERVER_BUSY, "Bad Request: unknown Last-Event-ID", NULL);
    else if (taken)
        http_refuse(x, 409, NULL, SERVER_BUSY,
                    "Conflict: Only one SSE stream is allowed per session", NULL);
    else if (tn_sse_start(x) == 0)
        http_pump(client, s, x, turn, true);
    pthread_mutex_lock(&client->server->lock);
    stream_unref(s);
    pthread_mutex_unlock(&client->server->lock);
}

void tn_mcp_http_get(struct tn_mcp_server *server, struct tn_http_exchange *x)
{
    if (!lists(tn_http_header(x, "Accept"), "text/event-stream")) {
        http_refuse(x, 406, NULL, SERVER_BUSY,
                    "Not Acceptable: Client must accept text/event-stream", NULL);
        return;
    }
    struct tn_mcp_client *client = check_version(x) ? find_session(server, x) : NULL;
    if (!client)
        return;
    if (client_enter(client)) {
        get_stream(client, x);
        client_leave(client);
    } else {
        http_refuse(x, 404, NULL, -32001, "Session not found", NULL);
    }
    client_unref(client);
}

void tn_mcp_http_delete(struct tn_mcp_server *server, struct tn_http_exchange *x)
{
    struct tn_mcp_client *client = check_version(x) ? find_session(server, x) : NULL;

    if (!client)
        return;
    client_end(client);
    client_unref(client);
    tn_http_reply(x, 200, NULL, "", 0);
}
