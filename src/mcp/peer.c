#include "mcp/peer.h"

#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>

#include "base/clock.h"

#define MESSAGE_MAX ((size_t)64 << 20)

/* A call under way, on the stack of its caller. */
struct waiting {
    struct waiting *next;
    int64_t id;
    int ready; /* eventfd: answered, or lost */
    bool answered;
    struct tn_rpc answer;
    int64_t deadline;
    double patience;
    tn_mcp_progress_fn progress;
    void *progress_ctx;
};

struct tn_mcp_peer {
    const struct tn_mcp_peer_ops *ops;
    void *ctx;
    pthread_mutex_t lock;
    pthread_mutex_t progressing; /* held while a caller's progress function runs */
    struct waiting *calls;
    int64_t next_id;
    char *lost; /* why nothing can be asked any more */
};

struct tn_mcp_peer *tn_mcp_peer_new(const struct tn_mcp_peer_ops *ops, void *ctx)
{
    struct tn_mcp_peer *peer = tn_calloc(1, sizeof *peer);

    peer->ops = ops;
    peer->ctx = ctx;
    peer->next_id = 1;
    pthread_mutex_init(&peer->lock, NULL);
    pthread_mutex_init(&peer->progressing, NULL);
    return peer;
}

void tn_mcp_peer_free(struct tn_mcp_peer *peer)
{
    if (!peer)
        return;
    pthread_mutex_destroy(&peer->lock);
    pthread_mutex_destroy(&peer->progressing);
    free(peer->lost);
    free(peer);
}

/* --- what comes in -------------------------------------------------------------------------- */

static void wake(struct waiting *call)
{
    uint64_t one = 1;
    (void)!write(call->ready, &one, sizeof one);
}

static struct waiting *find(struct tn_mcp_peer *peer, const struct tn_json *id)
{
    int64_t number = tn_json_type(id) == TN_JSON_INT ? tn_json_int(id, 0) : 0;

    for (struct waiting *call = peer->calls; call; call = call->next) {
        if (call->id == number)
            return call;
    }
    return NULL;
}

/* One that nobody waits for came late, its caller has given up, or was never waited for. */
static void take_answer(struct tn_mcp_peer *peer, struct tn_rpc *m)
{
    pthread_mutex_lock(&peer->lock);
    struct waiting *call = find(peer, m->id);
    if (call && !call->answered) {
        call->answered = true;
        call->answer = *m;
        *m = (struct tn_rpc){0};
        wake(call);
    }
    pthread_mutex_unlock(&peer->lock);
    if (!call && peer->ops->answer)
        peer->ops->answer(peer->ctx, peer, m);
}

/* False when it is about no call of ours. */
static bool take_progress(struct tn_mcp_peer *peer, const struct tn_rpc *m)
{
    tn_mcp_progress_fn progress = NULL;
    void *ctx = NULL;

    pthread_mutex_lock(&peer->progressing);
    pthread_mutex_lock(&peer->lock);
    struct waiting *call = find(peer, tn_json_get(m->params, "progressToken"));
    if (call && !call->answered) {
        progress = call->progress;
        ctx = call->progress_ctx;
        if (call->patience > 0 && tn_deadline_in(call->patience) > call->deadline)
            call->deadline = tn_deadline_in(call->patience);
    }
    pthread_mutex_unlock(&peer->lock);
    if (progress)
        progress(ctx, m->params);
    pthread_mutex_unlock(&peer->progressing);
    return progress;
}

int tn_mcp_peer_feed(struct tn_mcp_peer *peer, const char *text, size_t n, struct tn_error *err)
{
    struct tn_rpc m;

    if (tn_rpc_parse(text, n, &m, err) < 0)
        return -1;
    tn_mcp_peer_take(peer, &m);
    tn_rpc_done(&m);
    return 0;
}

void tn_mcp_peer_take(struct tn_mcp_peer *peer, struct tn_rpc *m)
{
    switch (m->kind) {
    case TN_RPC_RESULT:
    case TN_RPC_ERROR:
        take_answer(peer, m);
        break;
    case TN_RPC_REQUEST:
        if (strcmp(m->method, "ping") == 0)
            tn_mcp_answer(peer, m->id, 0, "", NULL);
        else
            peer->ops->request(peer->ctx, peer, m);
        break;
    case TN_RPC_NOTIFICATION:
        if (strcmp(m->method, "notifications/progress") != 0 || !take_progress(peer, m))
            peer->ops->notification(peer->ctx, peer, m);
        break;
    }
}

void tn_mcp_peer_lost(struct tn_mcp_peer *peer, const char *why)
{
    pthread_mutex_lock(&peer->lock);
    if (!peer->lost)
        peer->lost = tn_strdup(why);
    for (struct waiting *call = peer->calls; call; call = call->next)
        wake(call);
    pthread_mutex_unlock(&peer->lock);
}

/* --- what goes out -------------------------------------------------------------------------- */

static int send_message(struct tn_mcp_peer *peer, void *route, const struct tn_buf *message,
                        int64_t deadline, struct tn_error *err)
{
    if (!tn_buf_ok(message))
        return tn_fail(err, TN_E_TOO_LARGE, "a message of more than %zu MB", MESSAGE_MAX >> 20);
    return peer->ops->send(peer->ctx, route, tn_buf_str(message), message->len, deadline, err);
}

int tn_mcp_notify(struct tn_mcp_peer *peer, const char *method, const char *params,
                  struct tn_error *err)
{
    tn_autobuf struct tn_buf message = TN_BUF_INIT(MESSAGE_MAX);

    tn_rpc_put_notification(&message, method, params);
    return send_message(peer, NULL, &message, 0, err);
}

int64_t tn_mcp_ask(struct tn_mcp_peer *peer, const char *method, const char *params,
                   struct tn_error *err)
{
    tn_autobuf struct tn_buf message = TN_BUF_INIT(MESSAGE_MAX);

    pthread_mutex_lock(&peer->lock);
    int64_t id = peer->next_id++;
    pthread_mutex_unlock(&peer->lock);
    tn_rpc_put_request(&message, id, method, params);
    return send_message(peer, NULL, &message, 0, err) < 0 ? -1 : id;
}

int tn_mcp_answer(struct tn_mcp_peer *peer, const struct tn_json *id, int64_t code,
                  const char *text, struct tn_error *err)
{
    tn_autobuf struct tn_buf message = TN_BUF_INIT(MESSAGE_MAX);

    if (code)
        tn_rpc_put_error(&message, id, code, text, NULL);
    else
        tn_rpc_put_result(&message, id, text);
    return send_message(peer, NULL, &message, 0, err);
}

struct copy {
    struct tn_jw *w;
    const char *except;
};

static int copy_member(const char *key, struct tn_json *value, void *ctx)
{
    const struct copy *copy = ctx;

    if (strcmp(key, copy->except) != 0) {
        tn_jw_key(copy->w, key);
        tn_jw_tree(copy->w, value);
    }
    return 0;
}

/* params with the token of this call, by which the other side reports progress. */
static int put_token(struct tn_buf *out, const char *params, int64_t id, struct tn_error *err)
{
    tn_autojson struct tn_json *tree = NULL;
    struct tn_jw w = tn_jw(out);

    if (*params && tn_json_parse(params, strlen(params), &tree, err) < 0)
        return -1;
    tn_jw_object(&w);
    tn_json_each(tree, copy_member, &(struct copy){&w, "_meta"});
    tn_jw_key(&w, "_meta");
    tn_jw_object(&w);
    tn_json_each(tn_json_get(tree, "_meta"), copy_member, &(struct copy){&w, "progressToken"});
    tn_jw_kint(&w, "progressToken", id);
    tn_jw_object_end(&w);
    tn_jw_object_end(&w);
    return 0;
}

static int send_call(struct tn_mcp_peer *peer, const struct tn_mcp_call *call, int64_t id,
                     struct tn_error *err)
{
    tn_autobuf struct tn_buf params = TN_BUF_INIT(MESSAGE_MAX);
    tn_autobuf struct tn_buf message = TN_BUF_INIT(MESSAGE_MAX);
    const char *text = call->params ? call->params : "";

    if (call->progress) {
        if (put_token(&params, text, id, err) < 0)
            return -1;
        text = tn_buf_str(&params);
    }
    if (!tn_buf_ok(&params))
        return tn_fail(err, TN_E_TOO_LARGE, "a message of more than %zu MB", MESSAGE_MAX >> 20);
    tn_rpc_put_request(&message, id, call->method, text);
    return send_message(peer, call->route, &message, call->deadline, err);
}

static void send_cancelled(struct tn_mcp_peer *peer, const struct tn_mcp_call *call, int64_t id,
                           const char *reason)
{
    tn_autobuf struct tn_buf params = TN_BUF_INIT(1024), message = TN_BUF_INIT(1024);
    struct tn_jw w = tn_jw(&params);

    if (strcmp(call->method, "initialize") == 0) /* which must not be cancelled */
        return;
    tn_jw_object(&w);
    tn_jw_kint(&w, "requestId", id);
    tn_jw_kstr(&w, "reason", reason);
    tn_jw_object_end(&w);
    tn_rpc_put_notification(&message, "notifications/cancelled", tn_buf_str(&params));
    send_message(peer, call->route, &message, 0, NULL);
}

/* --- calls ---------------------------------------------------------------------------------- */

static int enlist(struct tn_mcp_peer *peer, struct waiting *self, struct tn_error *err)
{
    int result = 0;

    self->ready = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (self->ready < 0)
        return tn_fail_errno(err, errno, "eventfd");
    pthread_mutex_lock(&peer->lock);
    self->id = peer->next_id++;
    self->next = peer->calls;
    peer->calls = self;
    if (peer->lost)
        result = tn_fail(err, TN_E_PEER, "%s", peer->lost);
    pthread_mutex_unlock(&peer->lock);
    return result;
}

/* Afterwards nobody touches it any more. */
static void delist(struct tn_mcp_peer *peer, struct waiting *self)
{
    pthread_mutex_lock(&peer->lock);
    for (struct waiting **at = &peer->calls; *at; at = &(*at)->next) {
        if (*at == self) {
            *at = self->next;
            break;
        }
    }
    pthread_mutex_unlock(&peer->lock);
    if (self->progress) {
        pthread_mutex_lock(&peer->progressing);
        pthread_mutex_unlock(&peer->progressing);
    }
    tn_close(self->ready);
}

static int64_t deadline_of(struct tn_mcp_peer *peer, const struct waiting *self)
{
    pthread_mutex_lock(&peer->lock);
    int64_t deadline = self->deadline;
    pthread_mutex_unlock(&peer->lock);
    return deadline;
}

/* Until answered or lost: 0, or -1 at the deadline or when cancelled. */
static int await(struct tn_mcp_peer *peer, struct waiting *self, const struct tn_mcp_call *call,
                 struct tn_error *err)
{
    struct pollfd fds[] = {{.fd = self->ready, .events = POLLIN},
                           {.fd = call->cancel, .events = POLLIN}};

    for (;;) {
        int64_t deadline = deadline_of(peer, self);
        int n = poll(fds, 2, tn_poll_ms(deadline));
        if (n < 0 && errno != EINTR)
            return tn_fail_errno(err, errno, "poll");
        if (n > 0 && fds[0].revents)
            return 0;
        if (n > 0 && fds[1].revents) {
            send_cancelled(peer, call, self->id, "cancelled by the client");
            return tn_fail(err, TN_E_GONE, "%s: cancelled", call->method);
        }
        if (n == 0 && tn_now() >= deadline_of(peer, self)) {
            send_cancelled(peer, call, self->id, "no answer in time");
            return tn_fail(err, TN_E_TIMEOUT, "%s: no answer in time", call->method);
        }
    }
}

int tn_mcp_call(struct tn_mcp_peer *peer, const struct tn_mcp_call *call, struct tn_rpc *answer,
                struct tn_error *err)
{
    struct waiting self = {.deadline = call->deadline,
                           .patience = call->patience,
                           .progress = call->progress,
                           .progress_ctx = call->progress_ctx};

    int result = enlist(peer, &self, err);
    if (self.ready < 0)
        return -1;
    if (result == 0)
        result = send_call(peer, call, self.id, err);
    if (result == 0)
        result = await(peer, &self, call, err);
    delist(peer, &self);
    if (self.answered && result < 0)
        tn_rpc_done(&self.answer);
    else if (self.answered)
        *answer = self.answer;
    else if (result == 0)
        result = tn_fail(err, TN_E_PEER, "%s", peer->lost);
    return result;
}

int tn_mcp_fail_answer(const struct tn_rpc *answer, struct tn_error *err)
{
    return tn_fail(err, TN_E_PEER, "%.400s (error %" PRId64 ")", answer->message, answer->code);
}

/* --- the client's first words --------------------------------------------------------------- */

const char *const tn_mcp_versions[] = {
    "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05", NULL,
};

bool tn_mcp_version_known(const char *version)
{
    for (size_t i = 0; version && tn_mcp_versions[i]; i++) {
        if (strcmp(tn_mcp_versions[i], version) == 0)
            return true;
    }
    return false;
}

int tn_mcp_initialize(struct tn_mcp_peer *peer, const struct tn_mcp_hello *hello, int64_t deadline,
                      struct tn_rpc *server, struct tn_error *err)
{
    tn_autobuf struct tn_buf params = TN_BUF_INIT(1 << 20);
    struct tn_jw w = tn_jw(&params);

    tn_jw_object(&w);
    tn_jw_kstr(&w, "protocolVersion", tn_mcp_versions[0]);
    tn_jw_key(&w, "capabilities");
    tn_jw_raw(&w, hello->capabilities, strlen(hello->capabilities));
    tn_jw_key(&w, "clientInfo");
    tn_jw_object(&w);
    tn_jw_kstr(&w, "name", hello->name);
    tn_jw_kstr(&w, "version", hello->version);
    tn_jw_object_end(&w);
    tn_jw_object_end(&w);

    struct tn_mcp_call call = {
        .method = "initialize",
        .params = tn_buf_str(&params),
        .deadline = deadline,
        .cancel = -1,
    };
    struct tn_rpc answer;
    if (tn_mcp_call(peer, &call, &answer, err) < 0)
        return -1;
    const char *version = tn_json_get_str(answer.result, "protocolVersion", NULL);
    int result = 0;
    if (answer.kind == TN_RPC_ERROR) {
        tn_mcp_fail_answer(&answer, err);
        result = tn_error_context(err, "initialize");
    } else if (!tn_mcp_version_known(version)) {
        result = tn_fail(err, TN_E_UNSUPPORTED, "it speaks MCP %.40s; expected %s to %s",
                         version ? version : "of no version",
                         tn_mcp_versions[TN_COUNT(tn_mcp_versions) - 2], tn_mcp_versions[0]);
    } else {
        result = tn_mcp_notify(peer, "notifications/initialized", "", err);
    }
    if (result < 0)
        tn_rpc_done(&answer);
    else
        *server = answer;
    return result;
}
