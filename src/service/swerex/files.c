/* Files of a SWE-ReX client: texts, and uploads of files and of directories as zip archives. */
#include "base/clock.h"
#include "net/multipart.h"
#include "net/url.h"
#include "runtime/hand-address.h"
#include "runtime/hand-answer.h"
#include "runtime/hand-files.h"
#include "service/clock.h"
#include "service/surface.h"
#include "service/swerex/swerex.h"

enum { FIELD_MAX = 4096, TARGET_MAX = 16 << 10 };
#define STALL_SECONDS 60.0

/* --- one request --------------------------------------------------------------------------- */

struct desk_of_files {
    struct box *box;
    char *address, *key; /* of the hand */
    struct tn_hand_files *files;
};

static void files_done(struct desk_of_files *d)
{
    tn_hand_files_free(d->files);
    if (d->key)
        explicit_bzero(d->key, strlen(d->key));
    free(d->key);
    free(d->address);
    box_release(d->box);
}
#define autofiles TN_CLEANUP(files_done)

/* False: answered. */
static bool begin(struct desk_of_files *d, struct tn_http_exchange *x, struct tn_service *s)
{
    struct tn_error err = {0};

    *d = (struct desk_of_files){.box = native_box(x, s, SCOPE_USE)};
    if (!d->box)
        return false;
    if (box_hand(d->box, &d->address, &d->key, tn_deadline_in(REX_SECONDS), &err) == 0)
        d->files = tn_hand_files_new(d->address, d->key, &err);
    if (d->files)
        tn_hand_files_hold(d->files, purse_of(x));
    else
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

/* The file comes first, and then where it is to be: it is stored beside and moved, or unpacked. */
struct upload {
    struct desk_of_files *desk;
    const char *home; /* of paths that are not absolute */
    char *early;      /* where it is until then */
    bool stored;
    struct tn_buf target, unzip; /* fields */
};

static ssize_t read_body(void *ctx, void *to, size_t n, struct tn_error *err)
{
    return tn_http_read(ctx, to, n, err);
}

static ssize_t read_part(void *ctx, void *to, size_t n, struct tn_error *err)
{
    return tn_multipart_read(ctx, to, n, err);
}

static int read_field(struct tn_multipart *m, struct tn_buf *out, struct tn_error *err)
{
    char piece[1024];
    ssize_t n;

    while ((n = tn_multipart_read(m, piece, sizeof piece, err)) > 0)
        if (tn_buf_add(out, piece, (size_t)n))
            return tn_fail(err, TN_E_INVALID, "a field is longer than %d bytes", FIELD_MAX);
    return n < 0 ? -1 : 0;
}

static int take_part(struct upload *u, struct tn_multipart *m, const struct tn_part *part,
                     struct tn_error *err)
{
    if (strcmp(part->name, "target_path") == 0)
        return read_field(m, &u->target, err);
    if (strcmp(part->name, "unzip") == 0)
        return read_field(m, &u->unzip, err);
    if (strcmp(part->name, "file") != 0 || u->stored)
        return 0;
    u->stored =
        tn_hand_files_store(u->desk->files, u->early, read_part, m, -1, -1, TN_NEVER, err) == 0;
    return u->stored ? 0 : -1;
}

/* The file again, from the sandbox; NULL with err. */
static struct tn_http_client *open_early(const struct upload *u, struct tn_error *err)
{
    struct tn_http_client *from = tn_hand_http(u->desk->address, u->desk->key, err);
    tn_autobuf struct tn_buf target = TN_BUF_INIT(TARGET_MAX);

    tn_buf_puts(&target, "/v1/files/content?path=");
    tn_url_encode(&target, u->early, "/");
    const struct tn_http_call get = {.target = tn_buf_str(&target),
                                     .deadline = tn_deadline_in(STALL_SECONDS)};
    int status = from ? tn_http_client_open(from, &get, err) : -1;
    if (status == 200)
        return from;
    if (status >= 0)
        tn_fail(err, TN_E_NOT_FOUND, "what was uploaded is gone");
    tn_http_client_free(from);
    return NULL;
}

struct text {
    const char *at;
    size_t left;
};

static ssize_t read_text(void *ctx, void *to, size_t n, struct tn_error *err)
{
    struct text *t = ctx;

    n = n < t->left ? n : t->left;
    memcpy(to, t->at, n);
    t->at += n;
    t->left -= n;
    return (ssize_t)n;
}

/* A form with one file, which goes back to where it comes from: the hand unpacks what it gets. */
struct form {
    struct tn_http_client *from;
    struct text head, tail;
};

static ssize_t read_form(void *ctx, void *to, size_t n, struct tn_error *err)
{
    struct form *f = ctx;

    if (f->head.left)
        return read_text(&f->head, to, n, err);
    ssize_t got = tn_http_client_read(f->from, to, n, tn_deadline_in(STALL_SECONDS), err);
    return got ? got : read_text(&f->tail, to, n, err);
}

static int unpack(const struct upload *u, struct form *form, const char *to, struct tn_error *err)
{
    static const char head[] = "--zip\r\nContent-Disposition: form-data; name=\"file\"; "
                               "filename=\"files.zip\"\r\n\r\n",
                      tail[] = "\r\n--zip--\r\n";
    tn_autobuf struct tn_buf target = TN_BUF_INIT(TARGET_MAX), answer = TN_BUF_INIT(REX_BODY_MAX);
    struct tn_http_client *post = tn_hand_http(u->desk->address, u->desk->key, err);

    form->head = (struct text){head, strlen(head)};
    form->tail = (struct text){tail, strlen(tail)};
    tn_buf_puts(&target, "/upload_file?recursive=true&destination=");
    tn_url_encode(&target, to, "/");
    const struct tn_http_call put = {.method = "POST",
                                     .target = tn_buf_str(&target),
                                     .type = "multipart/form-data; boundary=zip",
                                     .source = read_form,
                                     .source_ctx = form,
                                     .source_len = -1,
                                     .deadline = TN_NEVER,
                                     .stall = (int64_t)(STALL_SECONDS * TN_SECOND)};
    int status = post ? tn_http_client_call(post, &put, &answer, err) : -1;
    tn_http_client_free(post);
    if (status < 0)
        return tn_error_context(err, "the hand");
    return status >= 300 ? tn_hand_refused_text(status, tn_buf_str(&answer), answer.len, err) : 0;
}

/* A rename, or where that is no way (another file system) a copy. */
static int move(const struct upload *u, struct form *form, const char *to, struct tn_error *err)
{
    struct tn_hand_files *f = u->desk->files;

    if (tn_hand_files_move(f, u->early, to, true, tn_deadline_in(REX_SECONDS), err) == 0)
        return 0;
    return tn_hand_files_store(f, to, read_form, form, -1, -1, TN_NEVER, err);
}

static int settle(struct upload *u, struct tn_error *err)
{
    struct form form = {0};

    if (!u->stored || !u->target.len)
        return tn_fail(err, TN_E_INVALID, "expected the parts file and target_path");
    tn_autofree char *path = surface_path(u->home, tn_buf_str(&u->target));
    if (!(form.from = open_early(u, err)))
        return -1;
    int failed = strcmp(tn_buf_str(&u->unzip), "true") == 0 ? unpack(u, &form, path, err)
                                                            : move(u, &form, path, err);
    tn_http_client_free(form.from);
    return failed;
}

static int store(struct tn_http_exchange *x, struct upload *u, struct tn_error *err)
{
    const struct tn_part *part;
    struct tn_multipart *m = tn_multipart_new(tn_http_header(x, "Content-Type"), read_body, x, err);
    int next = -1, failed = 0;

    while (m && !failed && (next = tn_multipart_next(m, &part, err)) == 1)
        failed = take_part(u, m, part, err);
    tn_multipart_free(m);
    failed = failed || next < 0 || settle(u, err);
    if (u->stored) /* unless it was moved */
        tn_hand_files_remove(u->desk->files, u->early, false, tn_deadline_in(REX_SECONDS), NULL);
    return failed ? -1 : 0;
}

static void post_upload(struct tn_http_exchange *x, void *ctx)
{
    autofiles struct desk_of_files d;
    struct upload u = {
        .desk = &d, .target = TN_BUF_INIT(FIELD_MAX), .unzip = TN_BUF_INIT(FIELD_MAX)};
    struct tn_error err = {0};
    autoview struct box_view v = {0};

    if (!begin(&d, x, ctx))
        return;
    box_look(d.box, &v);
    u.home = home_of(&v);
    u.early = tn_asprintf("%s/.upload-%lld", u.home, (long long)(service_time() * 1e6));
    if (store(x, &u, &err))
        rex_raise_error(x, &err);
    else
        rex_reply_nothing(x);
    free(u.early);
    tn_buf_done(&u.target);
    tn_buf_done(&u.unzip);
}

#define ONE "/swerex/{id}"
const struct tn_route routes_swerex_files[] = {
    {"POST", ONE "/read_file", post_read, "SWE-ReX: a file of text", 0},
    {"POST", ONE "/write_file", post_write, "SWE-ReX: writes a file of text", 0},
    {"POST", ONE "/upload", post_upload, "SWE-ReX: stores a file, or a directory", 0},
    {0},
};
