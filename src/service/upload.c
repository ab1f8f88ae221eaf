#include "service/upload.h"

#include "base/clock.h"
#include "net/multipart.h"
#include "net/url.h"
#include "runtime/hand-address.h"
#include "runtime/hand-answer.h"
#include "service/caller.h"
#include "service/clock.h"
#include "service/surface.h"

enum { FIELD_MAX = 4096, TARGET_MAX = 16 << 10, ANSWER_MAX = 1 << 20 };
#define STALL_SECONDS 60.0
#define MOVE_SECONDS 60.0
#define BOUNDARY "tendon-zip-6b0f7d2c95e14a83"

struct upload {
    char *address, *key; /* of the hand */
    struct tn_hand_files *files;
    const char *home, *path_field, *zip_field;
    char *early; /* where the file is until its path is known */
    bool beside; /* it was stored there */
    bool stored;
    struct tn_buf path, zip; /* fields */
};

static void upload_done(struct upload *u)
{
    tn_hand_files_free(u->files);
    if (u->key)
        explicit_bzero(u->key, strlen(u->key));
    free(u->key);
    free(u->address);
    free(u->early);
    tn_buf_done(&u->path);
    tn_buf_done(&u->zip);
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
    if (strcmp(part->name, u->path_field) == 0)
        return read_field(m, &u->path, err);
    if (u->zip_field && strcmp(part->name, u->zip_field) == 0)
        return read_field(m, &u->zip, err);
    if (strcmp(part->name, "file") != 0 || u->stored || u->beside)
        return 0;
    u->beside = !u->path.len || u->zip_field;
    tn_autofree char *path = surface_path(u->home, tn_buf_str(&u->path));
    u->stored = tn_hand_files_store(u->files, u->beside ? u->early : path, read_part, m, -1, -1,
                                    tn_deadline_in(SURFACE_WRITE_SECONDS), err) == 0;
    return u->stored ? 0 : -1;
}

/* The file again, from the sandbox; NULL with err. */
static struct tn_http_client *open_early(const struct upload *u, struct tn_error *err)
{
    struct tn_http_client *from = tn_hand_http(u->address, u->key, err);
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
    if (n) { /* of no text there is no address */
        memcpy(to, t->at, n);
        t->at += n;
        t->left -= n;
    }
    return (ssize_t)n;
}

/* A form with one file, which goes back to where it comes from: the hand unpacks what it gets. */
struct form {
    struct tn_http_client *from;
    struct text head, tail;
    int64_t deadline;
};

static ssize_t read_form(void *ctx, void *to, size_t n, struct tn_error *err)
{
    struct form *f = ctx;

    if (f->head.left)
        return read_text(&f->head, to, n, err);
    if (tn_now() > f->deadline)
        return tn_fail(err, TN_E_TIMEOUT, "what was uploaded comes too slowly");
    ssize_t got = tn_http_client_read(f->from, to, n, tn_deadline_in(STALL_SECONDS), err);
    return got ? got : read_text(&f->tail, to, n, err);
}

static int unpack(const struct upload *u, struct form *form, const char *to, struct tn_error *err)
{
    static const char head[] = "--" BOUNDARY "\r\nContent-Disposition: form-data; name=\"file\"; "
                               "filename=\"files.zip\"\r\n\r\n",
                      tail[] = "\r\n--" BOUNDARY "--\r\n";
    tn_autobuf struct tn_buf target = TN_BUF_INIT(TARGET_MAX), answer = TN_BUF_INIT(ANSWER_MAX);
    struct tn_http_client *post = tn_hand_http(u->address, u->key, err);

    form->head = (struct text){head, strlen(head)};
    form->tail = (struct text){tail, strlen(tail)};
    tn_buf_puts(&target, "/upload_file?recursive=true&destination=");
    tn_url_encode(&target, to, "/");
    const struct tn_http_call put = {.method = "POST",
                                     .target = tn_buf_str(&target),
                                     .type = "multipart/form-data; boundary=" BOUNDARY,
                                     .source = read_form,
                                     .source_ctx = form,
                                     .source_len = -1,
                                     .deadline = form->deadline,
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
    if (tn_hand_files_move(u->files, u->early, to, true, tn_deadline_in(MOVE_SECONDS), err) == 0)
        return 0;
    return tn_hand_files_store(u->files, to, read_form, form, -1, -1, form->deadline, err);
}

static int settle(struct upload *u, struct tn_error *err)
{
    struct form form = {.deadline = tn_deadline_in(SURFACE_WRITE_SECONDS)};

    if (!u->stored || !u->path.len)
        return tn_fail(err, TN_E_INVALID, "expected the parts file and %s", u->path_field);
    if (!u->beside)
        return 0;
    tn_autofree char *path = surface_path(u->home, tn_buf_str(&u->path));
    if (!(form.from = open_early(u, err)))
        return -1;
    int failed = strcmp(tn_buf_str(&u->zip), "true") == 0 ? unpack(u, &form, path, err)
                                                          : move(u, &form, path, err);
    tn_http_client_free(form.from);
    return failed;
}

static int store(struct tn_http_exchange *x, struct upload *u, struct tn_error *err)
{
    const struct tn_part *part;
    struct tn_multipart *m =
        tn_multipart_new(tn_http_header(x, "Content-Type"), surface_read_body, x, err);
    int next = -1, failed = 0;

    while (m && !failed && (next = tn_multipart_next(m, &part, err)) == 1)
        failed = take_part(u, m, part, err);
    tn_multipart_free(m);
    failed = failed || next < 0 || settle(u, err);
    if (u->beside) /* unless it was moved */
        tn_hand_files_remove(u->files, u->early, false, tn_deadline_in(MOVE_SECONDS), NULL);
    return failed ? -1 : 0;
}

int upload_form(struct tn_http_exchange *x, struct box *b, const char *home, const char *path_field,
                const char *zip_field, struct tn_error *err)
{
    TN_CLEANUP(upload_done)
    struct upload u = {.home = home,
                       .path_field = path_field,
                       .zip_field = zip_field,
                       .early =
                           tn_asprintf("%s/.upload-%lld", home, (long long)(service_time() * 1e6)),
                       .path = TN_BUF_INIT(FIELD_MAX),
                       .zip = TN_BUF_INIT(FIELD_MAX)};

    if (box_hand(b, &u.address, &u.key, tn_deadline_in(MOVE_SECONDS), err) ||
        !(u.files = tn_hand_files_new(u.address, u.key, err)))
        return -1;
    tn_hand_files_hold(u.files, purse_of(x));
    return store(x, &u, err);
}
