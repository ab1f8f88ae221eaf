/* Files of devboxes. */
#include "service/runloop/runloop.h"
#include "service/upload.h"

enum { TEXT_MAX = 16 << 20 };

/* --- the hand -------------------------------------------------------------------------------- */

static char *home_of(struct box *b)
{
    autoview struct box_view v;

    box_look(b, &v);
    const char *where = tn_json_get_str(v.spec.env, "HOME", v.spec.workspace);
    return tn_strdup(where && *where == '/' ? where : "/workspace");
}

struct tn_hand_files *runloop_files(const struct tn_http_exchange *x, struct box *b, char **home,
                                    struct tn_error *err)
{
    *home = home_of(b);
    return surface_files(x, b, err);
}

/* --- routes ---------------------------------------------------------------------------------- */

/* What writing a file answers: as if it were a command. */
static void post_write(struct tn_http_exchange *x, void *ctx)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(4096);
    tn_autojson struct tn_json *body = NULL;
    tn_autofree char *home = NULL;
    struct tn_jw w = tn_jw(&json);
    struct tn_error err = {0};
    size_t n = 0;

    autobox struct box *b = runloop_running(x, ctx);
    if (!b || surface_body(x, TEXT_MAX, &body))
        return;
    const char *given = tn_json_get_str(body, "file_path", NULL),
               *text = tn_json_str(tn_json_get(body, "contents"), &n);
    if (!given || !*given || !text) {
        native_refuse(x, TN_E_INVALID, "expected file_path and contents");
        return;
    }
    tn_autofiles struct tn_hand_files *f = runloop_files(x, b, &home, &err);
    tn_autofree char *path = surface_path(home, given);
    if (!f || tn_hand_files_put(f, path, text, n, TN_NEVER, &err)) {
        reply_error(x, &err);
        return;
    }
    tn_jw_object(&w);
    tn_jw_kstr(&w, "devbox_id", box_id(b));
    tn_jw_kint(&w, "exit_status", 0);
    tn_jw_kstr(&w, "stdout", "");
    tn_jw_kstr(&w, "stderr", "");
    tn_jw_object_end(&w);
    tn_http_reply_json(x, 200, &json);
}

struct answer {
    struct tn_http_exchange *x;
    const char *type;
    bool started;
};

static int start(struct answer *a)
{
    if (a->started)
        return 0;
    a->started = true;
    tn_http_set_header(a->x, "Content-Security-Policy", "sandbox");
    tn_http_set_header(a->x, "X-Content-Type-Options", "nosniff");
    return tn_http_start(a->x, 200, a->type, -1);
}

static int send_piece(const void *bytes, size_t n, void *ctx, struct tn_error *err)
{
    struct answer *a = ctx;

    return start(a) || tn_http_write(a->x, bytes, n) ? tn_fail(err, TN_E_GONE, "nobody reads it")
                                                     : 0;
}

/* An answer that cannot be finished is cut. */
static void send_file(struct tn_http_exchange *x, struct tn_service *s, const char *member,
                      const char *type)
{
    tn_autojson struct tn_json *body = NULL;
    tn_autofree char *home = NULL;
    struct answer a = {.x = x, .type = type};
    struct tn_error err = {0};

    autobox struct box *b = runloop_running(x, s);
    if (!b || surface_body(x, RUNLOOP_BODY_MAX, &body))
        return;
    const char *given = tn_json_get_str(body, member, NULL);
    if (!given || !*given) {
        native_refuse(x, TN_E_INVALID, "%s: expected a path", member);
        return;
    }
    tn_autofiles struct tn_hand_files *f = runloop_files(x, b, &home, &err);
    tn_autofree char *path = surface_path(home, given);
    box_enter_use(b);
    bool good = f && tn_hand_files_fetch(f, path, send_piece, &a, TN_NEVER, &err) >= 0;
    box_leave_use(b);
    if (!good && !a.started)
        reply_error(x, &err);
    else if (!good)
        tn_http_abort(x);
    else if (start(&a) == 0)
        tn_http_end(x);
}

static void post_read(struct tn_http_exchange *x, void *ctx)
{
    send_file(x, ctx, "file_path", "text/plain; charset=utf-8");
}

static void post_download(struct tn_http_exchange *x, void *ctx)
{
    send_file(x, ctx, "path", "application/octet-stream");
}

/* --- uploads --------------------------------------------------------------------------------- */

static void post_upload(struct tn_http_exchange *x, void *ctx)
{
    tn_autofree char *home = NULL;
    struct tn_error err = {0};

    autobox struct box *b = runloop_running(x, ctx);
    if (!b)
        return;
    home = home_of(b);
    if (upload_form(x, b, home, "path", NULL, &err))
        reply_error(x, &err);
    else
        runloop_reply_nothing(x);
}

#define BOX "/v1/devboxes/{id}"
const struct tn_route routes_runloop_files[] = {
    {"POST", BOX "/write_file_contents", post_write, "Runloop: writes a file of text", 0},
    {"POST", BOX "/read_file_contents", post_read, "Runloop: a file of text", 0},
    {"POST", BOX "/upload_file", post_upload, "Runloop: stores a file", 0},
    {"POST", BOX "/download_file", post_download, "Runloop: a file", 0},
    {0},
};
