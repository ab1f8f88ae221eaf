/* Streamable HTTP: each message is a POST, whose answer is JSON or a stream of events; a GET hears
 * what the server has to tell between calls.
 *
 * A call is straight-line code in its caller's thread: it posts, takes what comes back, and when
 * the stream breaks off asks for the rest of it.  It is never posted a second time. */
#include "base/thread.h"
#include "runtime/mcp/courier.h"
#include "runtime/mcp/site.h"

#define ACCEPT "Accept: application/json, text/event-stream"
#define DELIVER_SECONDS 5.0
#define GOODBYE_SECONDS 1.0

/* Before asking anew for a stream that has ended, unless the server says otherwise; doubled each
 * time that fails. */
enum { RETRY_MS = 1000, RETRY_MIN_MS = 100, RETRY_MAX_MS = 30 * 1000, FAILURES_MAX = 4 };

struct http_link {
    struct mcp_link link;
    struct mcp_site site;
    struct mcp_courier *courier;
    pthread_t listener;
    bool listening;
    pthread_mutex_t lock; /* of what follows */
    char *session, *version;
};

/* --- headers -------------------------------------------------------------------------------- */

enum { HEADERS = 5 };

/* "Name: value" each, on the heap, NULL at the end. */
static void make_headers(struct http_link *l, const char *accept, const char *last_event,
                         char *out[HEADERS])
{
    size_t n = 0;

    out[n++] = tn_strdup(accept);
    pthread_mutex_lock(&l->lock);
    if (l->session)
        out[n++] = tn_asprintf("Mcp-Session-Id: %s", l->session);
    if (l->version)
        out[n++] = tn_asprintf("MCP-Protocol-Version: %s", l->version);
    pthread_mutex_unlock(&l->lock);
    if (last_event && *last_event)
        out[n++] = tn_asprintf("Last-Event-ID: %s", last_event);
    out[n] = NULL;
}

static void free_headers(char *headers[HEADERS])
{
    for (char **h = headers; *h; h++)
        free(*h);
}

static bool has_session(struct http_link *l)
{
    pthread_mutex_lock(&l->lock);
    bool has = l->session;
    pthread_mutex_unlock(&l->lock);
    return has;
}

/* --- an answer ------------------------------------------------------------------------------ */

struct reception {
    struct http_link *l;
    struct tn_web_answer answer;
    struct tn_sse_reader events;
    struct tn_buf whole; /* an answer that is no stream */
    int64_t want;        /* the answer with this id ends it; 0: none is expected */
    bool hello;          /* that is the answer to initialize */
    bool answered;
    bool stream, known;      /* whether it is a stream is known */
    struct tn_error trouble; /* what it sent is nonsense */
};

static void reception_init(struct reception *r, struct http_link *l, int64_t want)
{
    *r = (struct reception){
        .l = l,
        .want = want,
        .answer = TN_WEB_ANSWER_INIT(64 << 10),
        .whole = TN_BUF_INIT(MCP_MESSAGE_MAX),
    };
    tn_sse_reader_init(&r->events, MCP_MESSAGE_MAX);
}

static void reception_done(struct reception *r)
{
    tn_web_answer_done(&r->answer);
    tn_sse_reader_done(&r->events);
    tn_buf_done(&r->whole);
}

/* The session and the version, which every request from now on names. */
static void note_hello(struct reception *r, const struct tn_rpc *m)
{
    struct http_link *l = r->l;
    const char *version = tn_json_get_str(m->result, "protocolVersion", NULL);

    pthread_mutex_lock(&l->lock);
    l->session = tn_web_answer_header(&r->answer, "mcp-session-id");
    if (tn_mcp_version_known(version)) /* any other text could be more than one header */
        l->version = tn_strdup(version);
    pthread_mutex_unlock(&l->lock);
}

static void take_message(struct reception *r, const char *text, size_t n)
{
    struct tn_rpc m;

    if (tn_rpc_parse(text, n, &m, &r->trouble) < 0)
        return;
    bool ours = r->want && (m.kind == TN_RPC_RESULT || m.kind == TN_RPC_ERROR) &&
                tn_json_type(m.id) == TN_JSON_INT && tn_json_int(m.id, 0) == r->want;
    if (ours && r->hello)
        note_hello(r, &m);
    tn_mcp_peer_take(r->l->link.peer, &m);
    tn_rpc_done(&m);
    r->answered |= ours;
}

static int take_event(const char *event, const char *data, size_t n, void *ctx)
{
    struct reception *r = ctx;

    if (n > 0 && (!*event || strcmp(event, "message") == 0))
        take_message(r, data, n);
    return r->answered;
}

static int take_bytes(const void *bytes, size_t n, void *ctx)
{
    struct reception *r = ctx;

    if (!r->known) {
        tn_autofree char *type = mcp_site_type(&r->answer);
        r->known = true;
        r->stream = strcmp(type, "text/event-stream") == 0;
        if (!r->stream && strcmp(type, "application/json") != 0)
            return tn_fail(&r->trouble, TN_E_PEER, "expected JSON or a stream of events, got %.60s",
                           *type ? type : "something without a type");
    }
    if (r->stream)
        return tn_sse_read(&r->events, bytes, n, take_event, r, &r->trouble);
    if (tn_buf_add(&r->whole, bytes, n) < 0)
        return tn_fail(&r->trouble, TN_E_TOO_LARGE, "the answer has more than %zu bytes",
                       r->whole.max);
    return 0;
}

/* --- requests ------------------------------------------------------------------------------- */

/* One request with its answer taken.  -1 with err when there was none. */
static int ask(struct reception *r, struct tn_web_call *call, const char *accept,
               struct tn_error *err)
{
    char *headers[HEADERS];

    make_headers(r->l, accept, tn_buf_str(&r->events.id), headers);
    call->headers = (const char *const *)headers;
    call->sink = take_bytes;
    call->sink_ctx = r;
    r->known = false;
    tn_buf_reset(&r->whole);
    tn_sse_reader_reset(&r->events);
    int result = mcp_site_call(&r->l->site, call, &r->answer, err);
    free_headers(headers);
    return result;
}

/* Makes an error of a refusal and notes what it means for the conversation. */
static int refused(struct reception *r, struct tn_error *err)
{
    struct mcp_link *link = &r->l->link;
    int status = r->answer.status;
    bool forgotten = r->want && (status == 404 || status == 400) && has_session(r->l);

    link->refused = status;
    if (forgotten)
        link->ended = true;
    mcp_site_refused(&r->answer, err);
    if (err)
        err->sys = forgotten ? MCP_FORGOTTEN : MCP_REFUSED;
    return -1;
}

static bool is_success(const struct tn_web_answer *answer)
{
    return answer->status >= 200 && answer->status < 300;
}

/* As long as the server wants it, but not in no time; false when it is to end. */
static bool rest(const struct reception *r, int64_t pause, int64_t deadline)
{
    int64_t wanted = r->events.retry >= 0 ? r->events.retry : pause;

    return mcp_site_pause(&r->l->site, wanted > RETRY_MIN_MS ? wanted : RETRY_MIN_MS, deadline);
}

/* The stream ended before the answer came: asks for the rest of it, until the deadline. */
static int resume(struct reception *r, int64_t deadline, struct tn_error *err)
{
    int64_t pause = RETRY_MS;

    for (int failures = 0; !r->answered && !r->trouble.code;) {
        struct tn_error why = {0};
        struct tn_web_call call = {.deadline = deadline};

        if (!rest(r, pause, deadline))
            return tn_fail(err, TN_E_PEER, "the connection was closed");
        if (tn_now() >= deadline)
            break; /* which the caller sees for himself */
        int result = ask(r, &call, "Accept: text/event-stream", &why);
        if (result == 0 && !is_success(&r->answer)) {
            mcp_site_refused(&r->answer, &why);
            return tn_fail(err, TN_E_PEER, "the server does not give the rest of it: %.300s",
                           why.text);
        }
        failures = result == 0 ? 0 : failures + 1;
        pause = result == 0 ? RETRY_MS : pause * 2;
        if (failures == FAILURES_MAX ||
            (result < 0 && why.code != TN_E_PEER && why.code != TN_E_TIMEOUT))
            return tn_fail(err, TN_E_PEER, "%s", why.text);
    }
    return 0;
}

/* What came of a request whose answer was accepted, or broke off. */
static int conclude(struct reception *r, const struct tn_error *broken, int64_t deadline,
                    struct tn_error *err)
{
    if (!r->stream && r->whole.len && !r->trouble.code && !broken)
        take_message(r, r->whole.data, r->whole.len);
    if (!r->want || r->answered)
        return 0;
    if (r->stream && r->events.id.len && !r->trouble.code && resume(r, deadline, err) < 0)
        return -1;
    if (r->answered || tn_now() >= deadline)
        return 0;
    const struct tn_error *why = r->trouble.code ? &r->trouble : broken;
    return tn_fail(err, TN_E_PEER, "%s", why ? why->text : "the server did not send one");
}

static int post(struct http_link *l, const char *text, size_t n, const struct tn_rpc *message,
                int64_t deadline, struct tn_error *err)
{
    bool request = message && message->kind == TN_RPC_REQUEST;
    struct tn_web_call call = {
        .method = "POST",
        .type = "application/json",
        .body = text,
        .body_len = n,
        .deadline = deadline,
        .once = request && strcmp(message->method, "tools/call") == 0,
    };
    struct tn_error why = {0};
    struct reception r;

    reception_init(&r, l, request ? tn_json_int(message->id, 0) : 0);
    r.hello = request && strcmp(message->method, "initialize") == 0;
    int result = ask(&r, &call, ACCEPT, &why);
    if (result < 0 && why.code == TN_E_TIMEOUT) {
        result = 0; /* the deadline is the caller's */
    } else if (result < 0 && r.answer.status == 0) {
        l->link.ended = true;
        if (err)
            *err = why;
    } else if (!is_success(&r.answer)) {
        result = refused(&r, err);
    } else {
        result = conclude(&r, result < 0 ? &why : NULL, deadline, err);
    }
    reception_done(&r);
    return result;
}

static void deliver(void *ctx, const char *text, size_t n)
{
    post(ctx, text, n, NULL, tn_deadline_in(DELIVER_SECONDS), NULL);
}

static int http_send(struct mcp_link *link, const char *text, size_t n, int64_t deadline,
                     struct tn_error *err)
{
    struct http_link *l = (struct http_link *)link;
    tn_autorpc struct tn_rpc message = {0};

    if (deadline == 0)
        return mcp_courier_put(l->courier, text, n, err);
    if (tn_rpc_parse(text, n, &message, err) < 0)
        return -1;
    if (mcp_courier_wait(l->courier, deadline, err) < 0)
        return -1;
    return post(l, text, n, &message, deadline, err);
}

/* --- listening ------------------------------------------------------------------------------ */

/* Events between calls.  A server that has none says so with 405. */
static void *listen_on(void *arg)
{
    struct http_link *l = arg;
    int64_t pause = RETRY_MS;
    struct reception r;

    reception_init(&r, l, 0);
    for (;;) {
        struct tn_web_call call = {.deadline = TN_NEVER};
        int result = ask(&r, &call, "Accept: text/event-stream", NULL);

        if (result == 0 && (!is_success(&r.answer) || r.trouble.code))
            break;
        pause = result == 0 ? RETRY_MS : pause * 2 < RETRY_MAX_MS ? pause * 2 : RETRY_MAX_MS;
        if (!rest(&r, pause, TN_NEVER))
            break;
    }
    reception_done(&r);
    return NULL;
}

static void http_listen(struct mcp_link *link)
{
    struct http_link *l = (struct http_link *)link;

    l->listening = tn_thread_start(&l->listener, listen_on, l) == 0;
}

/* --- life ----------------------------------------------------------------------------------- */

static void say_goodbye(struct http_link *l)
{
    tn_autoanswer struct tn_web_answer answer = TN_WEB_ANSWER_INIT(64 << 10);
    struct tn_web_call call = {.method = "DELETE", .deadline = tn_deadline_in(GOODBYE_SECONDS)};
    char *headers[HEADERS];

    mcp_courier_wait(l->courier, tn_deadline_in(GOODBYE_SECONDS), NULL);
    if (!has_session(l))
        return;
    make_headers(l, ACCEPT, NULL, headers);
    call.headers = (const char *const *)headers;
    mcp_site_call(&l->site, &call, &answer, NULL);
    free_headers(headers);
}

static void http_close(struct mcp_link *link)
{
    struct http_link *l = (struct http_link *)link;

    if (l->courier && !l->link.ended)
        say_goodbye(l);
    if (l->site.stop >= 0)
        mcp_site_stop(&l->site);
    if (l->listening)
        pthread_join(l->listener, NULL);
    mcp_courier_free(l->courier);
    mcp_site_done(&l->site);
    pthread_mutex_destroy(&l->lock);
    free(l->session);
    free(l->version);
    free(l);
}

static struct mcp_link *http_open(const struct mcp_server *server, const char *url,
                                  struct tn_mcp_peer *peer, int64_t deadline, struct tn_error *err)
{
    struct http_link *l = tn_calloc(1, sizeof *l);

    l->link = (struct mcp_link){.ops = &mcp_over_http, .peer = peer};
    pthread_mutex_init(&l->lock, NULL);
    if (mcp_site_open(&l->site, server, url, err) == 0 &&
        (l->courier = mcp_courier_new(deliver, l, err)))
        return &l->link;
    http_close(&l->link);
    return NULL;
}

const struct mcp_link_ops mcp_over_http = {
    .open = http_open,
    .send = http_send,
    .listen = http_listen,
    .close = http_close,
};
