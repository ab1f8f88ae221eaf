/* The code interpreter of the toolbox: contexts, each a kernel, and cells over a WebSocket.
 *
 * A context that a client made is a link in the sandbox, to the directory that it began in.  A cell
 * may take long, and clients want their pings answered meanwhile: it is carried out by a thread of
 * its own. */
#include <poll.h>
#include <sys/eventfd.h>

#include "base/thread.h"
#include "net/websocket.h"
#include "service/cells.h"
#include "service/clock.h"
#include "service/daytona/daytona.h"
#include "service/openhands.h"
#include "service/proxy.h"

#define CONTEXTS "/tmp/.daytona-contexts"
#define SEND_SECONDS 30.0
#define USUAL_SECONDS 600.0
#define MOST_SECONDS 86400.0
enum { MESSAGE_MAX = 4 << 20, KERNEL_SIZE = 32, CLOSE_LATE = 4008, CLOSE_FAILED = 1011 };

static char *link_of(const char *id)
{
    return tn_asprintf(CONTEXTS "/%s", id);
}

static void kernel_of(const char *id, char out[KERNEL_SIZE])
{
    snprintf(out, KERNEL_SIZE, "daytona-%s", id);
}

/* --- contexts -------------------------------------------------------------------------------- */

static void put_context(struct tn_jw *w, const char *id, const char *cwd, double made)
{
    tn_jw_object(w);
    tn_jw_kstr(w, "id", id);
    tn_jw_kstr(w, "cwd", cwd);
    tn_jw_kstr(w, "language", "python");
    tn_jw_kbool(w, "active", true);
    openhands_put_time(w, "createdAt", made);
    tn_jw_object_end(w);
}

static void post_context(struct daytona_call *c)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(64 << 10), code = TN_BUF_INIT(64 << 10);
    tn_autojson struct tn_json *body = NULL, *observation = NULL;
    char id[CELLS_ID], kernel[KERNEL_SIZE];
    struct tn_jw w = tn_jw(&code);
    struct tn_error err = {0};

    if (surface_body(c->x, DAYTONA_BODY_MAX, &body))
        return;
    tn_autofree char *cwd = surface_path(c->home, tn_json_get_str(body, "cwd", NULL));
    tn_autofiles struct tn_hand_files *f = daytona_files(c);
    if (!f)
        return;
    tn_buf_puts(&code, "%cd -q ");
    tn_jw_str(&w, cwd);
    struct cells_wish wish = {.code = tn_buf_str(&code),
                              .kernel = kernel,
                              .seconds = DAYTONA_SECONDS,
                              .watch = tn_http_fd(c->x)};
    int64_t soon = tn_deadline_in(2 * DAYTONA_SECONDS);
    int failed = cells_new_id(id, &err);
    if (!failed) {
        tn_autofree char *path = link_of(id);
        kernel_of(id, kernel);
        failed = cells_run(c->x, c->b, &wish, &observation, &err) ||
                 tn_hand_files_mkdir(f, CONTEXTS, 0700, soon, &err) ||
                 tn_hand_files_symlink(f, path, cwd, soon, &err);
    }
    w = tn_jw(&json);
    put_context(&w, id, cwd, service_time());
    if (failed)
        reply_error(c->x, &err);
    else
        tn_http_reply_json(c->x, 200, &json);
}

static int list_context(const struct tn_entry *e, void *w, struct tn_error *err)
{
    if (e->type == TN_ENTRY_SYMLINK && cells_is_id(e->name) && e->target)
        put_context(w, e->name, e->target, e->mtime);
    return 0;
}

static void get_contexts(struct daytona_call *c)
{
    tn_autobuf struct tn_buf json = ANSWER_BUF(c->x, DAYTONA_ANSWER_MAX);
    struct tn_jw w = tn_jw(&json);
    struct tn_error err = {0};

    tn_autofiles struct tn_hand_files *f = daytona_files(c);
    if (!f)
        return;
    tn_jw_object(&w);
    tn_jw_key(&w, "contexts");
    tn_jw_array(&w);
    if (tn_hand_files_list(f, CONTEXTS, list_context, &w, tn_deadline_in(DAYTONA_SECONDS), &err) &&
        err.code != TN_E_NOT_FOUND) {
        reply_error(c->x, &err);
        return;
    }
    tn_jw_array_end(&w);
    tn_jw_object_end(&w);
    tn_http_reply_json(c->x, 200, &json);
}

/* Whether a client has made it; NULL and "default": the one that is always there. */
static int find_context(struct tn_hand_files *f, const char *id, struct tn_error *err)
{
    tn_autoentry struct tn_entry e = {0};
    tn_autofree char *path = id ? link_of(id) : NULL;

    if (!id || strcmp(id, "default") == 0)
        return 0;
    if (cells_is_id(id) &&
        tn_hand_files_stat(f, path, false, &e, tn_deadline_in(DAYTONA_SECONDS), NULL) == 0)
        return 0;
    return tn_fail(err, TN_E_NOT_FOUND, "Context %.40s not found", id);
}

/* Its kernel ends by its own hand. */
static void delete_context(struct daytona_call *c)
{
    tn_autojson struct tn_json *observation = NULL;
    const char *id = c->words[0];
    char kernel[KERNEL_SIZE];
    struct tn_error err = {0};

    tn_autofiles struct tn_hand_files *f = daytona_files(c);
    if (!f)
        return;
    if (strcmp(id, "default") == 0) {
        daytona_fail(c->x, 400, NULL, "the default context cannot be deleted");
        return;
    }
    tn_autofree char *path = link_of(id);
    kernel_of(id, kernel);
    const struct cells_wish wish = {.code = "import os; os._exit(0)",
                                    .kernel = kernel,
                                    .seconds = DAYTONA_SECONDS,
                                    .watch = tn_http_fd(c->x)};
    if (find_context(f, id, &err) ||
        tn_hand_files_remove(f, path, false, tn_deadline_in(DAYTONA_SECONDS), &err) ||
        cells_run(c->x, c->b, &wish, &observation, &err))
        reply_error(c->x, &err);
    else
        tn_http_reply(c->x, 200, "application/json", "{\"message\":\"deleted\"}", 21);
}

/* --- cells ----------------------------------------------------------------------------------- */

struct cell {
    struct daytona_call *c;
    struct tn_ws ws;
    struct cells_wish wish;
    int over, gone; /* of the thread: it is done; of us: nobody waits */
    int failed;
    struct tn_json *observation;
    struct tn_error err;
};

static void raise_flag(int fd)
{
    (void)!write(fd, &(uint64_t){1}, sizeof(uint64_t));
}

static void *run_cell(void *ctx)
{
    struct cell *cell = ctx;

    cell->failed = cells_run(cell->c->x, cell->c->b, &cell->wish, &cell->observation, &cell->err);
    raise_flag(cell->over);
    return NULL;
}

/* Answers the client's pings until the thread is done; one that goes away stops it. */
static void attend(struct cell *cell)
{
    struct pollfd fds[2] = {{.fd = cell->over, .events = POLLIN},
                            {.fd = cell->ws.fd, .events = POLLIN}};
    tn_autobuf struct tn_buf message = TN_BUF_INIT(MESSAGE_MAX);

    while (poll(fds, 2, -1) < 0 || !fds[0].revents) {
        if (!fds[1].revents)
            continue;
        int kind = tn_ws_recv(&cell->ws, &message, tn_now(), NULL);
        tn_buf_reset(&message);
        if (kind >= 0 && kind != TN_WS_CLOSE)
            continue;
        raise_flag(cell->gone);
        fds[1].fd = -1;
    }
}

static void send_event(const char *type, const char *json, size_t n, void *ctx)
{
    struct cell *cell = ctx;

    tn_ws_send(&cell->ws, TN_WS_TEXT, json, n, tn_deadline_in(SEND_SECONDS));
}

/* The wish of the first message; -1 with err. */
static int read_wish(struct cell *cell, const struct tn_json *message, char kernel[KERNEL_SIZE],
                     struct tn_error *err)
{
    const char *context = tn_json_get_str(message, "contextId", NULL);
    double seconds = tn_json_double(tn_json_get(message, "timeout"), USUAL_SECONDS);

    cell->wish.code = tn_json_get_str(message, "code", NULL);
    cell->wish.kernel = kernel;
    cell->wish.seconds = seconds > 0 && seconds < MOST_SECONDS ? seconds : MOST_SECONDS;
    cell->wish.watch = cell->gone;
    if (!cell->wish.code)
        return tn_fail(err, TN_E_INVALID, "code: expected a cell");
    cell->wish.env = tn_json_get(message, "envs");
    tn_autofiles struct tn_hand_files *f = surface_files(cell->c->x, cell->c->b, err);
    if (!f || find_context(f, context, err))
        return -1;
    kernel_of(context ? context : "default", kernel);
    return 0;
}

static void converse(struct cell *cell)
{
    static const char completed[] = "{\"type\":\"control\",\"text\":\"completed\"}";
    tn_autobuf struct tn_buf text = ANSWER_BUF(cell->c->x, MESSAGE_MAX);
    tn_autojson struct tn_json *message = NULL;
    char kernel[KERNEL_SIZE];
    pthread_t thread;

    if (tn_ws_recv(&cell->ws, &text, tn_deadline_in(DAYTONA_SECONDS), NULL) != TN_WS_TEXT)
        return;
    cell->failed = hold_json(cell->c->x, &text, &message, &cell->err) ||
                   read_wish(cell, message, kernel, &cell->err);
    if (!cell->failed && tn_thread_start(&thread, run_cell, cell))
        cell->failed = tn_fail(&cell->err, TN_E_BUSY, "no thread for it just now; try again");
    else if (!cell->failed) {
        attend(cell);
        pthread_join(thread, NULL);
    }
    if (cell->failed) {
        tn_ws_close(&cell->ws, CLOSE_FAILED, cell->err.text);
        return;
    }
    cells_each_event(cell->observation, send_event, cell);
    if (cells_was_late(cell->observation)) {
        tn_ws_close(&cell->ws, CLOSE_LATE, "");
        return;
    }
    send_event("control", completed, sizeof completed - 1, cell);
    tn_ws_close(&cell->ws, 1000, "");
}

static void execute(struct daytona_call *c)
{
    tn_autofd int over = eventfd(0, EFD_CLOEXEC), gone = eventfd(0, EFD_CLOEXEC);
    struct cell cell = {.c = c, .over = over, .gone = gone};

    if (over < 0 || gone < 0) {
        daytona_fail(c->x, 503, NULL, "no descriptor for it just now; try again");
        return;
    }
    daytona_choose_protocol(c->x);
    if (tn_ws_accept(c->x, &cell.ws, MESSAGE_MAX))
        return;
    converse(&cell);
    tn_ws_done(&cell.ws);
    tn_json_free(cell.observation);
}

const struct daytona_row daytona_interpreter_rows[] = {
    {"POST", "process/interpreter/context", post_context, NULL},
    {"GET", "process/interpreter/context", get_contexts, NULL},
    {"DELETE", "process/interpreter/context/*", delete_context, NULL},
    {"GET", "process/interpreter/execute", execute, NULL},
    {0},
};
