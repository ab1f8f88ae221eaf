/* Files of envd: GET and POST /files. */
#include <ctype.h>
#include <limits.h>
#include <strings.h>
#include <zlib.h>

#include "net/multipart.h"
#include "service/e2b/e2b.h"

enum { ANSWER_MAX = 1 << 20, METADATA_MAX = 4096 };

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

/* A body that is gzip, inflated as it is read. */
struct packed {
    struct tn_http_exchange *x;
    z_stream z;
    uint64_t in, out;
    bool ended; /* a member: another may follow */
    unsigned char bytes[16 << 10];
};
/* What unpacks to more than FREE bytes is a bomb when that is more than RATIO times its size. */
enum { PACKED_RATIO = 100, GZIP_ONLY = 15 + 16 };
#define PACKED_FREE (UINT64_C(1) << 30)

static int fill(struct packed *p, struct tn_error *err)
{
    ssize_t n = tn_http_read(p->x, p->bytes, sizeof p->bytes, err);

    if (n <= 0)
        return (int)n;
    p->z.next_in = p->bytes;
    p->z.avail_in = (uInt)n;
    p->in += (uint64_t)n;
    return 1;
}

static int inflate_some(struct packed *p, struct tn_error *err)
{
    int r = p->ended ? inflateReset(&p->z) : Z_OK;

    p->ended = false;
    if (r == Z_OK)
        r = inflate(&p->z, Z_NO_FLUSH);
    p->ended = r == Z_STREAM_END;
    return r == Z_OK || r == Z_BUF_ERROR || p->ended
               ? 0
               : tn_fail(err, TN_E_INVALID, "the body is no gzip");
}

static ssize_t read_packed(void *ctx, void *to, size_t n, struct tn_error *err)
{
    struct packed *p = ctx;
    uInt want = n < INT_MAX ? (uInt)n : INT_MAX;

    p->z.next_out = to;
    p->z.avail_out = want;
    while (want && p->z.avail_out == want) {
        int more = p->z.avail_in ? 1 : fill(p, err);
        if (more < 0)
            return -1;
        if (!more)
            return p->ended ? 0 : tn_fail(err, TN_E_INVALID, "the body ends within its gzip");
        if (inflate_some(p, err))
            return -1;
    }
    p->out += want - p->z.avail_out;
    if (p->out > PACKED_FREE && p->out / PACKED_RATIO > p->in)
        return tn_fail(err, TN_E_TOO_LARGE, "the body unpacks to more than %d times its size",
                       PACKED_RATIO);
    return (ssize_t)(want - p->z.avail_out);
}

static ssize_t read_part(void *ctx, void *to, size_t n, struct tn_error *err)
{
    return tn_multipart_read(ctx, to, n, err);
}

/* X-Metadata-KEY: VALUE, of every file of the request.  -1: answered. */
static int read_metadata(struct tn_http_exchange *x, struct tn_json **out)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(METADATA_MAX);
    struct tn_jw w = tn_jw(&text);
    struct tn_error err = {0};
    const char *key, *value;
    unsigned at = 0;

    tn_jw_object(&w);
    while ((value = tn_http_next_header(x, "X-Metadata-", &at, &key))) {
        tn_autofree char *lower = tn_strdup(key);
        for (char *c = lower; *c; c++)
            *c = (char)tolower((unsigned char)*c);
        for (const char *c = value; *c; c++)
            if (*c < ' ' || *c > '~')
                return native_refuse(x, TN_E_INVALID, "X-Metadata-%.60s: expected ASCII", key);
        if (*key)
            tn_jw_kstr(&w, lower, value);
    }
    tn_jw_object_end(&w);
    if (!tn_buf_ok(&text))
        return native_refuse(x, TN_E_INVALID, "metadata: at most %d bytes of it", METADATA_MAX);
    if (tn_json_parse(tn_buf_str(&text), text.len, out, &err)) {
        reply_error(x, &err);
        return -1;
    }
    return 0;
}

static void put_written(struct tn_jw *w, const char *path, const struct tn_json *metadata)
{
    tn_jw_object(w);
    tn_jw_kstr(w, "path", path);
    tn_jw_kstr(w, "name", strrchr(path, '/') + 1);
    tn_jw_kstr(w, "type", "file");
    if (tn_json_count(metadata)) {
        tn_jw_key(w, "metadata");
        tn_jw_tree(w, metadata);
    }
    tn_jw_object_end(w);
}

/* -1: answered. */
static int store(struct e2b_call *c, struct tn_hand_files *f, const char *given,
                 tn_http_source_fn source, void *ctx, const struct tn_json *metadata,
                 struct tn_jw *w)
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
    put_written(w, path, metadata);
    return 0;
}

/* Each part is a file, whose name is its path unless the query has one for the only part. */
static int store_parts(struct e2b_call *c, struct tn_hand_files *f, const char *type,
                       tn_http_source_fn source, void *ctx, const struct tn_json *metadata,
                       struct tn_jw *w)
{
    const char *given = tn_http_query(c->x, "path");
    const struct tn_part *part;
    struct tn_error err = {0};
    struct tn_multipart *m = tn_multipart_new(type, source, ctx, &err);
    int next = -1, count = 0, failed = 0;

    while (m && !failed && (next = tn_multipart_next(m, &part, &err)) == 1) {
        if (strcmp(part->name, "file") != 0)
            continue;
        if (given && count)
            failed = native_refuse(c->x, TN_E_INVALID, "one path, and more than one file");
        else if (!given && (!part->filename || !*part->filename))
            failed = native_refuse(c->x, TN_E_INVALID, "a part without a filename, and no path");
        else
            failed = store(c, f, given ? given : part->filename, read_part, m, metadata, w);
        count++;
    }
    tn_multipart_free(m);
    if (!failed && next < 0)
        reply_error(c->x, &err);
    return failed || next < 0 ? -1 : 0;
}

static void post_files(struct e2b_call *c, tn_http_source_fn source, void *ctx)
{
    const char *type = tn_http_header(c->x, "Content-Type"), *path = tn_http_query(c->x, "path");
    tn_autobuf struct tn_buf json = ANSWER_BUF(c->x, ANSWER_MAX);
    struct tn_jw w = tn_jw(&json);
    bool parts = type && strncasecmp(type, "multipart/form-data", 19) == 0;

    if (!parts && (!path || !*path)) {
        native_refuse(c->x, TN_E_INVALID, "path: expected, to say which file");
        return;
    }
    tn_autojson struct tn_json *metadata = NULL;
    tn_autofiles struct tn_hand_files *f = read_metadata(c->x, &metadata) ? NULL : e2b_files(c);
    if (!f)
        return;
    tn_hand_files_attributes(f, E2B_ATTRIBUTES, metadata);
    tn_jw_array(&w);
    if (parts ? store_parts(c, f, type, source, ctx, metadata, &w)
              : store(c, f, path, source, ctx, metadata, &w))
        return;
    tn_jw_array_end(&w);
    tn_http_reply_json(c->x, 200, &json);
}

void e2b_post_files(struct e2b_call *c)
{
    const char *coding = tn_http_header(c->x, "Content-Encoding");
    struct packed packed = {.x = c->x};

    if (!coding || strcasecmp(coding, "identity") == 0) {
        post_files(c, read_body, c->x);
    } else if (strcasecmp(coding, "gzip") != 0) {
        reply_status(c->x, 406, NULL, "Content-Encoding: only gzip and identity are taken");
    } else if (inflateInit2(&packed.z, GZIP_ONLY) != Z_OK) {
        native_refuse(c->x, TN_E_INTERNAL, "no memory to unpack the body");
    } else {
        post_files(c, read_packed, &packed);
        inflateEnd(&packed.z);
    }
}
