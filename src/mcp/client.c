/* Clients: who is there, how they come and go, and what is sent to them. */
#include <sys/random.h>

#include "base/thread.h"
#include "mcp/serve-internal.h"

/* --- the server ----------------------------------------------------------------------------- */

struct tn_mcp_server *tn_mcp_server_new(const struct tn_mcp_server_ops *ops, void *ctx)
{
    struct tn_mcp_server *server = tn_calloc(1, sizeof *server);

    server->ops = ops;
    server->ctx = ctx;
    pthread_mutex_init(&server->lock, NULL);
    tn_cond_init(&server->less);
    return server;
}

int tn_mcp_server_stop(struct tn_mcp_server *server, int64_t deadline)
{
    struct timespec until = tn_timespec(deadline);

    pthread_mutex_lock(&server->lock);
    server->stopping = true;
    while (server->clients) {
        struct tn_mcp_client *client = server->clients;
        client->refs++;
        pthread_mutex_unlock(&server->lock);
        client_end(client);
        client_unref(client);
        pthread_mutex_lock(&server->lock);
    }
    while (server->busy > 0 && tn_now() < deadline)
        pthread_cond_timedwait(&server->less, &server->lock, &until);
    int left = server->busy;
    pthread_mutex_unlock(&server->lock);
    return left;
}

void tn_mcp_server_free(struct tn_mcp_server *server)
{
    if (!server)
        return;
    pthread_mutex_destroy(&server->lock);
    pthread_cond_destroy(&server->less);
    free(server);
}

/* --- what we send to a client on our own ---------------------------------------------------- */

static int peer_send(void *ctx, void *route, const char *text, size_t n, int64_t deadline,
                     struct tn_error *err)
{
    return client_send(ctx, route, text, n, false, err);
}

/* Only answers and notifications are fed to this peer. */
static void peer_request(void *ctx, struct tn_mcp_peer *peer, const struct tn_rpc *message)
{
}

static void peer_notification(void *ctx, struct tn_mcp_peer *peer, const struct tn_rpc *message)
{
    struct tn_mcp_client *client = ctx;
    const struct tn_mcp_server_ops *ops = client->server->ops;

    if (ops->notification)
        ops->notification(client->server->ctx, client->state, message);
}

static const struct tn_mcp_peer_ops peer_ops = {
    .send = peer_send,
    .request = peer_request,
    .notification = peer_notification,
};

/* --- coming and going ----------------------------------------------------------------------- */

static void make_id(char id[33])
{
    unsigned char random[16];

    if (getrandom(random, sizeof random, 0) != sizeof random)
        abort();
    for (size_t i = 0; i < sizeof random; i++)
        snprintf(id + 2 * i, 3, "%02x", random[i]);
}

static bool is_idle(const struct tn_mcp_client *client)
{
    return client->kind == CLIENT_HTTP && client->connections == 0 && client->request_count == 0;
}

/* The session that has been idle for longest, at least that long, with a reference; or NULL. */
static struct tn_mcp_client *find_idle(struct tn_mcp_server *server, int64_t seconds)
{
    struct tn_mcp_client *oldest = NULL;

    for (struct tn_mcp_client *c = server->clients; c; c = c->next) {
        if (is_idle(c) && (!oldest || c->last_used < oldest->last_used))
            oldest = c;
    }
    if (!oldest || tn_now() - oldest->last_used < seconds * TN_SECOND)
        return NULL;
    oldest->refs++;
    return oldest;
}

static bool is_counted(const struct tn_mcp_client *client)
{
    return client->kind == CLIENT_HTTP || client->kind == CLIENT_SSE;
}

/* Ends sessions nobody has used for long. */
static void sweep(struct tn_mcp_server *server)
{
    struct tn_mcp_client *idle;

    do {
        pthread_mutex_lock(&server->lock);
        idle = find_idle(server, IDLE_SECONDS);
        pthread_mutex_unlock(&server->lock);
        if (idle)
            client_end(idle);
        client_unref(idle);
    } while (idle);
}

/* Puts it on the list, in the place of an idle one if need be: 0, or -1 when there is no room. */
static int enlist(struct tn_mcp_server *server, struct tn_mcp_client *client)
{
    for (;;) {
        pthread_mutex_lock(&server->lock);
        bool full = is_counted(client) && server->client_count >= CLIENTS_MAX;
        struct tn_mcp_client *idle = full ? find_idle(server, 0) : NULL;
        bool added = !full && !server->stopping;
        if (added) {
            client->next = server->clients;
            server->clients = client;
            server->client_count += is_counted(client);
            server->busy++;
        }
        pthread_mutex_unlock(&server->lock);
        if (!idle)
            return added ? 0 : -1;
        client_end(idle);
        client_unref(idle);
    }
}

struct tn_mcp_client *client_new(struct tn_mcp_server *server, enum client_kind kind)
{
    struct tn_mcp_client *client = tn_calloc(1, sizeof *client);

    sweep(server);
    client->server = server;
    client->kind = kind;
    client->refs = 2;
    client->last_used = tn_now();
    client->peer = tn_mcp_peer_new(&peer_ops, client);
    make_id(client->id);
    client->streams = stream_new(0, kind == CLIENT_HTTP);
    client->streams->lossy = kind == CLIENT_HTTP;
    client->next_stream = 1;
    if (enlist(server, client) == 0)
        return client;
    tn_mcp_peer_free(client->peer);
    stream_unref(client->streams);
    free(client);
    return NULL;
}

struct tn_mcp_client *client_find(struct tn_mcp_server *server, enum client_kind kind,
                                  const char *id)
{
    pthread_mutex_lock(&server->lock);
    struct tn_mcp_client *client = server->clients;
    while (client && (client->kind != kind || strcmp(client->id, id) != 0))
        client = client->next;
    if (client) {
        client->refs++;
        client->last_used = tn_now();
    }
    pthread_mutex_unlock(&server->lock);
    return client;
}

static void client_free(struct tn_mcp_client *client)
{
    struct tn_mcp_server *server = client->server;

    if (client->opened && server->ops->client_close)
        server->ops->client_close(server->ctx, client->state);
    pthread_mutex_lock(&server->lock);
    for (struct stream *s; (s = client->streams);) {
        client->streams = s->next;
        stream_unref(s);
    }
    server->busy--;
    pthread_cond_broadcast(&server->less);
    pthread_mutex_unlock(&server->lock);
    tn_mcp_peer_free(client->peer);
    tn_json_free(client->hello);
    free(client);
}

void client_unref(struct tn_mcp_client *client)
{
    if (!client)
        return;
    pthread_mutex_lock(&client->server->lock);
    bool last = --client->refs == 0;
    pthread_mutex_unlock(&client->server->lock);
    if (last)
        client_free(client);
}

void client_end(struct tn_mcp_client *client)
{
    struct tn_mcp_server *server = client->server;
    uint64_t one = 1;

    pthread_mutex_lock(&server->lock);
    bool first = !client->gone;
    client->gone = true;
    for (struct tn_mcp_client **at = &server->clients; first && *at; at = &(*at)->next) {
        if (*at == client) {
            *at = client->next;
            break;
        }
    }
    if (first)
        server->client_count -= is_counted(client);
    for (struct tn_mcp_request *r = client->requests; r; r = r->next) {
        r->cancelled = true;
        (void)!write(r->cancel, &one, sizeof one);
    }
    for (struct stream *s = client->streams; s; s = s->next)
        stream_wake(s);
    if (client->pipe)
        tn_mcp_pipe_stop(client->pipe);
    pthread_mutex_unlock(&server->lock);
    tn_mcp_peer_lost(client->peer, "the client is gone");
    if (first)
        client_unref(client); /* the list's */
}

bool client_enter(struct tn_mcp_client *client)
{
    pthread_mutex_lock(&client->server->lock);
    bool here = !client->gone;
    client->connections += here;
    pthread_mutex_unlock(&client->server->lock);
    return here;
}

void client_leave(struct tn_mcp_client *client)
{
    pthread_mutex_lock(&client->server->lock);
    client->connections--;
    client->last_used = tn_now();
    pthread_mutex_unlock(&client->server->lock);
}

/* --- streams -------------------------------------------------------------------------------- */

struct stream *client_main_stream(struct tn_mcp_client *client)
{
    struct stream *s = client->streams;

    while (s->next)
        s = s->next;
    return s;
}

/* Of those that have ended only the latest are kept. */
static void drop_streams(struct tn_mcp_client *client)
{
    int kept = 0;

    for (struct stream **at = &client->streams; *at;) {
        struct stream *s = *at;
        if (s->done && s->next && ++kept > KEPT_STREAMS) {
            *at = s->next;
            stream_unref(s);
        } else {
            at = &s->next;
        }
    }
}

struct stream *client_stream(struct tn_mcp_client *client, int pending)
{
    pthread_mutex_lock(&client->server->lock);
    drop_streams(client);
    struct stream *s = stream_new(client->next_stream++, client->kind == CLIENT_HTTP);
    s->pending = pending;
    s->next = client->streams;
    client->streams = s;
    s->refs++;
    pthread_mutex_unlock(&client->server->lock);
    return s;
}

void client_forget_stream(struct tn_mcp_client *client, struct stream *s)
{
    pthread_mutex_lock(&client->server->lock);
    for (struct stream **at = &client->streams; *at; at = &(*at)->next) {
        if (*at == s) {
            *at = s->next;
            stream_unref(s);
            break;
        }
    }
    pthread_mutex_unlock(&client->server->lock);
}

int client_send(struct tn_mcp_client *client, struct stream *s, const char *text, size_t n,
                bool answer, struct tn_error *err)
{
    int result;

    pthread_mutex_lock(&client->server->lock);
    if (client->gone) {
        result = tn_fail(err, TN_E_PEER, "the client is gone");
    } else if (client->pipe) {
        result = tn_mcp_pipe_send(client->pipe, text, n, 0, err);
    } else {
        result = stream_push(s ? s : client_main_stream(client), text, n, answer);
        if (result < 0)
            tn_fail(err, TN_E_PEER, "the client does not read what it is sent");
    }
    bool drop = result < 0 && !client->gone;
    pthread_mutex_unlock(&client->server->lock);
    if (drop)
        client_end(client);
    return result;
}

/* --- for the owner -------------------------------------------------------------------------- */

struct tn_mcp_client *tn_mcp_client_ref(struct tn_mcp_client *client)
{
    pthread_mutex_lock(&client->server->lock);
    bool here = !client->gone;
    client->refs += here;
    pthread_mutex_unlock(&client->server->lock);
    return here ? client : NULL;
}

void tn_mcp_client_unref(struct tn_mcp_client *client)
{
    client_unref(client);
}

void tn_mcp_client_notify(struct tn_mcp_client *client, const char *method, const char *params)
{
    tn_autobuf struct tn_buf message = TN_BUF_INIT(MESSAGE_MAX);

    if (client->kind == CLIENT_MODERN) { /* hears only what it listens for */
        pthread_mutex_lock(&client->server->lock);
        if (client->wants)
            listener_notify(client, method, params);
        pthread_mutex_unlock(&client->server->lock);
        return;
    }
    tn_rpc_put_notification(&message, method, params);
    if (tn_buf_ok(&message))
        client_send(client, NULL, tn_buf_str(&message), message.len, false, NULL);
}

void tn_mcp_server_notify(struct tn_mcp_server *server, const char *method, const char *params)
{
    tn_autobuf struct tn_buf message = TN_BUF_INIT(MESSAGE_MAX);
    struct tn_mcp_client *everybody[2 * CLIENTS_MAX];
    size_t n = 0;

    tn_rpc_put_notification(&message, method, params);
    if (!tn_buf_ok(&message))
        return;
    pthread_mutex_lock(&server->lock);
    for (struct tn_mcp_client *c = server->clients; c && n < TN_COUNT(everybody); c = c->next) {
        if (c->wants)
            listener_notify(c, method, params);
        else if (c->version && c->kind != CLIENT_MODERN) {
            c->refs++;
            everybody[n++] = c;
        }
    }
    pthread_mutex_unlock(&server->lock);
    for (size_t i = 0; i < n; i++) {
        client_send(everybody[i], NULL, tn_buf_str(&message), message.len, false, NULL);
        client_unref(everybody[i]);
    }
}

int tn_mcp_client_call(struct tn_mcp_client *client, struct tn_mcp_request *during,
                       const char *method, const char *params, int64_t deadline,
                       struct tn_rpc *answer, struct tn_error *err)
{
    if (client->kind == CLIENT_MODERN)
        return tn_fail(err, TN_E_UNSUPPORTED, "the client takes no requests");
    struct tn_mcp_call call = {
        .method = method,
        .params = params,
        .deadline = deadline,
        .route = during ? during->stream : NULL,
        .cancel = during ? during->cancel : -1,
    };
    return tn_mcp_call(client->peer, &call, answer, err);
}

const struct tn_json *tn_mcp_client_hello(const struct tn_mcp_client *client)
{
    return client->hello;
}

bool tn_mcp_client_is_modern(const struct tn_mcp_client *client)
{
    return client->kind == CLIENT_MODERN;
}

bool tn_mcp_client_can(const struct tn_mcp_client *client, const char *capability)
{
    return client->kind != CLIENT_MODERN &&
           tn_json_has(tn_json_get(client->hello, "capabilities"), capability);
}
