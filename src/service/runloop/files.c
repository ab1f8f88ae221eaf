/* Files of devboxes. */
#include "net/multipart.h"
#include "service/clock.h"
#include "service/runloop/runloop.h"

enum { TEXT_MAX = 16 << 20, PATH_TEXT_MAX = 4096 };

/* --- the hand -------------------------------------------------------------------------------- */

struct tn_hand_files *runloop_files(const struct tn_http_exchange *x, struct box *b, char **home,
                                    struct tn_error *err)
{
    autoview struct box_view v;

    box_look(b, &v);
    const char *where = tn_json_get_str(v.spec.env, "HOME", v.spec.workspace);
    *home = tn_strdup(where && *where == '/' ? where : "/workspace");
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

static ssize_t read_body(void *ctx, void *to, size_t n, struct tn_error *err)
{
    return tn_http_read(ctx, to, n, err);
}

static ssize_t read_part(void *ctx, void *to, size_t n, struct tn_error *err)
{
    return tn_multipart_read(ctx, to, n, err);
}

struct upload {
    struct tn_hand_files *files;
    const char *home;
    struct tn_buf path; /* as the client says it; "": not yet */
    char *early;        /* where its bytes are that came before their path */
    bool stored;
};

static int read_path(struct upload *u, struct tn_multipart *m, struct tn_error *err)
{
    char *to = tn_buf_reserve(&u->path, PATH_TEXT_MAX);
    ssize_t n;

    while (to && (n = tn_multipart_read(m, to, PATH_TEXT_MAX - u->path.len, err)) > 0) {
        tn_buf_grew(&u->path, (size_t)n);
        to = tn_buf_reserve(&u->path, PATH_TEXT_MAX - u->path.len);
    }
    if (!to || n < 0 || u->path.len == PATH_TEXT_MAX)
        return tn_fail(err, TN_E_INVALID, "path: too long, or cut short");
    return 0;
}

static int take_part(struct upload *u, struct tn_multipart *m, const struct tn_part *part,
                     struct tn_error *err)
{
    if (strcmp(part->name, "path") == 0)
        return read_path(u, m, err);
    if (strcmp(part->name, "file") != 0 || u->stored)
        return 0;
    tn_autofree char *path =
        u->path.len ? surface_path(u->home, tn_buf_str(&u->path))
                    : tn_asprintf("%s/.upload-%lld", u->home, (long long)(service_time() * 1e6));
    u->stored = tn_hand_files_store(u->files, path, read_part, m, -1, -1, TN_NEVER, err) == 0;
    if (u->stored && !u->path.len)
        u->early = TN_TAKE_PTR(path);
    return u->stored ? 0 : -1;
}

/* The path may come after the file: it is stored beside and moved then. */
static int finish(struct upload *u, struct tn_error *err)
{
    int64_t soon = tn_deadline_in(RUNLOOP_SECONDS);

    if (!u->stored || !u->path.len)
        return tn_fail(err, TN_E_INVALID, "expected the parts path and file");
    tn_autofree char *path = surface_path(u->home, tn_buf_str(&u->path));
    return u->early ? tn_hand_files_move(u->files, u->early, path, true, soon, err) : 0;
}

static int store(struct tn_http_exchange *x, struct upload *u, struct tn_error *err)
{
    const struct tn_part *part;
    struct tn_multipart *m = tn_multipart_new(tn_http_header(x, "Content-Type"), read_body, x, err);
    int next = -1, failed = 0;

    while (m && !failed && (next = tn_multipart_next(m, &part, err)) == 1)
        failed = take_part(u, m, part, err);
    tn_multipart_free(m);
    failed = failed || next < 0 || finish(u, err);
    if (failed && u->early)
        tn_hand_files_remove(u->files, u->early, false, tn_deadline_in(RUNLOOP_SECONDS), NULL);
    return failed ? -1 : 0;
}

static void post_upload(struct tn_http_exchange *x, void *ctx)
{
    struct upload u = {.path = TN_BUF_INIT(2 * PATH_TEXT_MAX)};
    tn_autofree char *home = NULL;
    struct tn_error err = {0};

    autobox struct box *b = runloop_running(x, ctx);
    if (!b)
        return;
    tn_autofiles struct tn_hand_files *f = runloop_files(x, b, &home, &err);
    u.files = f;
    u.home = home;
    if (f && store(x, &u, &err) == 0)
        runloop_reply_nothing(x);
    else
        reply_error(x, &err);
    free(u.early);
    tn_buf_done(&u.path);
}

#define BOX "/v1/devboxes/{id}"
const struct tn_route routes_runloop_files[] = {
    {"POST", BOX "/write_file_contents", post_write, "Runloop: writes a file of text", 0},
    {"POST", BOX "/read_file_contents", post_read, "Runloop: a file of text", 0},
    {"POST", BOX "/upload_file", post_upload, "Runloop: stores a file", 0},
    {"POST", BOX "/download_file", post_download, "Runloop: a file", 0},
    {0},
};
