/* The code interpreter of the toolbox: contexts, each a kernel, and cells over a WebSocket
 * (service/cells.h). */
#include <poll.h>
#include <sys/epoll.h>

#include "net/websocket.h"
#include "service/cells.h"
#include "service/clock.h"
#include "service/daytona/daytona.h"
#include "service/openhands.h"

#define SEND_SECONDS 30.0
#define USUAL_SECONDS 600.0
#define MOST_SECONDS 86400.0
enum { MESSAGE_MAX = 4 << 20, CLOSE_LATE = 4008, CLOSE_FAILED = 1011 };

static struct cells cells_of(const struct daytona_call *c)
{
    return (struct cells){.x = c->x, .b = c->b, .prefix = "daytona-"};
}

/* --- contexts -------------------------------------------------------------------------------- */

static void put_context(const char *id, const char *cwd, double age, void *ctx)
{
    struct tn_jw *w = ctx;

    tn_jw_object(w);
    tn_jw_kstr(w, "id", id);
    tn_jw_kstr(w, "cwd", cwd);
    tn_jw_kstr(w, "language", "python");
    tn_jw_kbool(w, "active", true);
    openhands_put_time(w, "createdAt", service_time() - age);
    tn_jw_object_end(w);
}

static void post_context(struct daytona_call *c)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(64 << 10);
    const struct cells cells = cells_of(c);
    tn_autojson struct tn_json *body = NULL;
    char id[CELLS_ID];
    struct tn_jw w = tn_jw(&json);
    struct tn_error err = {0};

    if (surface_body(c->x, DAYTONA_BODY_MAX, &body))
        return;
    tn_autofree char *cwd = surface_path(c->home, tn_json_get_str(body, "cwd", NULL));
    if (cells_make_context(&cells, cwd, id, &err)) {
        reply_error(c->x, &err);
        return;
    }
    put_context(id, cwd, 0, &w);
    tn_http_reply_json(c->x, 200, &json);
}

static void get_contexts(struct daytona_call *c)
{
    tn_autobuf struct tn_buf json = ANSWER_BUF(c->x, DAYTONA_ANSWER_MAX);
    const struct cells cells = cells_of(c);
    struct tn_jw w = tn_jw(&json);
    struct tn_error err = {0};

    tn_jw_object(&w);
    tn_jw_key(&w, "contexts");
    tn_jw_array(&w);
    if (cells_each_context(&cells, put_context, &w, &err)) {
        reply_error(c->x, &err);
        return;
    }
    tn_jw_array_end(&w);
    tn_jw_object_end(&w);
    tn_http_reply_json(c->x, 200, &json);
}

static void delete_context(struct daytona_call *c)
{
    static const char deleted[] = "{\"message\":\"deleted\"}";
    const struct cells cells = cells_of(c);
    struct tn_error err = {0};

    if (cells_is_usual(c->words[0]))
        daytona_fail(c->x, 400, NULL, "the default context cannot be deleted");
    else if (cells_end_context(&cells, c->words[0], false, &err))
        reply_error(c->x, &err);
    else
        tn_http_reply(c->x, 200, "application/json", deleted, sizeof deleted - 1);
}

/* --- cells ----------------------------------------------------------------------------------- */

struct talk {
    struct tn_ws ws;
    bool gone;
};

static void send_event(const char *type, const char *json, size_t n, void *ctx)
{
    struct talk *t = ctx;

    t->gone = t->gone || tn_ws_send(&t->ws, TN_WS_TEXT, json, n, tn_deadline_in(SEND_SECONDS)) < 0;
}

/* Answers the client's pings, and sees it go. */
static bool stays(void *ctx)
{
    struct talk *t = ctx;
    tn_autobuf struct tn_buf message = TN_BUF_INIT(MESSAGE_MAX);

    while (!t->gone && (tn_ws_buffered(&t->ws) ||
                        poll(&(struct pollfd){.fd = t->ws.fd, .events = POLLIN}, 1, 0) > 0)) {
        int kind = tn_ws_recv(&t->ws, &message, tn_now(), NULL);
        tn_buf_reset(&message);
        t->gone = kind < 0 || kind == TN_WS_CLOSE;
        if (kind == 0)
            break;
    }
    return !t->gone;
}

static int carry_out(struct daytona_call *c, struct talk *t, const struct tn_json *message,
                     struct tn_json **observation, struct tn_error *err)
{
    const struct cells cells = cells_of(c);
    double seconds = tn_json_double(tn_json_get(message, "timeout"), USUAL_SECONDS);
    char kernel[CELLS_KERNEL];
    const struct cells_wish wish = {
        .code = tn_json_get_str(message, "code", NULL),
        .kernel = kernel,
        .env = tn_json_get(message, "envs"),
        .seconds = seconds > 0 && seconds < MOST_SECONDS ? seconds : MOST_SECONDS};
    const struct cells_listener listener = {
        .event = send_event, .stays = stays, .stirs = EPOLLIN | EPOLLRDHUP, .ctx = t};

    if (!wish.code)
        return tn_fail(err, TN_E_INVALID, "code: expected a cell");
    return cells_find_context(&cells, tn_json_get_str(message, "contextId", NULL), kernel, NULL,
                              err) ||
                   cells_follow(&cells, &wish, &listener, observation, err)
               ? -1
               : 0;
}

static void converse(struct daytona_call *c, struct talk *t)
{
    static const char completed[] = "{\"type\":\"control\",\"text\":\"completed\"}";
    tn_autobuf struct tn_buf text = ANSWER_BUF(c->x, MESSAGE_MAX);
    tn_autojson struct tn_json *message = NULL, *observation = NULL;
    struct tn_error err = {0};

    if (tn_ws_recv(&t->ws, &text, tn_deadline_in(DAYTONA_SECONDS), NULL) != TN_WS_TEXT)
        return;
    if (hold_json(c->x, &text, &message, &err) || carry_out(c, t, message, &observation, &err)) {
        tn_ws_close(&t->ws, CLOSE_FAILED, err.text);
    } else if (cells_was_late(observation)) {
        tn_ws_close(&t->ws, CLOSE_LATE, "");
    } else {
        send_event("control", completed, sizeof completed - 1, t);
        tn_ws_close(&t->ws, 1000, "");
    }
}

static void execute(struct daytona_call *c)
{
    struct talk t = {.gone = false};

    daytona_choose_protocol(c->x);
    if (tn_ws_accept(c->x, &t.ws, MESSAGE_MAX))
        return;
    converse(c, &t);
    tn_ws_done(&t.ws);
}

const struct daytona_row daytona_interpreter_rows[] = {
    {"POST", "process/interpreter/context", post_context, NULL},
    {"GET", "process/interpreter/context", get_contexts, NULL},
    {"DELETE", "process/interpreter/context/*", delete_context, NULL},
    {"GET", "process/interpreter/execute", execute, NULL},
    {0},
};
