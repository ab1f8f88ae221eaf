/* HTTP+SSE of 2024-11-05: a stream of events, of which the first says where to post messages. */
#include "base/thread.h"
#include "runtime/mcp/courier.h"
#include "runtime/mcp/site.h"

#define DELIVER_SECONDS 5.0
#define GOODBYE_SECONDS 1.0

enum state { CONNECTING, OPEN, ENDED };

struct sse_link {
    struct mcp_link link;
    struct mcp_site stream, messages; /* the second one moves to where the first event says */
    struct mcp_courier *courier;
    pthread_t reader;
    bool reading;
    struct tn_web_answer answer; /* the reader's */
    struct tn_sse_reader events;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t changed;
    enum state state;
    struct tn_error why; /* it has ended */
};

/* --- the stream ----------------------------------------------------------------------------- */

static void set_state(struct sse_link *l, enum state state, const struct tn_error *why)
{
    pthread_mutex_lock(&l->lock);
    l->state = state;
    if (why)
        l->why = *why;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
}

static int take_event(const char *event, const char *data, size_t n, void *ctx)
{
    struct sse_link *l = ctx;

    if (strcmp(event, "endpoint") == 0) {
        if (mcp_site_move(&l->messages, data, &l->why) < 0)
            return -1;
        set_state(l, OPEN, NULL);
    } else if (n > 0 && (!*event || strcmp(event, "message") == 0)) {
        tn_mcp_peer_feed(l->link.peer, data, n, NULL);
    }
    return 0;
}

static int take_bytes(const void *bytes, size_t n, void *ctx)
{
    struct sse_link *l = ctx;
    tn_autofree char *type = mcp_site_type(&l->answer);

    if (strcmp(type, "text/event-stream") != 0)
        return tn_fail(&l->why, TN_E_PEER, "expected a stream of events, got %.60s",
                       *type ? type : "something without a type");
    return tn_sse_read(&l->events, bytes, n, take_event, l, &l->why);
}

static void *read_stream(void *arg)
{
    static const char *const headers[] = {"Accept: text/event-stream", NULL};
    struct sse_link *l = arg;
    struct tn_web_call call = {
        .headers = headers, .sink = take_bytes, .sink_ctx = l, .deadline = TN_NEVER};
    struct tn_error why = {0};

    int result = mcp_site_call(&l->stream, &call, false, &l->answer, &why);
    if (result == 0 && l->answer.stopped) {
        why = l->why;
    } else if (result == 0 && (l->answer.status < 200 || l->answer.status > 299)) {
        mcp_site_refused(&l->answer, &why);
    } else if (result == 0) {
        tn_fail(&why, TN_E_PEER, "the server ended the stream");
    }
    l->link.ended = true;
    set_state(l, ENDED, &why);
    tn_mcp_peer_lost(l->link.peer, why.text);
    return NULL;
}

static int await_endpoint(struct sse_link *l, int64_t deadline, struct tn_error *err)
{
    struct timespec until = tn_timespec(deadline);
    int result = 0;

    pthread_mutex_lock(&l->lock);
    while (l->state == CONNECTING && result == 0)
        result = pthread_cond_timedwait(&l->changed, &l->lock, &until);
    enum state state = l->state;
    if (state == ENDED && err)
        *err = l->why;
    pthread_mutex_unlock(&l->lock);
    if (state == CONNECTING)
        return tn_fail(err, TN_E_TIMEOUT, "the server did not say where to post messages");
    return state == OPEN ? 0 : -1;
}

/* --- messages ------------------------------------------------------------------------------- */

static int post(struct sse_link *l, const char *text, size_t n, int64_t deadline,
                struct tn_error *err)
{
    tn_autoanswer struct tn_web_answer answer = TN_WEB_ANSWER_INIT(64 << 10);
    struct tn_web_call call = {
        .method = "POST",
        .type = "application/json",
        .body = text,
        .body_len = n,
        .deadline = deadline,
        .once = true,
    };

    if (mcp_site_call(&l->messages, &call, false, &answer, err) < 0)
        return -1;
    if (answer.status >= 200 && answer.status <= 299)
        return 0;
    if (answer.status == 404)
        l->link.ended = true;
    mcp_site_refused(&answer, err);
    if (err)
        err->sys = answer.status == 404 ? MCP_FORGOTTEN : MCP_REFUSED;
    return -1;
}

static void deliver(void *ctx, const char *text, size_t n)
{
    post(ctx, text, n, tn_deadline_in(DELIVER_SECONDS), NULL);
}

static int sse_send(struct mcp_link *link, const char *const *headers, const char *text, size_t n,
                    int64_t deadline, struct tn_error *err)
{
    struct sse_link *l = (struct sse_link *)link;
    struct tn_error why = {0};

    if (deadline == 0)
        return mcp_courier_put(l->courier, text, n, err);
    if (mcp_courier_wait(l->courier, deadline, err) < 0)
        return -1;
    if (post(l, text, n, deadline, &why) == 0 || why.code == TN_E_TIMEOUT)
        return 0; /* the deadline is the caller's */
    if (err)
        *err = why;
    return -1;
}

/* --- life ----------------------------------------------------------------------------------- */

static void sse_close(struct mcp_link *link)
{
    struct sse_link *l = (struct sse_link *)link;

    if (l->courier && !l->link.ended)
        mcp_courier_wait(l->courier, tn_deadline_in(GOODBYE_SECONDS), NULL);
    if (l->stream.stop >= 0)
        mcp_site_stop(&l->stream);
    if (l->messages.stop >= 0)
        mcp_site_stop(&l->messages);
    if (l->reading)
        pthread_join(l->reader, NULL);
    mcp_courier_free(l->courier);
    mcp_site_done(&l->stream);
    mcp_site_done(&l->messages);
    tn_web_answer_done(&l->answer);
    tn_sse_reader_done(&l->events);
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->lock);
    free(l);
}

static struct mcp_link *sse_open(const struct mcp_server *server, const char *url,
                                 struct tn_mcp_peer *peer, int64_t deadline, struct tn_error *err)
{
    struct sse_link *l = tn_calloc(1, sizeof *l);

    *l = (struct sse_link){
        .link = {.ops = &mcp_over_sse, .peer = peer},
        .answer = TN_WEB_ANSWER_INIT(64 << 10),
    };
    pthread_mutex_init(&l->lock, NULL);
    tn_cond_init(&l->changed);
    tn_sse_reader_init(&l->events, server->max_message);
    int opened = mcp_site_open(&l->stream, server, url, err);
    if (mcp_site_open(&l->messages, server, url, err) == 0 && opened == 0 &&
        (l->courier = mcp_courier_new(deliver, l, err))) {
        int failed = tn_thread_start(&l->reader, read_stream, l);
        if (failed)
            tn_fail_errno(err, failed, "thread");
        l->reading = !failed;
    }
    if (l->reading && await_endpoint(l, deadline, err) == 0)
        return &l->link;
    sse_close(&l->link);
    return NULL;
}

const struct mcp_link_ops mcp_over_sse = {
    .open = sse_open,
    .send = sse_send,
    .close = sse_close,
};
