/* Files of envd: GET and POST /files. */
#include <strings.h>

#include "net/multipart.h"
#include "service/e2b/e2b.h"

enum { ANSWER_MAX = 1 << 20 };

void e2b_get_file(struct e2b_call *c)
{
    tn_autofree char *path = e2b_path(c, tn_http_query(c->x, "path"));
    tn_autofiles struct tn_hand_files *f = e2b_files(c);

    if (f)
        surface_send_file(c->x, c->b, f, path);
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

static void put_written(struct tn_jw *w, const char *path)
{
    tn_jw_object(w);
    tn_jw_kstr(w, "path", path);
    tn_jw_kstr(w, "name", strrchr(path, '/') + 1);
    tn_jw_kstr(w, "type", "file");
    tn_jw_object_end(w);
}

/* -1: answered. */
static int store(struct e2b_call *c, struct tn_hand_files *f, const char *given,
                 tn_http_source_fn source, void *ctx, struct tn_jw *w)
{
    tn_autofree char *path = e2b_path(c, given);
    tn_autoentry struct tn_entry entry = {0};
    struct tn_error err = {0};
    int64_t soon = tn_deadline_in(E2B_SECONDS);

    if (tn_hand_files_stat(f, path, true, &entry, soon, NULL) == 0 &&
        entry.type == TN_ENTRY_DIRECTORY)
        return native_refuse(c->x, TN_E_INVALID, "path '%.400s' is a directory", path);
    if (tn_hand_files_store(f, path, source, ctx, -1, -1, TN_NEVER, &err)) {
        reply_error(c->x, &err);
        return -1;
    }
    put_written(w, path);
    return 0;
}

/* Each part is a file, whose name is its path unless the query has one for the only part. */
static int store_parts(struct e2b_call *c, struct tn_hand_files *f, const char *type,
                       struct tn_jw *w)
{
    const char *given = tn_http_query(c->x, "path");
    const struct tn_part *part;
    struct tn_error err = {0};
    struct tn_multipart *m = tn_multipart_new(type, read_body, c->x, &err);
    int next = -1, count = 0, failed = 0;

    while (m && !failed && (next = tn_multipart_next(m, &part, &err)) == 1) {
        if (strcmp(part->name, "file") != 0)
            continue;
        if (given && count)
            failed = native_refuse(c->x, TN_E_INVALID, "one path, and more than one file");
        else if (!given && (!part->filename || !*part->filename))
            failed = native_refuse(c->x, TN_E_INVALID, "a part without a filename, and no path");
        else
            failed = store(c, f, given ? given : part->filename, read_part, m, w);
        count++;
    }
    tn_multipart_free(m);
    if (!failed && next < 0)
        reply_error(c->x, &err);
    return failed || next < 0 ? -1 : 0;
}

void e2b_post_files(struct e2b_call *c)
{
    const char *type = tn_http_header(c->x, "Content-Type"), *path = tn_http_query(c->x, "path");
    const char *coding = tn_http_header(c->x, "Content-Encoding");
    tn_autobuf struct tn_buf json = ANSWER_BUF(c->x, ANSWER_MAX);
    struct tn_jw w = tn_jw(&json);
    bool parts = type && strncasecmp(type, "multipart/form-data", 19) == 0;

    if (coding && strcasecmp(coding, "identity") != 0) {
        reply_status(c->x, 406, NULL, "Content-Encoding: only identity is taken");
        return;
    }
    if (!parts && (!path || !*path)) {
        native_refuse(c->x, TN_E_INVALID, "path: expected, to say which file");
        return;
    }
    tn_autofiles struct tn_hand_files *f = e2b_files(c);
    if (!f)
        return;
    tn_jw_array(&w);
    if (parts ? store_parts(c, f, type, &w) : store(c, f, path, read_body, c->x, &w))
        return;
    tn_jw_array_end(&w);
    tn_http_reply_json(c->x, 200, &json);
}
