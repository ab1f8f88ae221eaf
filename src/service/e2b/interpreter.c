/* The code interpreter: cells of Python on port 49999 (service/cells.h).
 *
 * The request's thread follows what a cell prints (/v1/cells of the hand) while another one waits
 * for the observation.  A context is a session of the hand: a kernel of its name begins in its
 * directory and ends with it. */
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/thread.h"
#include "runtime/hand-address.h"
#include "runtime/hand-answer.h"
#include "service/cells.h"
#include "service/e2b/e2b.h"
#include "service/proxy.h"

enum {
    CODE_MAX = 4 << 20,
    NAME_SIZE = 64,
    LINE_MAX_BYTES = 32 << 20,
    LIVE_WAIT = 20, /* seconds that the hand may keep a question for more */
    AGAIN_MS = 200,
    SESSIONS_MAX = 4 << 20,
};
static const char prefix[] = "e2b-", usual[] = "default";
/* Clients give up by themselves, and the cell with them. */
#define CELL_SECONDS 3600.0

/* Where it is, in the call. */
static int find_hand(struct e2b_call *c, struct tn_error *err)
{
    return c->address ? 0 : box_hand(c->b, &c->address, &c->key, tn_deadline_in(E2B_SECONDS), err);
}

/* "e2b-NAME", the kernel of a context; NULL: of the one that is always there.  -1: answered. */
static int kernel_of(struct e2b_call *c, const char *context, char out[NAME_SIZE])
{
    if (context && !cells_is_id(context) && strcmp(context, usual) != 0)
        return native_refuse(c->x, TN_E_NOT_FOUND, "Context %.40s not found", context);
    snprintf(out, NAME_SIZE, "%s%s", prefix, context ? context : usual);
    return 0;
}

/* --- what came of it ------------------------------------------------------------------------- */

/* Tells the client of events, as they come. */
struct teller {
    struct tn_http_exchange *x;
    struct tn_buf line;
    bool begun, counted, gone; /* it has answered; the cell has said its last; so has the client */
};

static void send(struct teller *t, const char *bytes, size_t n)
{
    if (!t->begun && tn_http_start(t->x, 200, "application/x-ndjson", -1) < 0)
        t->gone = true;
    t->begun = true;
    if (!t->gone && tn_http_write(t->x, bytes, n) < 0)
        t->gone = true;
}

static void tell_event(const char *type, const char *json, size_t n, void *ctx)
{
    struct teller *t = ctx;
    tn_autobuf struct tn_buf out = {.max = n + 1, .purse = t->line.purse};

    t->counted = strcmp(type, "number_of_executions") == 0;
    tn_buf_add(&out, json, n);
    tn_buf_putc(&out, '\n');
    send(t, tn_buf_str(&out), out.len);
}

/* The next bytes of what it prints. */
static void tell(struct teller *t, const char *bytes, size_t n)
{
    const char *end;

    tn_buf_add(&t->line, bytes, n);
    while (t->line.len && (end = memchr(t->line.data, '\n', t->line.len))) {
        size_t length = (size_t)(end - t->line.data);
        cells_line(t->line.data, length, tell_event, t);
        tn_buf_eat(&t->line, length + 1);
    }
    if (!tn_buf_ok(&t->line)) /* a line without an end */
        tn_buf_reset(&t->line);
}

/* A cell that did not come to its end: the last line of its observation says why. */
static void tell_failure(struct teller *t, const char *content)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(64 << 10);
    struct tn_jw w = tn_jw(&out);
    const char *last = strrchr(content, '\n');
    tn_autofree char *text = tn_strndup(last ? last + 1 : content, 4096);

    tn_jw_object(&w);
    tn_jw_kstr(&w, "type", "error");
    tn_jw_kstr(&w, "name", "ExecutionError");
    tn_jw_kstr(&w, "value", text);
    tn_jw_kstr(&w, "traceback", "");
    tn_jw_object_end(&w);
    tn_buf_putc(&out, '\n');
    send(t, tn_buf_str(&out), out.len);
}

/* --- a cell and who follows it --------------------------------------------------------------- */

/* What the thread that waits for the observation has. */
struct cell {
    struct e2b_call *c;
    struct tn_buf body, out;
    const char *request;
    int ended; /* an eventfd */
    int status;
    struct tn_error err;
};

static void *carry_out(void *arg)
{
    struct cell *cell = arg;
    struct tn_http_exchange *x = cell->c->x;
    const struct act_how how = {.request = cell->request, .watch = tn_http_fd(x)};
    struct act_news news = {0};

    cell->status = act(cell->c->b, caller_of(x), tn_buf_str(&cell->body), cell->body.len, &how,
                       &news, &cell->out, &cell->err);
    eventfd_write(cell->ended, 1);
    return NULL;
}

/* Asks the hand for what the cell has printed from *offset on; false: that was all, or it does not
 * say. */
static bool hear(struct tn_http_client *hand, const char *request, uint64_t *offset, int wait,
                 struct teller *t)
{
    tn_autobuf struct tn_buf text = {.max = LINE_MAX_BYTES, .purse = t->line.purse};
    char target[160];

    snprintf(target, sizeof target, "/v1/cells/%s/output?offset=%llu&wait=%d", request,
             (unsigned long long)*offset, wait);
    const struct tn_http_call call = {.target = target,
                                      .deadline = tn_deadline_in(wait + E2B_SECONDS)};
    if (tn_http_client_call(hand, &call, &text, NULL) != 200)
        return false;
    tell(t, tn_buf_str(&text), text.len);
    *offset += text.len;
    const char *finished = tn_http_client_answer(hand, "X-Output-Finished");
    return (wait || text.len) && !(finished && strcmp(finished, "true") == 0);
}

/* Readable when the cell has ended, or the client has gone. */
static int either(const struct cell *cell)
{
    struct epoll_event ended = {.events = EPOLLIN}, gone = {.events = EPOLLRDHUP};
    tn_autofd int fd = epoll_create1(EPOLL_CLOEXEC);

    return epoll_ctl(fd, EPOLL_CTL_ADD, cell->ended, &ended) ||
                   epoll_ctl(fd, EPOLL_CTL_ADD, tn_http_fd(cell->c->x), &gone)
               ? -1
               : TN_TAKE_FD(fd);
}

/* Until it has ended, whatever it is at: on its way to the hand, in line there, or running. */
static void give_up_cell(const struct cell *cell, struct tn_http_client *hand)
{
    struct pollfd ended = {.fd = cell->ended, .events = POLLIN};
    char target[128];

    snprintf(target, sizeof target, "/v1/cells/%s", cell->request);
    while (poll(&ended, 1, 0) == 0) {
        const struct tn_http_call call = {
            .method = "DELETE", .target = target, .deadline = tn_deadline_in(E2B_SECONDS)};
        tn_http_client_call(hand, &call, NULL, NULL);
        poll(&ended, 1, AGAIN_MS);
    }
}

static int start_and_follow(struct cell *cell, struct tn_http_client *hand, struct teller *t)
{
    tn_autofd int over = either(cell);
    uint64_t offset = 0;
    pthread_t thread;

    hear(hand, cell->request, &offset, 0, t); /* so that the hand keeps it */
    if (over < 0 || tn_thread_start(&thread, carry_out, cell))
        return tn_fail(&cell->err, TN_E_BUSY, "no thread or descriptor for the cell");
    tn_http_client_cancel_by(hand, over);
    while (!t->gone && hear(hand, cell->request, &offset, LIVE_WAIT, t))
        ;
    tn_http_client_cancel_by(hand, -1);
    t->gone = t->gone || poll(&(struct pollfd){.fd = tn_http_fd(t->x), .events = POLLRDHUP}, 1, 0);
    if (t->gone)
        give_up_cell(cell, hand);
    pthread_join(thread, NULL);
    while (!t->gone && hear(hand, cell->request, &offset, 0, t)) /* what came with its end */
        ;
    if (t->line.len)
        tell(t, "\n", 1);
    return 0;
}

/* Says how it ended, to a client that may have heard of it already. */
static void conclude(struct cell *cell, struct teller *t)
{
    struct tn_http_exchange *x = cell->c->x;
    tn_autojson struct tn_json *observation = NULL;
    struct tn_error err = cell->err;

    if (cell->status == 200)
        hold_json(x, &cell->out, &observation, &err);
    else if (cell->status >= 0)
        tn_fail(&err, cell->status == ACT_WAITS ? TN_E_CONFLICT : TN_E_INVALID, "%s",
                cell->status == ACT_WAITS ? "this code waits for somebody's confirmation"
                                          : "the code could not be run");
    const char *content = tn_json_get_str(observation, "content", err.text);
    bool failed =
        !observation || strcmp(tn_json_get_str(observation, "observation", ""), "error") == 0;
    if (failed && !t->begun) {
        tn_fail(&err, err.code ? err.code : TN_E_INVALID, "%.400s", content);
        reply_error(x, &err);
        return;
    }
    if (!t->begun) { /* a hand that lets nobody follow, or nothing was printed */
        tell(t, content, strlen(content));
        tell(t, "\n", 1);
    }
    if (failed || !t->counted)
        tell_failure(t, content);
    static const char end[] = "{\"type\":\"end_of_execution\"}\n";
    send(t, end, sizeof end - 1);
    if (!t->gone)
        tn_http_end(x);
}

static void run_cell(struct e2b_call *c, const struct tn_json *body, const char *kernel)
{
    const struct cells_wish wish = {.code = tn_json_get_str(body, "code", ""),
                                    .kernel = kernel,
                                    .env = tn_json_get(body, "env_vars"),
                                    .seconds = CELL_SECONDS,
                                    .charts = true};
    struct teller t = {.x = c->x, .line = ANSWER_BUF(c->x, LINE_MAX_BYTES)};
    struct cell cell = {.c = c,
                        .body = ANSWER_BUF(c->x, ACTION_MAX),
                        .out = ANSWER_BUF(c->x, OBSERVATION_MAX),
                        .request = request_id(c->x),
                        .ended = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
                        .status = -1};
    struct tn_http_client *hand = NULL;

    cells_put_action(&cell.body, &wish);
    if (find_hand(c, &cell.err) == 0)
        hand = tn_hand_http(c->address, c->key, &cell.err);
    if (hand)
        start_and_follow(&cell, hand, &t);
    conclude(&cell, &t);
    tn_http_client_free(hand);
    tn_buf_done(&cell.body);
    tn_buf_done(&cell.out);
    tn_buf_done(&t.line);
    if (cell.ended >= 0)
        close(cell.ended);
}

/* --- contexts -------------------------------------------------------------------------------- */

/* One question to the hand about its sessions; cwd NULL: no body. */
static int ask(struct e2b_call *c, const char *method, const char *kernel, const char *cwd,
               struct tn_json **out, struct tn_error *err)
{
    tn_autobuf struct tn_buf body = TN_BUF_INIT(64 << 10), answer = ANSWER_BUF(c->x, SESSIONS_MAX);
    bool post = strcmp(method, "POST") == 0;
    tn_autofree char *target =
        tn_asprintf("/v1/sessions%s%s", post || !kernel ? "" : "/", post || !kernel ? "" : kernel);
    struct tn_jw w = tn_jw(&body);

    if (find_hand(c, err))
        return -1;
    if (post) {
        tn_jw_object(&w);
        tn_jw_kstr(&w, "name", kernel);
        if (cwd)
            tn_jw_kstr(&w, "cwd", cwd);
        tn_jw_object_end(&w);
    }
    const struct tn_hand_address at = {.address = c->address, .key = c->key};
    if (tn_hand_ask(&at, method, target, &body, &answer, tn_deadline_in(E2B_SECONDS), err))
        return -1;
    return out ? hold_json(c->x, &answer, out, err) : 0;
}

static void put_context(struct tn_jw *w, const char *id, const char *cwd)
{
    tn_jw_object(w);
    tn_jw_kstr(w, "id", id);
    tn_jw_kstr(w, "language", "python");
    tn_jw_kstr(w, "cwd", cwd);
    tn_jw_object_end(w);
}

/* The context at the end of the path, and its directory on the heap (NULL: the usual one, which
 * has no session of its own); -1: answered. */
static int find_context(struct e2b_call *c, const char *id, char kernel[NAME_SIZE], char **cwd)
{
    tn_autojson struct tn_json *session = NULL;
    struct tn_error err = {0};

    *cwd = NULL;
    if (kernel_of(c, id, kernel))
        return -1;
    if (!id || strcmp(id, usual) == 0)
        return 0;
    if (ask(c, "GET", kernel, NULL, &session, &err)) {
        if (err.code == TN_E_NOT_FOUND)
            native_refuse(c->x, TN_E_NOT_FOUND, "Context %.40s not found", id);
        else
            reply_error(c->x, &err);
        return -1;
    }
    *cwd = tn_strdup(tn_json_get_str(session, "cwd", c->home));
    return 0;
}

/* --- calls ----------------------------------------------------------------------------------- */

/* Python alone; -1: answered. */
static int check_language(struct e2b_call *c, const struct tn_json *body)
{
    const char *language = tn_json_get_str(body, "language", "python");

    if (strcmp(language, "python") == 0)
        return 0;
    return native_refuse(c->x, TN_E_INVALID, "language: only python is served here, not %.40s",
                         language);
}

void e2b_execute(struct e2b_call *c)
{
    tn_autojson struct tn_json *body = NULL;
    tn_autofree char *cwd = NULL;
    char kernel[NAME_SIZE];

    if (surface_body(c->x, CODE_MAX, &body) || check_language(c, body))
        return;
    if (!tn_json_get_str(body, "code", NULL))
        native_refuse(c->x, TN_E_INVALID, "code: expected a cell");
    else if (find_context(c, tn_json_get_str(body, "context_id", NULL), kernel, &cwd) == 0)
        run_cell(c, body, kernel);
}

void e2b_create_context(struct e2b_call *c)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(64 << 10);
    tn_autojson struct tn_json *body = NULL;
    char id[CELLS_ID], kernel[NAME_SIZE];
    struct tn_jw w = tn_jw(&json);
    struct tn_error err = {0};

    if (surface_body(c->x, E2B_BODY_MAX, &body) || check_language(c, body))
        return;
    tn_autofree char *cwd = e2b_path(c, tn_json_get_str(body, "cwd", NULL));
    if (cells_new_id(id, &err) || kernel_of(c, id, kernel) ||
        ask(c, "POST", kernel, cwd, NULL, &err)) {
        reply_error(c->x, &err);
        return;
    }
    put_context(&w, id, cwd);
    tn_http_reply_json(c->x, 200, &json);
}

void e2b_list_contexts(struct e2b_call *c)
{
    tn_autobuf struct tn_buf json = ANSWER_BUF(c->x, SESSIONS_MAX);
    tn_autojson struct tn_json *all = NULL;
    struct tn_jw w = tn_jw(&json);
    struct tn_error err = {0};

    if (ask(c, "GET", NULL, NULL, &all, &err)) {
        reply_error(c->x, &err);
        return;
    }
    const struct tn_json *sessions = tn_json_get(all, "sessions");
    tn_jw_array(&w);
    put_context(&w, usual, c->home);
    for (size_t i = 0; i < tn_json_count(sessions); i++) {
        const struct tn_json *one = tn_json_at(sessions, i);
        const char *name = tn_json_get_str(one, "name", "");
        if (strncmp(name, prefix, sizeof prefix - 1) == 0 && cells_is_id(name + sizeof prefix - 1))
            put_context(&w, name + sizeof prefix - 1, tn_json_get_str(one, "cwd", ""));
    }
    tn_jw_array_end(&w);
    tn_http_reply_json(c->x, 200, &json);
}

/* Its kernel ends with its session.  The usual context gets one first, and loses it. */
static void end_context(struct e2b_call *c, const char *id, bool again)
{
    tn_autofree char *cwd = NULL;
    char kernel[NAME_SIZE];
    struct tn_error err = {0};

    if (find_context(c, id, kernel, &cwd))
        return;
    if ((!cwd && ask(c, "POST", kernel, NULL, NULL, &err) && err.code != TN_E_CONFLICT) ||
        ask(c, "DELETE", kernel, NULL, NULL, &err) ||
        (cwd && again && ask(c, "POST", kernel, cwd, NULL, &err)))
        reply_error(c->x, &err);
    else
        tn_http_reply(c->x, 204, NULL, NULL, 0);
}

void e2b_remove_context(struct e2b_call *c)
{
    end_context(c, c->id, false);
}

void e2b_restart_context(struct e2b_call *c)
{
    end_context(c, c->id, true);
}
