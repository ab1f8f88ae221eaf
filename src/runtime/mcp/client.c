#include "runtime/mcp/client.h"

#include <pthread.h>

#include "base/clock.h"
#include "base/thread.h"
#include "runtime/mcp/modern.h"
#include "runtime/mcp/questions.h"

#define CONNECT_SECONDS 30.0
#define LIST_SECONDS 30.0
#define PROBE_SECONDS 10.0
/* When a person is asked to log in meanwhile. */
#define PATIENT_SECONDS 600.0

/* After a failure; doubled by each further one. */
#define PAUSE_SECONDS 0.5
#define PAUSE_MAX_SECONDS 30.0

enum { PAGES_MAX = 1000, TOOLS_MAX_BYTES = 32 << 20, FORMER_MAX = 4 };

/* One conversation; freed when the last of its users has left it. */
struct talk {
    struct mcp_client *client;
    _Atomic(struct mcp_link *) link; /* NULL while it is being opened */
    struct tn_mcp_peer *peer;
    struct mcp_questions *questions;
    int users;  /* under the client's lock, the client itself counts */
    bool tells; /* promised to tell when its tools change */
};

struct mcp_client {
    struct mcp_server server;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t changed;
    bool busy; /* somebody connects or lists */
    bool stale;
    bool handshakes; /* it is known to speak a revision with sessions */
    struct talk *talk;
    struct tn_json *tools;
    struct tn_json *former[FORMER_MAX]; /* lists of before, the newest first */
    int failures;
    int64_t not_before;
    struct tn_error failure;
};

void mcp_server_done(struct mcp_server *s)
{
    free(s->label);
    for (size_t i = 0; i < TN_COUNT(s->ways); i++)
        free(s->ways[i].url);
    free(s->address);
    if (s->key)
        explicit_bzero(s->key, strlen(s->key));
    free(s->key);
    free(s->session);
    for (char **a = s->argv; a && *a; a++)
        free(*a);
    for (char **e = s->env; e && *e; e++)
        free(*e);
    free(s->argv);
    free(s->env);
    mcp_oauth_free(s->oauth);
}

struct mcp_client *mcp_client_new(struct mcp_server *server)
{
    struct mcp_client *c = tn_calloc(1, sizeof *c);

    c->server = *server;
    *server = (struct mcp_server){0};
    pthread_mutex_init(&c->lock, NULL);
    tn_cond_init(&c->changed);
    return c;
}

const struct mcp_server *mcp_client_server(const struct mcp_client *c)
{
    return &c->server;
}

/* --- conversations -------------------------------------------------------------------------- */

static int send_message(void *ctx, void *route, const char *text, size_t n, int64_t deadline,
                        struct tn_error *err)
{
    struct talk *talk = ctx;
    struct mcp_link *link = talk->link;

    if (!link)
        return tn_fail(err, TN_E_PEER, "the server speaks before its turn");
    return link->ops->send(link, route, text, n, deadline, err);
}

static void take_request(void *ctx, struct tn_mcp_peer *peer, const struct tn_rpc *message)
{
    struct talk *talk = ctx;

    mcp_questions_take(talk->questions, peer, message);
}

static void take_notification(void *ctx, struct tn_mcp_peer *peer, const struct tn_rpc *message)
{
    struct talk *talk = ctx;

    if (strcmp(message->method, "notifications/tools/list_changed") == 0)
        mcp_client_stale(talk->client);
}

static const struct tn_mcp_peer_ops peer_ops = {
    .send = send_message,
    .request = take_request,
    .notification = take_notification,
};

static void talk_free(struct talk *talk)
{
    if (!talk)
        return;
    struct mcp_link *link = talk->link;
    mcp_questions_stop(talk->questions); /* its answers go over the link */
    if (link)
        link->ops->close(link);
    mcp_questions_free(talk->questions);
    tn_mcp_peer_free(talk->peer);
    free(talk);
}

static int64_t sooner(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static bool asks(const struct mcp_client *c)
{
    return c->server.question;
}

/* So long something may take that takes `seconds` at most when nobody has to log in. */
static int64_t limit(const struct mcp_client *c, int64_t deadline, double seconds)
{
    bool patient = c->server.oauth && mcp_oauth_is_patient(c->server.oauth);

    return sooner(deadline, tn_deadline_in(patient ? PATIENT_SECONDS : seconds));
}

/* Whether it is to be spoken to without a handshake: 1 with its capabilities, 0, -1 with err.  Who
 * does not know the question answers it in any way, or not at all (*late): all but not being there
 * means 0. */
static int probe(struct mcp_client *c, struct talk *talk, int64_t deadline, bool *late,
                 struct tn_json **capabilities, struct tn_error *err)
{
    struct mcp_link *link = talk->link;
    tn_autorpc struct tn_rpc answer = {0};
    struct tn_error why = {0};

    if (!link->ops->modern || c->server.address || c->handshakes)
        return 0;
    link->modern = true;
    int result = tn_mcp_discover(talk->peer, mcp_meta(asks(c)), deadline, &answer, &why);
    link->modern = result > 0;
    if (result > 0)
        *capabilities = tn_json_copy(tn_json_get(answer.result, "capabilities"));
    *late = result < 0 && why.code == TN_E_TIMEOUT;
    /* A login that failed would fail again. */
    bool no_login = result < 0 && why.code == TN_E_DENIED && !link->refused;
    if (result >= 0 || !(link->ended || no_login))
        return result > 0;
    if (err)
        *err = why;
    return -1;
}

/* Its capabilities, whichever way it says them. */
static int say_hello(struct mcp_client *c, struct talk *talk, int64_t deadline,
                     struct tn_json **capabilities, struct tn_error *err)
{
    const struct tn_mcp_hello hello = {
        .name = "tendon", .version = TN_VERSION, .capabilities = mcp_meta(asks(c))->capabilities};
    tn_autorpc struct tn_rpc server = {0};
    bool late = false;
    int modern = probe(c, talk, limit(c, deadline, PROBE_SECONDS), &late, capabilities, err);

    if (modern)
        return modern < 0 ? -1 : 0;
    if (tn_mcp_initialize(talk->peer, &hello, deadline, &server, err) < 0)
        /* It was only slow, perhaps, and has no handshake. */
        return late && probe(c, talk, deadline, &late, capabilities, NULL) > 0 ? 0 : -1;
    c->handshakes = true;
    *capabilities = tn_json_copy(tn_json_get(server.result, "capabilities"));
    return 0;
}

static struct talk *talk_open(struct mcp_client *c, const struct mcp_way *way, int *refused,
                              int64_t deadline, struct tn_error *err)
{
    struct talk *talk = tn_calloc(1, sizeof *talk);
    tn_autojson struct tn_json *capabilities = NULL;

    talk->client = c;
    talk->users = 1;
    talk->questions = mcp_questions_new(&c->server);
    talk->peer = tn_mcp_peer_new(&peer_ops, talk);
    struct mcp_link *link = way->ops->open(&c->server, way->url, talk->peer, deadline, err);
    talk->link = link;
    if (!link || say_hello(c, talk, deadline, &capabilities, err) < 0) {
        *refused = link ? link->refused : 0;
        talk_free(talk);
        return NULL;
    }
    const struct tn_json *tools = tn_json_get(capabilities, "tools");
    talk->tells = tn_json_bool(tn_json_get(tools, "listChanged"), false);
    /* Questions may come outside of calls; without sessions they come as results. */
    bool waits = asks(c) && !link->modern;
    if ((talk->tells || waits) && link->ops->listen)
        link->ops->listen(link, waits);
    return talk;
}

/* Those statuses are how a server says that it does not know the newer transport. */
static bool unknown_transport(int status)
{
    return status == 400 || status == 404 || status == 405;
}

static struct talk *talk_start(struct mcp_client *c, int64_t deadline, struct tn_error *err)
{
    if (c->server.before && c->server.before(c->server.ctx, &c->server, deadline, err) < 0)
        return NULL;
    deadline = limit(c, deadline, CONNECT_SECONDS);
    for (size_t i = 0;; i++) {
        int refused = 0;
        struct talk *talk = talk_open(c, &c->server.ways[i], &refused, deadline, err);
        bool another = i + 1 < TN_COUNT(c->server.ways) && c->server.ways[i + 1].ops;
        if (talk || !another || !unknown_transport(refused))
            return talk;
    }
}

static void leave_talk(struct mcp_client *c, struct talk *talk)
{
    pthread_mutex_lock(&c->lock);
    bool last = --talk->users == 0;
    pthread_mutex_unlock(&c->lock);
    if (last)
        talk_free(talk);
}

static bool is_over(const struct talk *talk)
{
    const struct mcp_link *link = talk->link;

    return link->ended;
}

/* The current conversation with one user more, or NULL. */
static struct talk *join_talk(struct mcp_client *c)
{
    pthread_mutex_lock(&c->lock);
    struct talk *talk = c->talk;
    if (talk && is_over(talk))
        talk = NULL;
    if (talk)
        talk->users++;
    pthread_mutex_unlock(&c->lock);
    return talk;
}

static void set_talk(struct mcp_client *c, struct talk *talk)
{
    pthread_mutex_lock(&c->lock);
    struct talk *before = c->talk;
    c->talk = talk;
    pthread_mutex_unlock(&c->lock);
    if (before)
        leave_talk(c, before);
}

void mcp_client_free(struct mcp_client *c)
{
    if (!c)
        return;
    set_talk(c, NULL);
    tn_json_free(c->tools);
    for (size_t i = 0; i < FORMER_MAX; i++)
        tn_json_free(c->former[i]);
    mcp_server_done(&c->server);
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

void mcp_client_stale(struct mcp_client *c)
{
    pthread_mutex_lock(&c->lock);
    c->stale = true;
    pthread_mutex_unlock(&c->lock);
}

/* --- tools ---------------------------------------------------------------------------------- */

static bool speaks_modern(const struct talk *talk)
{
    const struct mcp_link *link = talk->link;

    return link->modern;
}

/* Adds one page and sets *cursor to where the next begins, or NULL. */
static int list_page(struct talk *talk, struct tn_jw *w, char **cursor, int64_t deadline,
                     struct tn_error *err)
{
    tn_autobuf struct tn_buf params = TN_BUF_INIT(1 << 20);
    tn_autorpc struct tn_rpc answer = {0};
    struct tn_jw p = tn_jw(&params);
    bool modern = speaks_modern(talk);

    if (*cursor || modern) {
        tn_jw_object(&p);
        if (*cursor)
            tn_jw_kstr(&p, "cursor", *cursor);
        if (modern)
            tn_mcp_put_meta(&p, mcp_meta(asks(talk->client)));
        tn_jw_object_end(&p);
    }
    free(TN_TAKE_PTR(*cursor));
    const struct tn_mcp_call call = {
        .method = "tools/list", .params = tn_buf_str(&params), .deadline = deadline, .cancel = -1};
    if (tn_mcp_call(talk->peer, &call, &answer, err) < 0)
        return -1;
    if (answer.kind == TN_RPC_ERROR && answer.code == TN_RPC_METHOD_NOT_FOUND)
        return 0;
    if (answer.kind == TN_RPC_ERROR) {
        tn_mcp_fail_answer(&answer, err);
        return tn_error_context(err, "tools/list");
    }
    const struct tn_json *tools = tn_json_get(answer.result, "tools");
    for (size_t i = 0, n = tn_json_count(tools); i < n; i++)
        if (tn_json_get_str(tn_json_at(tools, i), "name", NULL) &&
            (!modern || tn_mcp_param_headers_valid(tn_json_at(tools, i))))
            tn_jw_tree(w, tn_json_at(tools, i));
    *cursor = tn_strdup_or_null(tn_json_get_str(answer.result, "nextCursor", NULL));
    return 0;
}

static int list_tools(struct talk *talk, int64_t deadline, struct tn_json **tools,
                      struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(TOOLS_MAX_BYTES);
    tn_autofree char *cursor = NULL;
    struct tn_jw w = tn_jw(&text);

    tn_jw_array(&w);
    for (int pages = 0; pages == 0 || cursor; pages++) {
        tn_autofree char *before = tn_strdup_or_null(cursor);
        if (pages == PAGES_MAX)
            return tn_fail(err, TN_E_TOO_LARGE, "tools/list does not end");
        if (list_page(talk, &w, &cursor, deadline, err) < 0)
            return -1;
        if (before && cursor && strcmp(before, cursor) == 0)
            return tn_fail(err, TN_E_PEER, "tools/list gives the same page again and again");
        if (!tn_buf_ok(&text))
            return tn_fail(err, TN_E_TOO_LARGE, "its tools need more than %zu bytes", text.max);
    }
    tn_jw_array_end(&w);
    return tn_json_parse(tn_buf_str(&text), text.len, tools, err);
}

struct tn_json *mcp_client_tools(struct mcp_client *c)
{
    pthread_mutex_lock(&c->lock);
    struct tn_json *tools = c->tools ? tn_json_copy(c->tools) : NULL;
    pthread_mutex_unlock(&c->lock);
    return tools;
}

/* --- readiness ------------------------------------------------------------------------------ */

/* One at a time; -1 when it is nobody's turn by the deadline, or it is too early to try again. */
static int enter(struct mcp_client *c, int64_t deadline, struct tn_error *err)
{
    struct timespec until = tn_timespec(deadline);
    int late = 0;

    pthread_mutex_lock(&c->lock);
    while (c->busy && !late)
        late = pthread_cond_timedwait(&c->changed, &c->lock, &until);
    int result = 0;
    if (c->busy)
        result = tn_fail(err, TN_E_TIMEOUT, "still connecting");
    else if (tn_now() < c->not_before)
        result = -1;
    if (result < 0 && !c->busy && err)
        *err = c->failure;
    c->busy |= result == 0;
    pthread_mutex_unlock(&c->lock);
    return result;
}

static void leave(struct mcp_client *c, const struct tn_error *failure)
{
    pthread_mutex_lock(&c->lock);
    c->busy = false;
    if (failure) {
        double pause = PAUSE_SECONDS;
        for (int i = 0; i < c->failures && pause < PAUSE_MAX_SECONDS; i++)
            pause *= 2;
        c->failures++;
        c->failure = *failure;
        c->not_before = tn_deadline_in(pause < PAUSE_MAX_SECONDS ? pause : PAUSE_MAX_SECONDS);
    } else {
        c->failures = 0;
        c->not_before = 0;
    }
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

static bool lists(const struct tn_json *tools, const char *name)
{
    for (size_t i = 0, n = tn_json_count(tools); i < n; i++)
        if (strcmp(tn_json_get_str(tn_json_at(tools, i), "name", ""), name) == 0)
            return true;
    return false;
}

static bool same_names(const struct tn_json *a, const struct tn_json *b)
{
    if (tn_json_count(a) != tn_json_count(b))
        return false;
    for (size_t i = 0, n = tn_json_count(a); i < n; i++)
        if (!lists(b, tn_json_get_str(tn_json_at(a, i), "name", "")))
            return false;
    return true;
}

/* Puts the list to the former ones, and returns the oldest of them, or NULL. */
static struct tn_json *remember(struct mcp_client *c)
{
    struct tn_json *oldest = c->former[FORMER_MAX - 1];

    memmove(c->former + 1, c->former, (FORMER_MAX - 1) * sizeof *c->former);
    c->former[0] = c->tools;
    return oldest;
}

bool mcp_client_owns(struct mcp_client *c, const char *name, bool before)
{
    pthread_mutex_lock(&c->lock);
    bool found = lists(c->tools, name);
    for (size_t i = 0; i < FORMER_MAX && before && !found; i++)
        found = lists(c->former[i], name);
    pthread_mutex_unlock(&c->lock);
    return found;
}

/* A list that is asked for while a change is being told is asked for once more next time. */
static int refresh_tools(struct mcp_client *c, struct talk *talk, int64_t deadline,
                         struct tn_error *err)
{
    struct tn_json *tools = NULL;

    pthread_mutex_lock(&c->lock);
    c->stale = false;
    pthread_mutex_unlock(&c->lock);
    if (list_tools(talk, limit(c, deadline, LIST_SECONDS), &tools, err) < 0) {
        mcp_client_stale(c);
        return -1;
    }
    pthread_mutex_lock(&c->lock);
    struct tn_json *dropped = same_names(c->tools, tools) ? c->tools : remember(c);
    c->tools = tools;
    pthread_mutex_unlock(&c->lock);
    tn_json_free(dropped);
    return 0;
}

static bool is_stale(struct mcp_client *c)
{
    pthread_mutex_lock(&c->lock);
    bool stale = c->stale || !c->tools;
    pthread_mutex_unlock(&c->lock);
    return stale;
}

bool mcp_client_is_ready(struct mcp_client *c)
{
    pthread_mutex_lock(&c->lock);
    bool ready = c->talk && !is_over(c->talk) && c->tools && !c->stale;
    pthread_mutex_unlock(&c->lock);
    return ready;
}

static int connect_and_list(struct mcp_client *c, bool refresh, int64_t deadline,
                            struct tn_error *err)
{
    struct talk *talk = join_talk(c);
    bool again = refresh && talk && !talk->tells;

    if (!talk) {
        talk = talk_start(c, deadline, err);
        if (!talk)
            return -1;
        talk->users++;
        set_talk(c, talk);
        again = true;
    }
    int result = again || is_stale(c) ? refresh_tools(c, talk, deadline, err) : 0;
    /* It was gone, and nobody had noticed. */
    bool gone = result < 0 && is_over(talk);
    leave_talk(c, talk);
    return gone && !again ? connect_and_list(c, false, deadline, err) : result;
}

int mcp_client_ready(struct mcp_client *c, bool refresh, int64_t deadline, struct tn_error *err)
{
    struct tn_error why = {0};

    if (enter(c, deadline, err) < 0)
        return -1;
    int result = connect_and_list(c, refresh, deadline, &why);
    leave(c, result < 0 ? &why : NULL);
    if (result < 0 && err)
        *err = why;
    return result;
}

/* --- calls ---------------------------------------------------------------------------------- */

/* One call of a tool, in as many rounds as the server needs. */
struct round {
    const char *tool;
    const struct tn_json *arguments;
    struct tn_rpc *before; /* what the server wants to know first; NULL: nothing yet */
    int64_t deadline;
};

static int put_params(struct mcp_client *c, const struct round *r, bool modern, struct tn_buf *out,
                      struct tn_error *err)
{
    struct tn_jw w = tn_jw(out);
    int result = 0;

    tn_jw_object(&w);
    tn_jw_kstr(&w, "name", r->tool);
    tn_jw_key(&w, "arguments");
    if (r->arguments) {
        tn_jw_tree(&w, r->arguments);
    } else {
        tn_jw_object(&w);
        tn_jw_object_end(&w);
    }
    if (r->before)
        result = mcp_put_inputs(&c->server, r->before->result, r->deadline, &w, err);
    if (modern)
        tn_mcp_put_meta(&w, mcp_meta(asks(c)));
    tn_jw_object_end(&w);
    if (result == 0 && !tn_buf_ok(out))
        return tn_fail(err, TN_E_TOO_LARGE, "the arguments have more than %zu bytes", out->max);
    return result;
}

/* What the headers repeat of the arguments, or NULL; -1 when that cannot be said. */
static int headers_for(struct mcp_client *c, const struct round *r, char ***headers,
                       struct tn_error *err)
{
    int result = 0;

    pthread_mutex_lock(&c->lock);
    for (size_t i = 0, n = tn_json_count(c->tools); i < n && !*headers && result == 0; i++) {
        const struct tn_json *tool = tn_json_at(c->tools, i);
        if (strcmp(tn_json_get_str(tool, "name", ""), r->tool) == 0)
            result = (*headers = tn_mcp_param_headers(tool, r->arguments, err)) ? 0 : -1;
    }
    pthread_mutex_unlock(&c->lock);
    return result;
}

/* The server was not there, or did not know us any more. */
static bool not_begun(const struct tn_error *err)
{
    return err->sys == MCP_FORGOTTEN || err->sys == ECONNREFUSED || err->sys == EHOSTUNREACH ||
           err->sys == ENOENT;
}

static int call_over(struct mcp_client *c, struct talk *talk, const struct round *r,
                     struct tn_rpc *answer, struct tn_error *err)
{
    tn_autobuf struct tn_buf params = TN_BUF_INIT(MCP_MESSAGE_MAX);
    bool modern = speaks_modern(talk);

    char **headers = NULL;

    if (put_params(c, r, modern, &params, err) < 0 ||
        (modern && headers_for(c, r, &headers, err) < 0)) {
        if (err)
            err->sys = MCP_REFUSED; /* nothing was sent */
        return -1;
    }
    const struct tn_mcp_call call = {.method = "tools/call",
                                     .params = tn_buf_str(&params),
                                     .deadline = r->deadline,
                                     .route = headers,
                                     .cancel = -1};
    int result = tn_mcp_call(talk->peer, &call, answer, err);
    tn_mcp_headers_free(headers);
    return result;
}

static int call_once(struct mcp_client *c, const struct round *r, bool *again,
                     struct tn_rpc *answer, struct tn_error *err)
{
    struct talk *talk = join_talk(c);
    struct tn_error why = {0};

    *again = !talk;
    if (!talk)
        return tn_fail(err, TN_E_PEER, "the server is gone");
    int result = call_over(c, talk, r, answer, &why);
    if (result < 0) {
        *again = is_over(talk) && not_begun(&why);
        if (err)
            *err = why;
        if (why.code == TN_E_PEER && !not_begun(&why) && why.sys != MCP_REFUSED)
            tn_error_context(err, "the answer is lost; the call is not repeated, because it may "
                                  "have been carried out");
    }
    leave_talk(c, talk);
    return result;
}

/* One round: sent a second time only when nothing was carried out, because the server was gone or
 * did not know us any more. */
static int call_round(struct mcp_client *c, const struct round *r, struct tn_rpc *answer,
                      struct tn_error *err)
{
    bool again;
    int result = call_once(c, r, &again, answer, err);

    if (result == 0 || !again)
        return result;
    if (mcp_client_ready(c, false, r->deadline, err) < 0)
        return -1;
    return call_once(c, r, &again, answer, err);
}

int mcp_client_call(struct mcp_client *c, const char *tool, const struct tn_json *arguments,
                    int64_t deadline, struct tn_rpc *answer, struct tn_error *err)
{
    tn_autorpc struct tn_rpc before = {0};
    struct round r = {.tool = tool, .arguments = arguments, .deadline = deadline};

    for (int rounds = 0; rounds < TN_MCP_ROUNDS_MAX; rounds++) {
        if (call_round(c, &r, answer, err) < 0)
            return -1;
        if (answer->kind == TN_RPC_ERROR || !tn_mcp_is_input_required(answer->result))
            return 0;
        tn_rpc_done(&before);
        before = *answer;
        *answer = (struct tn_rpc){0};
        r.before = &before;
    }
    return tn_fail(err, TN_E_PEER, "the tool asks and asks, and gives no result");
}
