/* The code interpreter: cells of Python on port 49999 (service/cells.h).  What comes of one is told
 * in lines of JSON. */
#include <poll.h>
#include <sys/epoll.h>

#include "service/cells.h"
#include "service/e2b/e2b.h"

enum { CODE_MAX = 4 << 20, SESSIONS_MAX = 4 << 20 };
/* Clients give up by themselves, and the cell with them. */
#define CELL_SECONDS 3600.0

static struct cells cells_of(const struct e2b_call *c)
{
    return (struct cells){.x = c->x, .b = c->b, .prefix = "e2b-"};
}

/* --- what came of it ------------------------------------------------------------------------- */

/* Tells the client of events, as they come. */
struct teller {
    struct tn_http_exchange *x;
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

    t->counted = strcmp(type, "number_of_executions") == 0;
    send(t, json, n);
    send(t, "\n", 1);
}

static bool stays(void *ctx)
{
    struct teller *t = ctx;

    t->gone = t->gone || poll(&(struct pollfd){.fd = tn_http_fd(t->x), .events = POLLRDHUP}, 1, 0);
    return !t->gone;
}

/* A cell that did not come to its end: the last line says why. */
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

static void run_cell(struct e2b_call *c, const struct tn_json *body, const char *kernel)
{
    static const char end[] = "{\"type\":\"end_of_execution\"}\n";
    const struct cells cells = cells_of(c);
    const struct cells_wish wish = {.code = tn_json_get_str(body, "code", ""),
                                    .kernel = kernel,
                                    .env = tn_json_get(body, "env_vars"),
                                    .seconds = CELL_SECONDS,
                                    .charts = true};
    struct teller t = {.x = c->x};
    const struct cells_listener listener = {
        .event = tell_event, .stays = stays, .stirs = EPOLLRDHUP, .ctx = &t};
    tn_autojson struct tn_json *observation = NULL;
    struct tn_error err = {0};

    int failed = cells_follow(&cells, &wish, &listener, &observation, &err);
    if (failed && !t.begun) {
        reply_error(c->x, &err);
        return;
    }
    if (failed || !t.counted)
        tell_failure(&t, failed ? err.text : cells_content(observation));
    send(&t, end, sizeof end - 1);
    if (!t.gone)
        tn_http_end(c->x);
}

/* --- contexts -------------------------------------------------------------------------------- */

static void put_context(struct tn_jw *w, const char *id, const char *cwd)
{
    tn_jw_object(w);
    tn_jw_kstr(w, "id", id);
    tn_jw_kstr(w, "language", "python");
    tn_jw_kstr(w, "cwd", cwd);
    tn_jw_object_end(w);
}

static void list_context(const char *id, const char *cwd, double age, void *w)
{
    put_context(w, id, cwd);
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
    const struct cells cells = cells_of(c);
    tn_autojson struct tn_json *body = NULL;
    char kernel[CELLS_KERNEL];
    struct tn_error err = {0};

    if (surface_body(c->x, CODE_MAX, &body) || check_language(c, body))
        return;
    if (!tn_json_get_str(body, "code", NULL))
        native_refuse(c->x, TN_E_INVALID, "code: expected a cell");
    else if (cells_find_context(&cells, tn_json_get_str(body, "context_id", NULL), kernel, NULL,
                                &err))
        reply_error(c->x, &err);
    else
        run_cell(c, body, kernel);
}

void e2b_create_context(struct e2b_call *c)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(64 << 10);
    const struct cells cells = cells_of(c);
    tn_autojson struct tn_json *body = NULL;
    char id[CELLS_ID];
    struct tn_jw w = tn_jw(&json);
    struct tn_error err = {0};

    if (surface_body(c->x, E2B_BODY_MAX, &body) || check_language(c, body))
        return;
    tn_autofree char *cwd = e2b_path(c, tn_json_get_str(body, "cwd", NULL));
    if (cells_make_context(&cells, cwd, id, &err)) {
        reply_error(c->x, &err);
        return;
    }
    put_context(&w, id, cwd);
    tn_http_reply_json(c->x, 200, &json);
}

void e2b_list_contexts(struct e2b_call *c)
{
    tn_autobuf struct tn_buf json = ANSWER_BUF(c->x, SESSIONS_MAX);
    const struct cells cells = cells_of(c);
    struct tn_jw w = tn_jw(&json);
    struct tn_error err = {0};

    tn_jw_array(&w);
    put_context(&w, cells_usual, c->home);
    if (cells_each_context(&cells, list_context, &w, &err)) {
        reply_error(c->x, &err);
        return;
    }
    tn_jw_array_end(&w);
    tn_http_reply_json(c->x, 200, &json);
}

static void end_context(struct e2b_call *c, bool again)
{
    const struct cells cells = cells_of(c);
    struct tn_error err = {0};

    if (cells_end_context(&cells, c->id, again, &err))
        reply_error(c->x, &err);
    else
        tn_http_reply(c->x, 204, NULL, NULL, 0);
}

void e2b_remove_context(struct e2b_call *c)
{
    end_context(c, false);
}

void e2b_restart_context(struct e2b_call *c)
{
    end_context(c, true);
}
