/* Streamable HTTP: each message is a POST, whose answer is JSON or a stream of events; a GET hears
 * what the server has to tell between calls.
 *
 * A call is straight-line code in its caller's thread: it posts, takes what comes back, and when
 * the stream breaks off asks for the rest of it.  It is never posted a second time. */
#include "base/thread.h"
#include "runtime/mcp/courier.h"
#include "runtime/mcp/modern.h"
#include "runtime/mcp/site.h"

#define ACCEPT "Accept: application/json, text/event-stream"
#define DELIVER_SECONDS 5.0
#define GOODBYE_SECONDS 1.0
#define LISTEN_SECONDS 5.0

/* Before asking anew for a stream that has ended, unless the server says otherwise; doubled each
 * time that fails. */
enum { RETRY_MS = 1000, RETRY_MIN_MS = 100, RETRY_MAX_MS = 30 * 1000, FAILURES_MAX = 4 };

struct http_link {
    struct mcp_link link;
    struct mcp_site site;
    size_t max_message;
    struct mcp_courier *courier;
    pthread_t listener;
    bool listening;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t changed;
    bool heard; /* the server knows that we listen, or will not have it */
    char *session, *version;
};

/* --- headers -------------------------------------------------------------------------------- */

/* What a request has besides what every request has. */
struct told {
    const char *accept;
    const char *last_event;       /* or NULL */
    const struct tn_rpc *message; /* that is posted, or NULL */
    const char *const *more;      /* ended by NULL, or NULL */
    bool alone;                   /* nobody waits for the answer */
};

/* Which member of params a header repeats. */
static const char *name_of(const struct tn_rpc *m)
{
    static const struct {
        const char *method, *member;
    } named[] = {{"tools/call", "name"}, {"prompts/get", "name"}, {"resources/read", "uri"}};

    for (size_t i = 0; i < TN_COUNT(named); i++)
        if (strcmp(m->method, named[i].method) == 0)
            return tn_json_get_str(m->params, named[i].member, NULL);
    return NULL;
}

/* "Name: value" each, on the heap, NULL at the end. */
static char **make_headers(struct http_link *l, const struct told *told)
{
    enum { OWN = 6 };
    size_t n = 0, more = 0;
    const char *method = l->link.modern && told->message ? told->message->method : NULL;
    const char *name = method ? name_of(told->message) : NULL;

    while (told->more && told->more[more])
        more++;
    char **out = tn_calloc(OWN + more + 1, sizeof *out);
    out[n++] = tn_strdup(told->accept);
    pthread_mutex_lock(&l->lock);
    if (l->session)
        out[n++] = tn_asprintf("Mcp-Session-Id: %s", l->session);
    if (l->version || l->link.modern)
        out[n++] = tn_asprintf("MCP-Protocol-Version: %s", l->version ? l->version : TN_MCP_MODERN);
    pthread_mutex_unlock(&l->lock);
    if (told->last_event && *told->last_event)
        out[n++] = tn_asprintf("Last-Event-ID: %s", told->last_event);
    if (method)
        out[n++] = tn_mcp_header("Mcp-Method", method);
    if (name && (out[n] = tn_mcp_header("Mcp-Name", name)))
        n++;
    for (size_t i = 0; i < more && l->link.modern; i++)
        out[n++] = tn_strdup(told->more[i]);
    return out;
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
        .whole = TN_BUF_INIT(l->max_message),
    };
    tn_sse_reader_init(&r->events, l->max_message);
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
static int ask(struct reception *r, struct tn_web_call *call, struct told *told,
               struct tn_error *err)
{
    told->last_event = tn_buf_str(&r->events.id);
    char **headers = make_headers(r->l, told);

    call->headers = (const char *const *)headers;
    call->sink = take_bytes;
    call->sink_ctx = r;
    r->known = false;
    tn_buf_reset(&r->whole);
    tn_sse_reader_reset(&r->events);
    int result = mcp_site_call(&r->l->site, call, told->alone, &r->answer, err);
    tn_mcp_headers_free(headers);
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
        struct told told = {.accept = "Accept: text/event-stream"};

        if (!rest(r, pause, deadline))
            return tn_fail(err, TN_E_PEER, "the connection was closed");
        if (tn_now() >= deadline)
            break; /* which the caller sees for himself */
        int result = ask(r, &call, &told, &why);
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

/* In the revision without sessions a refusal may be the answer. */
static bool take_refusal(struct reception *r)
{
    const struct tn_buf *body = &r->answer.body;

    if (r->l->link.modern && r->want && body->len)
        take_message(r, body->data, body->len);
    return r->answered;
}

static int post(struct http_link *l, const char *const *more, const char *text, size_t n,
                const struct tn_rpc *message, int64_t deadline, struct tn_error *err)
{
    struct told told = {.accept = ACCEPT, .message = message, .more = more, .alone = !message};
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
    int result = ask(&r, &call, &told, &why);
    if (result < 0 && why.code == TN_E_TIMEOUT) {
        result = 0; /* the deadline is the caller's */
    } else if (result < 0 && r.answer.status == 0) {
        l->link.ended = true;
        if (err)
            *err = why;
    } else if (!is_success(&r.answer)) {
        result = take_refusal(&r) ? 0 : refused(&r, err);
    } else {
        result = conclude(&r, result < 0 ? &why : NULL, call.deadline, err);
    }
    reception_done(&r);
    return result;
}

static void deliver(void *ctx, const char *text, size_t n)
{
    post(ctx, NULL, text, n, NULL, tn_deadline_in(DELIVER_SECONDS), NULL);
}

static int http_send(struct mcp_link *link, const char *const *headers, const char *text, size_t n,
                     int64_t deadline, struct tn_error *err)
{
    struct http_link *l = (struct http_link *)link;
    tn_autorpc struct tn_rpc message = {0};

    if (deadline == 0 && link->modern)
        return 0; /* nothing is told there: who hangs up has cancelled */
    if (deadline == 0)
        return mcp_courier_put(l->courier, text, n, err);
    if (tn_rpc_parse(text, n, &message, err) < 0)
        return -1;
    if (mcp_courier_wait(l->courier, deadline, err) < 0)
        return -1;
    return post(l, headers, text, n, &message, deadline, err);
}

/* --- listening ------------------------------------------------------------------------------ */

/* The request whose answer is a stream of what changes, in the revision without sessions. */
static void put_listen(struct tn_buf *out)
{
    tn_autobuf struct tn_buf params = TN_BUF_INIT(1 << 16);
    struct tn_jw w = tn_jw(&params);

    tn_jw_object(&w);
    tn_mcp_put_meta(&w, mcp_meta(false));
    tn_jw_key(&w, "notifications");
    tn_jw_object(&w);
    tn_jw_kbool(&w, "toolsListChanged", true);
    tn_jw_object_end(&w);
    tn_jw_object_end(&w);
    tn_rpc_put_request(out, 0, "subscriptions/listen", tn_buf_str(&params));
}

static void set_heard(struct http_link *l)
{
    pthread_mutex_lock(&l->lock);
    l->heard = true;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
}

static void begin_stream(void *ctx)
{
    const struct reception *r = ctx;

    set_heard(r->l);
}

/* Events between calls.  A server that has none says so with 405. */
static void *listen_on(void *arg)
{
    struct http_link *l = arg;
    tn_autobuf struct tn_buf text = TN_BUF_INIT(1 << 16);
    tn_autorpc struct tn_rpc message = {0};
    int64_t pause = RETRY_MS;
    struct reception r;

    if (l->link.modern) {
        put_listen(&text);
        tn_rpc_parse(tn_buf_str(&text), text.len, &message, NULL);
    }
    reception_init(&r, l, 0);
    for (;;) {
        struct tn_web_call call = {.deadline = TN_NEVER};
        struct told told = {.accept = "Accept: text/event-stream"};

        if (l->link.modern) {
            call = (struct tn_web_call){.type = "application/json",
                                        .body = tn_buf_str(&text),
                                        .body_len = text.len,
                                        .deadline = TN_NEVER};
            told = (struct told){.accept = ACCEPT, .message = &message};
        }
        call.begun = begin_stream;
        told.alone = true;
        int result = ask(&r, &call, &told, NULL);

        set_heard(l);
        if (result == 0 && (!is_success(&r.answer) || r.trouble.code))
            break;
        pause = result == 0 ? RETRY_MS : pause * 2 < RETRY_MAX_MS ? pause * 2 : RETRY_MAX_MS;
        if (!rest(&r, pause, TN_NEVER))
            break;
    }
    reception_done(&r);
    return NULL;
}

static void http_listen(struct mcp_link *link, bool wait)
{
    struct http_link *l = (struct http_link *)link;
    struct timespec until = tn_timespec(tn_deadline_in(LISTEN_SECONDS));
    int late = 0;

    l->listening = tn_thread_start(&l->listener, listen_on, l) == 0;
    pthread_mutex_lock(&l->lock);
    while (wait && l->listening && !l->heard && !late)
        late = pthread_cond_timedwait(&l->changed, &l->lock, &until);
    pthread_mutex_unlock(&l->lock);
}

/* --- life ----------------------------------------------------------------------------------- */

static void say_goodbye(struct http_link *l)
{
    tn_autoanswer struct tn_web_answer answer = TN_WEB_ANSWER_INIT(64 << 10);
    struct tn_web_call call = {.method = "DELETE", .deadline = tn_deadline_in(GOODBYE_SECONDS)};
    const struct told told = {.accept = ACCEPT};

    mcp_courier_wait(l->courier, tn_deadline_in(GOODBYE_SECONDS), NULL);
    if (!has_session(l))
        return;
    char **headers = make_headers(l, &told);
    call.headers = (const char *const *)headers;
    mcp_site_call(&l->site, &call, true, &answer, NULL);
    tn_mcp_headers_free(headers);
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
    pthread_cond_destroy(&l->changed);
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
    l->max_message = server->max_message;
    pthread_mutex_init(&l->lock, NULL);
    tn_cond_init(&l->changed);
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
    .modern = true,
    .close = http_close,
};
