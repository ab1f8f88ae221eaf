/* Terminals: shells with names of the client's, by a tunnel of their own, PORT-KEY.DOMAIN/pty/NAME,
 * whatever the port.  Its key and token follow from the devbox, and nothing is kept. */
#include <signal.h>
#include <strings.h>

#include "base/secret.h"
#include "service/channel.h"
#include "service/runloop/runloop.h"

#define TAG "runloop-pty:"
#define ROOT "/pty/"
enum { ID = 10, NAME_MAX_BYTES = 48, MOST_CELLS = 1000 };

static void key_of(const struct box_view *v, char out[SURFACE_TUNNEL])
{
    memcpy(out, v->id, ID);
    surface_token(box_service(v->box), "runloop-pty", v->id, out + ID);
}

static void post_tunnel(struct tn_http_exchange *x, void *ctx)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(4096);
    char key[SURFACE_TUNNEL], token[SURFACE_TOKEN];
    struct tn_jw w = tn_jw(&json);
    autoview struct box_view v = {0};
    autobox struct box *b = runloop_running(x, ctx);

    if (!b)
        return;
    box_look(b, &v);
    key_of(&v, key);
    surface_token(ctx, "runloop-pty-auth", v.id, token);
    tn_jw_object(&w);
    tn_jw_kstr(&w, "tunnel_key", key);
    tn_jw_kstr(&w, "auth_token", token);
    tn_jw_object_end(&w);
    tn_http_reply_json(x, 200, &json);
}

/* --- one terminal ---------------------------------------------------------------------------- */

struct terminal {
    struct tn_http_exchange *x;
    struct box *b;
    char name[NAME_MAX_BYTES + 1], tag[NAME_MAX_BYTES + sizeof TAG], which[NAME_MAX_BYTES + 24];
};

/* Whether it runs; -1: answered. */
static int look(struct terminal *t, struct tn_process_status *status)
{
    struct tn_error err = {0};

    if (process_look(t->b, t->which, status, tn_deadline_in(RUNLOOP_SECONDS), &err) == 0)
        return status->running;
    if (err.code == TN_E_NOT_FOUND)
        return 0;
    reply_error(t->x, &err);
    return -1;
}

static bool is_cells(int64_t n)
{
    return n >= 1 && n <= MOST_CELLS;
}

/* Makes it if there is none. */
static void get_terminal(struct terminal *t)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(4096);
    tn_autostatus struct tn_process_status status = {0};
    const char *cols = tn_http_query(t->x, "cols"), *rows = tn_http_query(t->x, "rows");
    int64_t width = cols ? strtoll(cols, NULL, 10) : 0, height = rows ? strtoll(rows, NULL, 10) : 0;
    bool sized = is_cells(width) && is_cells(height);
    const struct runloop_command c = {.text = "exec bash -i",
                                      .tag = t->tag,
                                      .pty = true,
                                      .columns = sized ? width : 80,
                                      .rows = sized ? height : 24};
    struct process_started started;
    struct tn_jw w = tn_jw(&json);
    struct tn_error err = {0};
    int there = look(t, &status);

    if (there < 0)
        return;
    if (there ? sized && process_resize(t->b, t->which, width, height,
                                        tn_deadline_in(RUNLOOP_SECONDS), &err)
              : runloop_start(t->x, t->b, &c, &started, &err)) {
        reply_error(t->x, &err);
        return;
    }
    tn_autofree char *url = tn_asprintf(ROOT "%s/connect", t->name);
    tn_jw_object(&w);
    tn_jw_kstr(&w, "session_name", t->name);
    tn_jw_kstr(&w, "status", "ready");
    tn_jw_kbool(&w, "created", !there);
    tn_jw_kbool(&w, "attached", false);
    tn_jw_kint(&w, "cols", there && !sized ? status.spec.columns : c.columns);
    tn_jw_kint(&w, "rows", there && !sized ? status.spec.rows : c.rows);
    tn_jw_kstr(&w, "connect_url", url);
    tn_jw_object_end(&w);
    tn_http_reply_json(t->x, 200, &json);
}

static void connect_terminal(struct terminal *t)
{
    tn_autostatus struct tn_process_status status = {0};
    struct channel ch = {.x = t->x, .box = t->b, .terminal = true};
    int there = look(t, &status);

    if (there == 0)
        native_refuse(t->x, TN_E_NOT_FOUND, "terminal %s not found", t->name);
    if (there <= 0 || channel_open(&ch))
        return;
    channel_converse(&ch, status.id);
    channel_close(&ch, ch.over ? 1000 : 1001, "");
}

static int signal_of(const char *name)
{
    static const struct {
        const char *name;
        int number;
    } known[] = {{"SIGHUP", SIGHUP},   {"SIGINT", SIGINT},   {"SIGQUIT", SIGQUIT},
                 {"SIGKILL", SIGKILL}, {"SIGUSR1", SIGUSR1}, {"SIGUSR2", SIGUSR2},
                 {"SIGTERM", SIGTERM}, {"SIGCONT", SIGCONT}, {"SIGSTOP", SIGSTOP},
                 {"SIGTSTP", SIGTSTP}, {"SIGALRM", SIGALRM}, {"SIGWINCH", SIGWINCH}};

    for (size_t i = 0; i < TN_COUNT(known); i++)
        if (strcmp(name, known[i].name) == 0)
            return known[i].number;
    return -1;
}

static int control(struct terminal *t, const struct tn_json *body, struct tn_error *err)
{
    const char *action = tn_json_get_str(body, "action", "");
    int64_t cols = tn_json_int(tn_json_get(body, "cols"), 0),
            rows = tn_json_int(tn_json_get(body, "rows"), 0),
            soon = tn_deadline_in(RUNLOOP_SECONDS);
    int number = signal_of(tn_json_get_str(body, "signal", ""));

    if (strcmp(action, "resize") == 0 && is_cells(cols) && is_cells(rows))
        return process_resize(t->b, t->which, cols, rows, soon, err);
    if (strcmp(action, "signal") == 0 && number > 0)
        return process_signal(t->b, t->which, number, soon, err);
    if (strcmp(action, "close") == 0)
        return process_remove(t->b, t->which, soon, err);
    return tn_fail(err, TN_E_INVALID,
                   "expected the action resize with cols and rows, signal with a name, or close");
}

static void post_control(struct terminal *t)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(4096);
    tn_autojson struct tn_json *body = NULL;
    struct tn_jw w = tn_jw(&json);
    struct tn_error err = {0};

    if (surface_body(t->x, RUNLOOP_BODY_MAX, &body))
        return;
    if (control(t, body, &err)) {
        reply_error(t->x, &err);
        return;
    }
    tn_jw_object(&w);
    tn_jw_kstr(&w, "session_name", t->name);
    tn_jw_kstr(&w, "status", "ok");
    tn_jw_object_end(&w);
    tn_http_reply_json(t->x, 200, &json);
}

static const struct {
    const char *method, *rest;
    void (*answer)(struct terminal *t);
} rows[] = {
    {"GET", "", get_terminal},
    {"GET", "/connect", connect_terminal},
    {"POST", "/control", post_control},
};

/* --- traffic --------------------------------------------------------------------------------- */

static bool shows_token(const struct tn_http_exchange *x, const struct box_view *v)
{
    static const char scheme[] = "Bearer ";
    const char *given = tn_http_header(x, "X-Runloop-Tunnel-Authorization");

    return given && strncasecmp(given, scheme, sizeof scheme - 1) == 0 &&
           surface_is_token(box_service(v->box), "runloop-pty-auth", v->id,
                            given + sizeof scheme - 1);
}

static void answer(struct terminal *t)
{
    const char *path = tn_http_path(t->x), *name = path + sizeof ROOT - 1;
    size_t n = strncmp(path, ROOT, sizeof ROOT - 1) == 0 ? strcspn(name, "/") : 0;
    size_t good = n ? strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                   "_-")
                    : 0;

    if (good != n || n > NAME_MAX_BYTES) {
        native_refuse(t->x, TN_E_INVALID,
                      "session_name: expected at most %d letters, digits, '-'"
                      " and '_'",
                      NAME_MAX_BYTES);
        return;
    }
    snprintf(t->name, sizeof t->name, "%.*s", (int)n, name);
    snprintf(t->tag, sizeof t->tag, TAG "%s", t->name);
    snprintf(t->which, sizeof t->which, "tag:" TAG "%s", t->name);
    for (size_t i = 0; n && i < TN_COUNT(rows); i++)
        if (strcmp(name + n, rows[i].rest) == 0 &&
            strcmp(tn_http_method(t->x), rows[i].method) == 0) {
            rows[i].answer(t);
            return;
        }
    native_refuse(t->x, TN_E_NOT_FOUND, "there is nothing by that name");
}

bool runloop_take_pty(struct tn_http_exchange *x, const struct box_view *v, const char *key)
{
    struct terminal t = {.x = x, .b = v->box};
    char wanted[SURFACE_TUNNEL];

    key_of(v, wanted);
    if (runloop_kind_of(v) != RUNLOOP_DEVBOX || !tn_same_secret(key, wanted))
        return false;
    if (!shows_token(x, v))
        reply_unauthorized(x, "The token of this tunnel is missing: "
                              "X-Runloop-Tunnel-Authorization");
    else if (surface_enter(x, v->box, v->key_id))
        answer(&t);
    return true;
}

const struct tn_route routes_runloop_pty[] = {
    {"POST", "/v1/devboxes/{id}/create_pty_tunnel", post_tunnel, "Runloop: a way to terminals", 0},
    {0},
};
