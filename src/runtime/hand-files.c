#include "runtime/hand-files.h"

#include "base/base64.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/json.h"
#include "net/url.h"
#include "runtime/hand-address.h"
#include "runtime/hand-answer.h"

enum {
    ANSWER_MAX = 8 << 20, /* a page of a directory is the largest */
    TOLD_MAX = 64 << 10,  /* how a change went */
    TARGET_MAX = 64 << 10,
    PIECE = 64 << 10,
};

#define STALL (60 * TN_SECOND)

struct tn_hand_files {
    struct tn_http_client *http;
    struct tn_purse *purse;
    const char *prefix;           /* of attributes, or NULL */
    const struct tn_json *stored; /* those of files that are stored, or NULL */
};

void tn_entry_done(struct tn_entry *e)
{
    free(e->name);
    free(e->target);
    tn_json_free(e->attributes);
    *e = (struct tn_entry){0};
}

struct tn_hand_files *tn_hand_files_new(const char *address, const char *key, struct tn_error *err)
{
    struct tn_http_client *http = tn_hand_http(address, key, err);

    if (!http)
        return NULL;
    struct tn_hand_files *f = tn_calloc(1, sizeof *f);
    f->http = http;
    return f;
}

void tn_hand_files_free(struct tn_hand_files *f)
{
    if (!f)
        return;
    tn_http_client_free(f->http);
    free(f);
}

void tn_hand_files_cancel_by(struct tn_hand_files *f, int fd)
{
    tn_http_client_cancel_by(f->http, fd);
}

void tn_hand_files_hold(struct tn_hand_files *f, struct tn_purse *purse)
{
    f->purse = purse;
}

void tn_hand_files_attributes(struct tn_hand_files *f, const char *prefix,
                              const struct tn_json *these)
{
    f->prefix = prefix;
    f->stored = these;
}

/* --- requests ------------------------------------------------------------------------------ */

/* "ROUTE?path=..." in out. */
static void put_target(struct tn_buf *out, const char *route, const char *path)
{
    tn_buf_printf(out, "%s?path=", route);
    tn_url_encode(out, path, "/");
}

static void ask_attributes(const struct tn_hand_files *f, struct tn_buf *target)
{
    if (f->prefix)
        tn_buf_printf(target, "&attributes=%s", f->prefix);
}

static int64_t soonest(int64_t deadline)
{
    int64_t stalled = tn_now() + STALL;

    return stalled < deadline ? stalled : deadline;
}

/* A small request and its small answer in body; 0 when it was a success. */
static int ask(struct tn_hand_files *f, const char *method, const struct tn_buf *target,
               struct tn_buf *body, int64_t deadline, struct tn_error *err)
{
    struct tn_http_call call = {
        .method = method, .target = tn_buf_str(target), .deadline = soonest(deadline)};

    if (!tn_buf_ok(target))
        return tn_fail(err, TN_E_URI_TOO_LONG, "the path is too long");
    int status = tn_http_client_call(f->http, &call, body, err);
    if (status < 0)
        return tn_error_context(err, "the hand");
    if (status >= 300)
        return tn_hand_refused_text(status, tn_buf_str(body), body->len, err);
    return 0;
}

/* held has the purse, and gives back what the tree takes from it. */
static int ask_json(struct tn_hand_files *f, const struct tn_buf *target, struct tn_json **tree,
                    struct tn_held *held, int64_t deadline, struct tn_error *err)
{
    tn_autobuf struct tn_buf body = {.max = ANSWER_MAX, .purse = held->purse};

    if (ask(f, "GET", target, &body, deadline, err) < 0)
        return -1;
    if (tn_json_parse_held(tn_buf_str(&body), body.len, held->purse, &held->bytes, tree, err) < 0)
        return tn_error_context(err, "the answer of the hand");
    return 0;
}

/* --- looking ------------------------------------------------------------------------------- */

/* A string that may be no UTF-8: its bytes are then in a second member. */
static char *get_bytes(const struct tn_json *json, const char *key, const char *raw_key)
{
    const char *raw = tn_json_get_str(json, raw_key, NULL);
    tn_autobuf struct tn_buf bytes = TN_BUF_INIT(PIECE);

    if (raw && tn_base64_decode(&bytes, raw, strlen(raw), NULL) == 0 &&
        !memchr(tn_buf_str(&bytes), '\0', bytes.len))
        return tn_buf_take(&bytes);
    return tn_strdup_or_null(tn_json_get_str(json, key, NULL));
}

static enum tn_entry_type type_of(const char *name)
{
    static const char *const names[] = {
        [TN_ENTRY_FILE] = "file",
        [TN_ENTRY_DIRECTORY] = "directory",
        [TN_ENTRY_SYMLINK] = "symlink",
    };

    for (size_t i = 0; i < TN_COUNT(names); i++)
        if (strcmp(names[i], name) == 0)
            return (enum tn_entry_type)i;
    return TN_ENTRY_OTHER;
}

static int read_entry(const struct tn_json *json, struct tn_entry *out, struct tn_error *err)
{
    struct tn_json *attributes = tn_json_get(json, "attributes");

    *out = (struct tn_entry){
        .name = get_bytes(json, "name", "name_base64"),
        .type = type_of(tn_json_get_str(json, "type", "")),
        .size = tn_json_int(tn_json_get(json, "size"), 0),
        .mode = (mode_t)strtoul(tn_json_get_str(json, "mode", "0"), NULL, 8) & 07777,
        .uid = tn_json_int(tn_json_get(json, "uid"), -1),
        .gid = tn_json_int(tn_json_get(json, "gid"), -1),
        .mtime = tn_json_double(tn_json_get(json, "mtime"), 0),
        .target = get_bytes(json, "target", "target_base64"),
        .attributes = attributes ? tn_json_ref(attributes) : NULL,
    };
    if (out->name && *out->name && (out->type != TN_ENTRY_SYMLINK || out->target))
        return 0;
    tn_entry_done(out);
    return tn_fail(err, TN_E_PEER, "the hand described a file without a name");
}

int tn_hand_files_stat(struct tn_hand_files *f, const char *path, bool follow, struct tn_entry *out,
                       int64_t deadline, struct tn_error *err)
{
    tn_autobuf struct tn_buf target = TN_BUF_INIT(TARGET_MAX);
    tn_autoheld struct tn_held held = {.purse = f->purse};
    tn_autojson struct tn_json *json = NULL;

    put_target(&target, "/v1/files/stat", path);
    tn_buf_puts(&target, follow ? "&follow=1" : "");
    ask_attributes(f, &target);
    if (ask_json(f, &target, &json, &held, deadline, err) < 0)
        return -1;
    return read_entry(json, out, err);
}

static int list_page(const struct tn_json *page, tn_entry_fn fn, void *ctx, struct tn_error *err)
{
    const struct tn_json *entries = tn_json_get(page, "entries");

    for (size_t i = 0; i < tn_json_count(entries); i++) {
        tn_autoentry struct tn_entry entry = {0};
        if (read_entry(tn_json_at(entries, i), &entry, err) < 0)
            return -1;
        int r = fn(&entry, ctx, err);
        if (r)
            return r;
    }
    return 0;
}

int tn_hand_files_list(struct tn_hand_files *f, const char *path, tn_entry_fn fn, void *ctx,
                       int64_t deadline, struct tn_error *err)
{
    tn_autofree char *after = NULL;

    do {
        tn_autobuf struct tn_buf target = TN_BUF_INIT(TARGET_MAX);
        tn_autoheld struct tn_held held = {.purse = f->purse};
        tn_autojson struct tn_json *page = NULL;

        put_target(&target, "/v1/files/list", path);
        ask_attributes(f, &target);
        if (after) {
            tn_buf_puts(&target, "&after=");
            tn_url_encode(&target, after, "");
        }
        if (ask_json(f, &target, &page, &held, deadline, err) < 0)
            return -1;
        int r = list_page(page, fn, ctx, err);
        if (r)
            return r;
        const char *next = tn_json_get_str(page, "next", NULL);
        if (next && after && strcmp(next, after) <= 0)
            return tn_fail(err, TN_E_PEER, "the hand lists %s in circles", path);
        free(after);
        after = tn_strdup_or_null(next);
    } while (after);
    return 0;
}

/* --- contents ------------------------------------------------------------------------------ */

/* The error in the rest of an answer that was opened as a stream. */
static int refused_stream(struct tn_hand_files *f, int status, int64_t deadline,
                          struct tn_error *err)
{
    char detail[4096];
    size_t n = 0;

    while (n < sizeof detail) {
        ssize_t got = tn_http_client_read(f->http, detail + n, sizeof detail - n, deadline, NULL);
        if (got <= 0)
            break;
        n += (size_t)got;
    }
    return tn_hand_refused_text(status, detail, n, err);
}

int64_t tn_hand_files_range(struct tn_hand_files *f, const char *path, int64_t offset,
                            int64_t length, tn_bytes_fn fn, void *ctx, int64_t deadline,
                            struct tn_error *err)
{
    tn_autobuf struct tn_buf target = TN_BUF_INIT(TARGET_MAX);
    tn_autofree char *piece = tn_malloc(PIECE);
    char range[80] = "";
    int64_t all = 0;

    put_target(&target, "/v1/files/content", path);
    if (!tn_buf_ok(&target))
        return tn_fail(err, TN_E_URI_TOO_LONG, "the path is too long");
    if (length == 0)
        return 0;
    if (length > 0)
        snprintf(range, sizeof range, "Range: bytes=%lld-%lld\r\n", (long long)offset,
                 (long long)(offset + length - 1));
    else if (offset > 0)
        snprintf(range, sizeof range, "Range: bytes=%lld-\r\n", (long long)offset);

    struct tn_http_call call = {
        .target = tn_buf_str(&target), .extra_headers = range, .deadline = soonest(deadline)};
    int status = tn_http_client_open(f->http, &call, err);
    if (status < 0)
        return tn_error_context(err, "the hand");
    if (status >= 300)
        return refused_stream(f, status, soonest(deadline), err);
    if (offset > 0 && status != 206)
        return tn_fail(err, TN_E_PEER, "%s: the hand does not begin where it was asked to", path);
    for (;;) {
        ssize_t n = tn_http_client_read(f->http, piece, PIECE, soonest(deadline), err);
        if (n < 0)
            return tn_error_context(err, "%s", path);
        if (n == 0)
            return all;
        all += n;
        if (length > 0 && all > length)
            return tn_fail(err, TN_E_PEER, "%s: the hand sends more than it was asked for", path);
        if (fn(piece, (size_t)n, ctx, err))
            return -1;
    }
}

struct file_sink {
    int fd;
    tn_moved_fn moved;
    void *ctx;
};

static int write_piece(const void *bytes, size_t n, void *ctx, struct tn_error *err)
{
    const struct file_sink *s = ctx;

    if (tn_fs_write(s->fd, bytes, n, err) < 0)
        return -1;
    if (s->moved)
        s->moved(n, s->ctx);
    return 0;
}

int64_t tn_hand_files_read(struct tn_hand_files *f, const char *path, int64_t offset,
                           int64_t length, int fd, tn_moved_fn moved, void *ctx, int64_t deadline,
                           struct tn_error *err)
{
    struct file_sink s = {.fd = fd, .moved = moved, .ctx = ctx};

    return tn_hand_files_range(f, path, offset, length, write_piece, &s, deadline, err);
}

int64_t tn_hand_files_fetch(struct tn_hand_files *f, const char *path, tn_bytes_fn fn, void *ctx,
                            int64_t deadline, struct tn_error *err)
{
    return tn_hand_files_range(f, path, 0, -1, fn, ctx, deadline, err);
}

struct source {
    int fd;
    tn_moved_fn moved;
    void *ctx;
};

static ssize_t read_source(void *ctx, void *to, size_t n, struct tn_error *err)
{
    const struct source *s = ctx;
    ssize_t got;

    do
        got = read(s->fd, to, n);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return tn_fail_errno(err, errno, "read");
    if (got > 0 && s->moved)
        s->moved((size_t)got, s->ctx);
    return got;
}

int tn_hand_files_write(struct tn_hand_files *f, const char *path, int fd, int64_t size, int mode,
                        tn_moved_fn moved, void *ctx, int64_t deadline, struct tn_error *err)
{
    struct source source = {.fd = fd, .moved = moved, .ctx = ctx};

    return tn_hand_files_store(f, path, read_source, &source, size, mode, deadline, err);
}

int tn_hand_files_store(struct tn_hand_files *f, const char *path, tn_http_source_fn source,
                        void *ctx, int64_t size, int mode, int64_t deadline, struct tn_error *err)
{
    tn_autobuf struct tn_buf target = TN_BUF_INIT(TARGET_MAX);
    tn_autobuf struct tn_buf body = TN_BUF_INIT(TOLD_MAX), header = TN_BUF_INIT(TOLD_MAX);
    struct tn_jw w = tn_jw(&header);

    put_target(&target, "/v1/files/content", path);
    ask_attributes(f, &target);
    if (mode >= 0)
        tn_buf_printf(&target, "&mode=%o", (unsigned)mode);
    if (f->prefix && f->stored) {
        tn_buf_puts(&header, "Tendon-Attributes: ");
        tn_jw_tree(&w, f->stored);
        tn_buf_puts(&header, "\r\n");
    }
    if (!tn_buf_ok(&target) || !tn_buf_ok(&header))
        return tn_fail(err, TN_E_URI_TOO_LONG, "the path is too long");
    struct tn_http_call call = {
        .method = "PUT",
        .extra_headers = tn_buf_str(&header),
        .target = tn_buf_str(&target),
        .deadline = deadline,
        .source = source,
        .source_ctx = ctx,
        .source_len = size,
        .stall = STALL,
    };
    int status = tn_http_client_call(f->http, &call, &body, err);
    if (status < 0)
        return tn_error_context(err, "%s", path);
    if (status >= 300)
        return tn_hand_refused_text(status, tn_buf_str(&body), body.len, err);
    return 0;
}

/* --- the rest ------------------------------------------------------------------------------ */

struct memory {
    const char *at;
    size_t left;
};

static ssize_t read_memory(void *ctx, void *to, size_t n, struct tn_error *err)
{
    struct memory *m = ctx;

    (void)err;
    n = n < m->left ? n : m->left;
    if (n)
        memcpy(to, m->at, n);
    m->at += n;
    m->left -= n;
    return (ssize_t)n;
}

int tn_hand_files_put(struct tn_hand_files *f, const char *path, const void *bytes, size_t n,
                      int64_t deadline, struct tn_error *err)
{
    struct memory m = {.at = bytes, .left = n};

    return tn_hand_files_store(f, path, read_memory, &m, (int64_t)n, -1, deadline, err);
}

static int tell(struct tn_hand_files *f, const char *method, const struct tn_buf *target,
                int64_t deadline, struct tn_error *err)
{
    tn_autobuf struct tn_buf body = TN_BUF_INIT(TOLD_MAX);

    return ask(f, method, target, &body, deadline, err);
}

int tn_hand_files_mkdir(struct tn_hand_files *f, const char *path, int mode, int64_t deadline,
                        struct tn_error *err)
{
    tn_autobuf struct tn_buf target = TN_BUF_INIT(TARGET_MAX);

    put_target(&target, "/v1/files/directory", path);
    if (mode >= 0)
        tn_buf_printf(&target, "&mode=%o", (unsigned)mode);
    return tell(f, "POST", &target, deadline, err);
}

int tn_hand_files_symlink(struct tn_hand_files *f, const char *path, const char *link,
                          int64_t deadline, struct tn_error *err)
{
    tn_autobuf struct tn_buf target = TN_BUF_INIT(TARGET_MAX);

    put_target(&target, "/v1/files/symlink", path);
    tn_buf_puts(&target, "&target=");
    tn_url_encode(&target, link, "/");
    return tell(f, "POST", &target, deadline, err);
}

int tn_hand_files_remove(struct tn_hand_files *f, const char *path, bool recursive,
                         int64_t deadline, struct tn_error *err)
{
    tn_autobuf struct tn_buf target = TN_BUF_INIT(TARGET_MAX);

    put_target(&target, "/v1/files", path);
    tn_buf_puts(&target, recursive ? "&recursive=1" : "");
    return tell(f, "DELETE", &target, deadline, err);
}

int tn_hand_files_move(struct tn_hand_files *f, const char *from, const char *to, bool overwrite,
                       int64_t deadline, struct tn_error *err)
{
    tn_autobuf struct tn_buf body = TN_BUF_INIT(TARGET_MAX), answer = TN_BUF_INIT(TOLD_MAX);
    struct tn_jw w = tn_jw(&body);

    tn_jw_object(&w);
    tn_jw_kstr(&w, "from", from);
    tn_jw_kstr(&w, "to", to);
    tn_jw_kbool(&w, "overwrite", overwrite);
    tn_jw_object_end(&w);
    if (!tn_buf_ok(&body))
        return tn_fail(err, TN_E_URI_TOO_LONG, "the path is too long");
    const struct tn_http_call call = {.method = "POST",
                                      .target = "/v1/files/move",
                                      .type = "application/json",
                                      .body = tn_buf_str(&body),
                                      .body_len = body.len,
                                      .deadline = soonest(deadline)};
    int status = tn_http_client_call(f->http, &call, &answer, err);
    if (status < 0)
        return tn_error_context(err, "the hand");
    return status < 300 ? 0 : tn_hand_refused_text(status, tn_buf_str(&answer), answer.len, err);
}
