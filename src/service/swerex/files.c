/* Files of a SWE-ReX client: texts, and uploads of files and of directories as zip archives. */
#include "service/surface.h"
#include "service/swerex/swerex.h"
#include "service/upload.h"

/* --- one request --------------------------------------------------------------------------- */

struct desk_of_files {
    struct box *box;
    struct tn_hand_files *files;
};

static void files_done(struct desk_of_files *d)
{
    tn_hand_files_free(d->files);
    box_release(d->box);
}
#define autofiles TN_CLEANUP(files_done)

/* False: answered. */
static bool begin(struct desk_of_files *d, struct tn_http_exchange *x, struct tn_service *s)
{
    struct tn_error err = {0};

    *d = (struct desk_of_files){.box = native_box(x, s, SCOPE_USE)};
    if (d->box && !(d->files = surface_files(x, d->box, &err)))
        reply_error(x, &err);
    return d->files;
}

/* Where work happens. */
static const char *home_of(const struct box_view *v)
{
    return v->spec.workspace ? v->spec.workspace : "/workspace";
}

/* The path of the body: absolute, or below the directory where work happens; the caller's.  NULL:
 * answered. */
static char *where(struct tn_http_exchange *x, struct box *b, const char *given)
{
    autoview struct box_view v = {0};

    if (!given || !*given) {
        rex_raise(x, REX_VALUE, "expected a path");
        return NULL;
    }
    box_look(b, &v);
    return surface_path(home_of(&v), given);
}

/* --- texts ----------------------------------------------------------------------------------- */

static int keep(const void *bytes, size_t n, void *ctx, struct tn_error *err)
{
    return tn_buf_add(ctx, bytes, n)
               ? tn_fail(err, TN_E_TOO_LARGE, "it is larger than %d MB", REX_TEXT_MAX >> 20)
               : 0;
}

static void post_read(struct tn_http_exchange *x, void *ctx)
{
    tn_autobuf struct tn_buf text = ANSWER_BUF(x, REX_TEXT_MAX),
                             json = ANSWER_BUF(x, REX_ANSWER_MAX);
    struct tn_jw w = tn_jw(&json);
    tn_autojson struct tn_json *body = NULL;
    struct tn_error err = {0};
    autofiles struct desk_of_files d;

    if (!begin(&d, x, ctx) || surface_body(x, REX_BODY_MAX, &body))
        return;
    const char *encoding = tn_json_get_str(body, "encoding", "utf-8");
    tn_autofree char *path = where(x, d.box, tn_json_get_str(body, "path", NULL));
    if (!path)
        return;
    if (strcasecmp(encoding, "utf-8") != 0 && strcasecmp(encoding, "utf8") != 0 &&
        strcasecmp(encoding, "ascii") != 0)
        rex_raise(x, "builtins.LookupError", "encoding: expected utf-8, found '%.60s'", encoding);
    else if (tn_hand_files_fetch(d.files, path, keep, &text, TN_NEVER, &err) < 0)
        rex_raise_error(x, &err);
    else {
        tn_jw_object(&w);
        tn_jw_key(&w, "content");
        tn_jw_strn(&w, tn_buf_str(&text), text.len);
        tn_jw_object_end(&w);
        tn_http_reply_json(x, 200, &json);
    }
}

static void post_write(struct tn_http_exchange *x, void *ctx)
{
    tn_autojson struct tn_json *body = NULL;
    struct tn_error err = {0};
    autofiles struct desk_of_files d;
    size_t n = 0;

    if (!begin(&d, x, ctx) || surface_body(x, REX_BODY_MAX, &body))
        return;
    tn_autofree char *path = where(x, d.box, tn_json_get_str(body, "path", NULL));
    if (!path)
        return;
    const char *text = tn_json_str(tn_json_get(body, "content"), &n);
    if (!text)
        rex_raise(x, REX_VALUE, "content: expected a text");
    else if (tn_hand_files_put(d.files, path, text, n, TN_NEVER, &err))
        rex_raise_error(x, &err);
    else
        rex_reply_nothing(x);
}

/* --- uploads --------------------------------------------------------------------------------- */

static void post_upload(struct tn_http_exchange *x, void *ctx)
{
    autobox struct box *b = native_box(x, ctx, SCOPE_USE);
    autoview struct box_view v = {0};
    struct tn_error err = {0};

    if (!b)
        return;
    box_look(b, &v);
    if (upload_form(x, b, home_of(&v), "target_path", "unzip", &err))
        rex_raise_error(x, &err);
    else
        rex_reply_nothing(x);
}

#define ONE "/swerex/{id}"
const struct tn_route routes_swerex_files[] = {
    {"POST", ONE "/read_file", post_read, "SWE-ReX: a file of text", 0},
    {"POST", ONE "/write_file", post_write, "SWE-ReX: writes a file of text", 0},
    {"POST", ONE "/upload", post_upload, "SWE-ReX: stores a file, or a directory", 0},
    {0},
};
