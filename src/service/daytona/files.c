/* Files of the toolbox. */
#include <math.h>
#include <sys/mman.h>

#include "base/utc.h"
#include "net/multipart.h"
#include "net/url.h"
#include "service/daytona/daytona.h"
#include "service/openhands.h"

#define BOUNDARY "DAYTONA-FILE-BOUNDARY"
enum {
    PIECE = 4 << 20,
    ENTRIES_MAX = 100000,
    DEPTH_MAX = 32,
    FILES_MAX = 10000, /* of one upload: clients send as many as they are given at once */
    REPLACE_FILES = 64,
    PATH_BYTES = 4096,
    REPLACE_MAX = 16 << 20
};

static int64_t soon(void)
{
    return tn_deadline_in(DAYTONA_SECONDS);
}

/* --- what is there --------------------------------------------------------------------------- */

static void put_entry(struct tn_jw *w, const char *path, const struct tn_entry *e)
{
    char mode[11], octal[8], time[64];
    struct tm utc;

    surface_mode_text(e, mode);
    snprintf(octal, sizeof octal, "%04o", (unsigned)e->mode & 07777);
    tn_utc((int64_t)floor(e->mtime), &utc);
    snprintf(time, sizeof time, "%04d-%02d-%02d %02d:%02d:%02d +0000 UTC", utc.tm_year + 1900,
             utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec);
    tn_jw_object(w);
    tn_jw_kstr(w, "name", e->name);
    tn_jw_kstr(w, "path", path);
    tn_jw_kbool(w, "isDir", e->type == TN_ENTRY_DIRECTORY);
    tn_jw_kint(w, "size", e->size);
    tn_jw_kstr(w, "modTime", time);
    openhands_put_time(w, "modifiedAt", e->mtime);
    tn_jw_kstr(w, "mode", mode);
    tn_jw_kstr(w, "permissions", octal);
    surface_put_owner(w, "owner", e->uid);
    surface_put_owner(w, "group", e->gid);
    tn_jw_object_end(w);
}

struct walk {
    struct daytona_call *c;
    struct tn_hand_files *f;
    struct tn_jw *w;
    const char *dir;
    int64_t depth; /* that are still to go down */
    size_t *count;
    int64_t deadline; /* of all of it */
};

/* A directory that went away meanwhile, or may not be read, is left out. */
static int list_entry(const struct tn_entry *e, void *ctx, struct tn_error *err)
{
    struct walk *walk = ctx;
    tn_autofree char *path = tn_asprintf("%s/%s", walk->dir[1] ? walk->dir : "", e->name);
    struct walk below = *walk;
    struct tn_error why = {0};

    if (++*walk->count > ENTRIES_MAX || !tn_buf_ok(walk->w->out))
        return tn_fail(err, TN_E_TOO_LARGE, "more than %d entries", ENTRIES_MAX);
    put_entry(walk->w, path, e);
    if (e->type != TN_ENTRY_DIRECTORY || walk->depth <= 1)
        return 0;
    if (tn_http_peer_gone(walk->c->x))
        return tn_fail(err, TN_E_GONE, "the client is gone");
    below.dir = path;
    below.depth--;
    if (tn_hand_files_list(walk->f, path, list_entry, &below, walk->deadline, &why) == 0 ||
        why.code == TN_E_NOT_FOUND || why.code == TN_E_DENIED)
        return 0;
    *err = why;
    return -1;
}

static void get_list(struct daytona_call *c)
{
    tn_autobuf struct tn_buf json = ANSWER_BUF(c->x, DAYTONA_ANSWER_MAX);
    const char *given = tn_http_query(c->x, "path");
    tn_autofree char *path = surface_path(c->home, given);
    struct tn_jw w = tn_jw(&json);
    struct tn_error err = {0};
    int64_t depth = 1;
    size_t count = 0;

    if (native_query_int(c->x, "depth", 1, DEPTH_MAX, &depth))
        return;
    tn_autofiles struct tn_hand_files *f = daytona_files(c);
    struct walk walk = {
        .c = c, .f = f, .w = &w, .dir = path, .depth = depth, .count = &count, .deadline = soon()};
    if (!f)
        return;
    tn_jw_array(&w);
    if (tn_hand_files_list(f, path, list_entry, &walk, walk.deadline, &err)) {
        err.code = err.code == TN_E_CONFLICT ? TN_E_INVALID : err.code;
        reply_error(c->x, &err);
        return;
    }
    tn_jw_array_end(&w);
    tn_http_reply_json(c->x, 200, &json);
}

static void get_info(struct daytona_call *c)
{
    tn_autofree char *path = daytona_query_path(c, "path");
    tn_autobuf struct tn_buf json = TN_BUF_INIT(64 << 10);
    tn_autoentry struct tn_entry e = {0};
    struct tn_jw w = tn_jw(&json);
    struct tn_error err = {0};

    if (!path)
        return;
    tn_autofiles struct tn_hand_files *f = daytona_files(c);
    if (!f)
        return;
    if (tn_hand_files_stat(f, path, true, &e, soon(), &err)) {
        reply_error(c->x, &err);
        return;
    }
    put_entry(&w, path, &e);
    tn_http_reply_json(c->x, 200, &json);
}

/* --- changes --------------------------------------------------------------------------------- */

static void finish(struct daytona_call *c, int status, int failed, const struct tn_error *err)
{
    if (failed)
        reply_error(c->x, err);
    else
        tn_http_reply(c->x, status, NULL, NULL, 0);
}

static void delete_file(struct daytona_call *c)
{
    tn_autofree char *path = daytona_query_path(c, "path");
    const char *recursive = tn_http_query(c->x, "recursive");
    struct tn_error err = {0};

    if (!path)
        return;
    tn_autofiles struct tn_hand_files *f = daytona_files(c);
    if (!f)
        return;
    bool all = recursive && strcmp(recursive, "true") == 0;
    finish(c, 204, tn_hand_files_remove(f, path, all, soon(), &err), &err);
}

/* -1: it is no mode. */
static int read_mode(const char *text)
{
    char *end;
    long mode = text && *text ? strtol(text, &end, 8) : 0755;

    return text && *text && (*end || mode < 0 || mode > 07777) ? -1 : (int)mode;
}

static void post_folder(struct daytona_call *c)
{
    tn_autofree char *path = daytona_query_path(c, "path");
    int mode = read_mode(tn_http_query(c->x, "mode"));
    struct tn_error err = {0};

    if (!path)
        return;
    if (mode < 0) {
        daytona_fail(c->x, 400, NULL, "mode: expected octal digits");
        return;
    }
    tn_autofiles struct tn_hand_files *f = daytona_files(c);
    if (f)
        finish(c, 201, tn_hand_files_mkdir(f, path, mode, soon(), &err), &err);
}

static void post_move(struct daytona_call *c)
{
    tn_autofree char *from = daytona_query_path(c, "source");
    tn_autofree char *to = from ? daytona_query_path(c, "destination") : NULL;
    struct tn_error err = {0};

    if (!to)
        return;
    tn_autofiles struct tn_hand_files *f = daytona_files(c);
    if (f)
        finish(c, 200, tn_hand_files_move(f, from, to, true, soon(), &err), &err);
}

/* -1: answered. */
static int run_or_say(struct daytona_call *c, const char *const *args)
{
    autodone struct daytona_done done = DAYTONA_DONE(c->x);

    if (daytona_run(c, args, NULL, &done))
        return -1;
    if (done.exit_code == 0)
        return 0;
    return daytona_fail(c->x, strstr(tn_buf_str(&done.both), "No such file") ? 404 : 403, NULL,
                        "%.500s", tn_buf_str(&done.both));
}

static void post_permissions(struct daytona_call *c)
{
    tn_autofree char *path = daytona_query_path(c, "path");
    const char *mode = tn_http_query(c->x, "mode"), *owner = tn_http_query(c->x, "owner");
    const char *group = tn_http_query(c->x, "group");
    tn_autofree char *who = tn_asprintf("%s:%s", owner ? owner : "", group ? group : "");

    if (!path)
        return;
    if (mode && *mode && read_mode(mode) < 0) {
        daytona_fail(c->x, 400, NULL, "mode: expected octal digits");
        return;
    }
    if (mode && *mode && run_or_say(c, (const char *const[]){"chmod", mode, "--", path, NULL}))
        return;
    if (who[1] && run_or_say(c, (const char *const[]){"chown", "--", who, path, NULL}))
        return;
    tn_http_reply(c->x, 200, NULL, NULL, 0);
}

/* --- up and down ------------------------------------------------------------------------------ */

static ssize_t read_body(void *ctx, void *to, size_t n, struct tn_error *err)
{
    return tn_http_read(ctx, to, n, err);
}

/* A part on its way into a file. */
struct upload {
    struct tn_multipart *m;
    int64_t bytes;
};

static ssize_t read_part(void *ctx, void *to, size_t n, struct tn_error *err)
{
    struct upload *u = ctx;
    ssize_t got = tn_multipart_read(u->m, to, n, err);

    u->bytes += got > 0 ? got : 0;
    return got;
}

static int store(struct daytona_call *c, struct tn_hand_files *f, struct tn_multipart *m,
                 const char *given, struct tn_jw *w, struct tn_error *err)
{
    tn_autofree char *path = surface_path(c->home, given);
    struct upload u = {.m = m};

    if (tn_hand_files_store(f, path, read_part, &u, -1, -1, TN_NEVER, err))
        return -1;
    tn_jw_object(w);
    tn_jw_kstr(w, "path", path);
    tn_jw_kstr(w, "name", strrchr(path, '/') + 1);
    tn_jw_kstr(w, "type", "file");
    tn_jw_kint(w, "bytes", u.bytes);
    tn_jw_object_end(w);
    return 0;
}

/* Where the files of a form go: some clients send all paths before the first file. */
struct places {
    struct tn_held held;
    char **at;
    size_t count;
};

static void places_done(struct places *p)
{
    for (size_t i = 0; i < p->count; i++)
        free(p->at[i]);
    free(p->at);
    tn_guard_held(&p->held);
}
#define autoplaces TN_CLEANUP(places_done)

static int hold(struct places *p, size_t bytes, struct tn_error *err)
{
    if (!tn_purse_take(p->held.purse, bytes))
        return tn_fail(err, TN_E_TOO_LARGE, "the paths of so many files take too much memory");
    p->held.bytes += bytes;
    return 0;
}

static int read_place(struct places *p, size_t i, struct tn_multipart *m, struct tn_error *err)
{
    char text[PATH_BYTES] = "";
    size_t n = 0, count = i < 2 * p->count ? 2 * p->count : i + 1;
    ssize_t got;

    while ((got = tn_multipart_read(m, text + n, PATH_BYTES - 1 - n, err)) > 0)
        n += (size_t)got;
    if (got < 0)
        return -1;
    if (n == 0 || n == PATH_BYTES - 1 || strlen(text) != n)
        return tn_fail(err, TN_E_INVALID, "files[%zu].path: empty, too long, or with a NUL", i);
    if (i >= p->count) {
        if (hold(p, (count - p->count) * sizeof *p->at, err))
            return -1;
        p->at = tn_realloc(p->at, count * sizeof *p->at);
        memset(p->at + p->count, 0, (count - p->count) * sizeof *p->at);
        p->count = count;
    }
    if (p->at[i])
        return tn_fail(err, TN_E_INVALID, "files[%zu].path: said twice", i);
    if (hold(p, n + 1, err))
        return -1;
    p->at[i] = tn_strdup(text);
    return 0;
}

/* "files[3].path" and "files[3].file": 1.  0: the part is something else; -1: no such file. */
static int read_name(const char *name, size_t *i, bool *is_path, struct tn_error *err)
{
    static const char start[] = "files[";
    size_t digits;
    char *end;

    if (strncmp(name, start, sizeof start - 1) != 0)
        return 0;
    name += sizeof start - 1;
    digits = strspn(name, "0123456789");
    long index = strtol(name, &end, 10);
    if (!digits || (strcmp(end, "].path") != 0 && strcmp(end, "].file") != 0))
        return tn_fail(err, TN_E_INVALID, "expected parts files[NUMBER].path and .file");
    if (index >= FILES_MAX)
        return tn_fail(err, TN_E_INVALID, "more than %d files in one upload", FILES_MAX);
    *i = (size_t)index;
    *is_path = end[2] == 'p';
    return 1;
}

/* A part that is none of ours is passed over, one that would be a file is never. */
static int take_part(struct daytona_call *c, struct tn_hand_files *f, struct tn_multipart *m,
                     const char *name, struct places *p, struct tn_jw *w, struct tn_error *err)
{
    bool is_path = false;
    size_t i = 0;
    int known = read_name(name, &i, &is_path, err);

    if (known <= 0)
        return known;
    if (is_path)
        return read_place(p, i, m, err);
    if (i >= p->count || !p->at[i])
        return tn_fail(err, TN_E_INVALID, "files[%zu].file: its path must come before it", i);
    return store(c, f, m, p->at[i], w, err);
}

static int store_parts(struct daytona_call *c, struct tn_hand_files *f, struct tn_multipart *m,
                       const char *only, struct tn_jw *w, struct tn_error *err)
{
    autoplaces struct places p = {.held = {.purse = purse_of(c->x)}};
    const struct tn_part *part;
    int next;

    tn_multipart_allow(m, 2 * FILES_MAX);
    while ((next = tn_multipart_next(m, &part, err)) == 1) {
        bool wanted = only && strcmp(part->name, "file") == 0; /* a link is to one file */
        if (wanted ? store(c, f, m, only, w, err)
                   : !only && take_part(c, f, m, part->name, &p, w, err))
            return -1;
    }
    return next;
}

/* only: the path of the only file; NULL: each has its own. */
static void upload(struct daytona_call *c, const char *only)
{
    tn_autobuf struct tn_buf json = ANSWER_BUF(c->x, DAYTONA_ANSWER_MAX);
    const char *type = tn_http_header(c->x, "Content-Type");
    struct tn_jw w = tn_jw(&json);
    struct tn_error err = {0};

    tn_autofiles struct tn_hand_files *f = daytona_files(c);
    if (!f)
        return;
    tn_jw_object(&w);
    tn_jw_key(&w, "files");
    tn_jw_array(&w);
    struct tn_multipart *m = tn_multipart_new(type ? type : "", read_body, c->x, &err);
    int failed = !m || store_parts(c, f, m, only, &w, &err);
    tn_multipart_free(m);
    tn_jw_array_end(&w);
    tn_jw_object_end(&w);
    if (failed)
        reply_error(c->x, &err);
    else
        tn_http_reply_json(c->x, 200, &json);
}

static void post_upload(struct daytona_call *c)
{
    tn_autofree char *path = daytona_query_path(c, "path");

    if (path)
        upload(c, path);
}

static void bulk_upload(struct daytona_call *c)
{
    upload(c, NULL);
}

static void get_download(struct daytona_call *c)
{
    tn_autofree char *path = daytona_query_path(c, "path");

    if (!path)
        return;
    tn_autofiles struct tn_hand_files *f = daytona_files(c);
    if (f)
        surface_send_file(c->x, c->b, f, path);
}

/* Clients look for the very name that they have asked for: one that a header cannot hold as it is
 * stands there as RFC 5987 has it. */
static void put_file_name(struct tn_buf *head, const char *path)
{
    bool plain = true;

    for (const char *c = path; *c; c++)
        plain = plain && *c >= ' ' && *c < 0x7f && !strchr("\"\\%", *c);
    tn_buf_puts(head, plain ? "filename=\"" : "filename*=UTF-8''");
    if (plain)
        tn_buf_puts(head, path);
    else
        tn_url_encode(head, path, "");
    tn_buf_puts(head, plain ? "\"" : "");
}

static int part_head(struct daytona_call *c, const char *name, const char *path, const char *type,
                     int64_t size)
{
    tn_autobuf struct tn_buf head = TN_BUF_INIT(16 << 10);

    tn_buf_printf(&head, "--" BOUNDARY "\r\nContent-Disposition: form-data; name=\"%s\"; ", name);
    put_file_name(&head, path);
    tn_buf_printf(&head, "\r\nContent-Type: %s\r\nContent-Length: %lld\r\n\r\n", type,
                  (long long)size);
    return tn_buf_ok(&head) ? tn_http_write(c->x, head.data, head.len) : -1;
}

static int send_error_part(struct daytona_call *c, const char *path, const struct tn_error *why)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(16 << 10);
    struct tn_jw w = tn_jw(&json);
    int status = tn_code_row(why->code)->http_status;

    tn_jw_object(&w);
    tn_jw_kint(&w, "statusCode", status);
    tn_jw_kstr(&w, "message", why->text);
    tn_jw_kstr(&w, "code",
               status == 404   ? "FILE_NOT_FOUND"
               : status == 403 ? "FILE_ACCESS_DENIED"
               : status == 400 ? "INVALID_FILE_PATH"
                               : "FILE_READ_FAILED");
    tn_jw_kstr(&w, "source", "DAYTONA_DAEMON");
    tn_jw_object_end(&w);
    return part_head(c, "error", path, "application/json", (int64_t)json.len) ||
                   tn_http_write(c->x, json.data, json.len)
               ? -1
               : tn_http_write(c->x, "\r\n", 2);
}

/* In pieces through a descriptor in memory: a file may be of any size.  -1: the stream is over. */
static int send_bytes(struct daytona_call *c, struct tn_hand_files *f, const char *path,
                      int64_t size)
{
    tn_autoheld struct tn_held held = {.purse = purse_of(c->x)};
    tn_autofd int fd = memfd_create("download", MFD_CLOEXEC);
    size_t most = size > PIECE ? PIECE : size > 0 ? (size_t)size : 0;

    if (!tn_purse_take(held.purse, most))
        return -1;
    held.bytes = most;
    for (int64_t at = 0; at < size;) {
        int64_t n = size - at < PIECE ? size - at : PIECE;
        if (fd < 0 || ftruncate(fd, 0) || lseek(fd, 0, SEEK_SET) < 0 ||
            tn_hand_files_read(f, path, at, n, fd, NULL, NULL, TN_NEVER, NULL) != n ||
            tn_http_write_file(c->x, fd, 0, n))
            return -1;
        at += n;
    }
    return tn_http_write(c->x, "\r\n", 2);
}

static int send_part(struct daytona_call *c, struct tn_hand_files *f, const char *given)
{
    tn_autofree char *path = surface_path(c->home, given);
    tn_autoentry struct tn_entry e = {0};
    struct tn_error err = {0};

    if (tn_hand_files_stat(f, path, true, &e, soon(), &err) == 0 && e.type != TN_ENTRY_FILE)
        tn_fail(&err, TN_E_INVALID, "%.400s is no file", path);
    /* Whether it can be read, before anything is said. */
    if (!err.code && e.size > 0) {
        tn_autofd int fd = memfd_create("first", MFD_CLOEXEC);
        tn_hand_files_read(f, path, 0, 1, fd, NULL, NULL, soon(), &err);
    }
    if (err.code)
        return send_error_part(c, given, &err);
    return part_head(c, "file", given, "application/octet-stream", e.size) ||
                   send_bytes(c, f, path, e.size)
               ? -1
               : 0;
}

static void bulk_download(struct daytona_call *c)
{
    tn_autojson struct tn_json *body = NULL;

    if (surface_body(c->x, DAYTONA_BODY_MAX, &body))
        return;
    const struct tn_json *paths = tn_json_get(body, "paths");
    size_t count = tn_json_count(paths);
    for (size_t i = 0; i < count || !count; i++)
        if (!count || !tn_json_str(tn_json_at(paths, i), NULL)) {
            daytona_fail(c->x, 400, NULL, "paths: expected a list of paths");
            return;
        }
    tn_autofiles struct tn_hand_files *f = daytona_files(c);
    if (!f || tn_http_start(c->x, 200, "multipart/form-data; boundary=" BOUNDARY, -1))
        return;
    for (size_t i = 0; i < count; i++)
        if (send_part(c, f, tn_json_str(tn_json_at(paths, i), NULL))) {
            tn_http_abort(c->x);
            return;
        }
    tn_http_write(c->x, "--" BOUNDARY "--\r\n", sizeof BOUNDARY - 1 + 6);
    tn_http_end(c->x);
}

/* --- search ----------------------------------------------------------------------------------- */

/* "FILE:LINE:CONTENT": the first number between colons is the line's. */
static void put_match(struct tn_jw *w, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t digits = text[i] == ':' ? strspn(text + i + 1, "0123456789") : 0;
        if (!digits || i + 1 + digits >= n || text[i + 1 + digits] != ':')
            continue;
        tn_jw_object(w);
        tn_jw_key(w, "file");
        tn_jw_strn(w, text, i);
        tn_jw_kint(w, "line", strtoll(text + i + 1, NULL, 10));
        tn_jw_key(w, "content");
        tn_jw_strn(w, text + i + digits + 2, n - i - digits - 2);
        tn_jw_object_end(w);
        return;
    }
}

static void put_name(struct tn_jw *w, const char *text, size_t n)
{
    tn_jw_strn(w, text, n);
}

/* Runs it and answers with its lines; member NULL: they are the answer. */
static void answer_lines(struct daytona_call *c, const char *const *args, const char *member,
                         void (*put)(struct tn_jw *w, const char *text, size_t n))
{
    tn_autobuf struct tn_buf json = ANSWER_BUF(c->x, 2 * DAYTONA_ANSWER_MAX);
    autodone struct daytona_done done = DAYTONA_DONE(c->x);
    struct tn_jw w = tn_jw(&json);

    done.apart = true;
    if (daytona_run(c, args, NULL, &done))
        return;
    if (done.exit_code > 1 && !done.out.len) {
        daytona_fail(c->x, strstr(tn_buf_str(&done.err), "No such file") ? 404 : 400, NULL,
                     "%.500s", tn_buf_str(&done.err));
        return;
    }
    if (member) {
        tn_jw_object(&w);
        tn_jw_key(&w, member);
    }
    tn_jw_array(&w);
    const char *at = tn_buf_str(&done.out), *end = at + done.out.len;
    for (size_t n; at < end; at += n + 1) {
        n = strcspn(at, "\n");
        if (n)
            put(&w, at, n);
    }
    tn_jw_array_end(&w);
    if (member)
        tn_jw_object_end(&w);
    tn_http_reply_json(c->x, 200, &json);
}

static void search(struct daytona_call *c, bool content)
{
    tn_autofree char *path = daytona_query_path(c, "path");
    const char *pattern = tn_http_query(c->x, "pattern");

    if (!path)
        return;
    if (!pattern || !*pattern) {
        daytona_fail(c->x, 400, NULL, "pattern: expected a text");
        return;
    }
    if (content)
        answer_lines(c, (const char *const[]){"grep", "-rnHF", "-e", pattern, "--", path, NULL},
                     NULL, put_match);
    else
        answer_lines(c, (const char *const[]){"find", path, "-name", pattern, NULL}, "files",
                     put_name);
}

static void get_find(struct daytona_call *c)
{
    search(c, true);
}

static void get_search(struct daytona_call *c)
{
    search(c, false);
}

/* --- replace ---------------------------------------------------------------------------------- */

/* Every place where the pattern is, from the left. */
static void replace_all(const char *text, size_t n, const char *pattern, const char *value,
                        struct tn_buf *out)
{
    size_t length = strlen(pattern);
    const char *end = text + n, *found;

    while ((found = memmem(text, (size_t)(end - text), pattern, length))) {
        tn_buf_add(out, text, (size_t)(found - text));
        tn_buf_puts(out, value);
        text = found + length;
    }
    tn_buf_add(out, text, (size_t)(end - text));
}

static int add_piece(const void *bytes, size_t n, void *ctx, struct tn_error *err)
{
    struct tn_buf *to = ctx;

    if (tn_buf_add(to, bytes, n) == 0)
        return 0;
    return tn_buf_poor(to)
               ? tn_fail(err, TN_E_BUSY, "There is no memory for it just now; try again")
               : tn_fail(err, TN_E_TOO_LARGE, "more than %d MiB", REPLACE_MAX >> 20);
}

static int replace_in(struct daytona_call *c, struct tn_hand_files *f, const char *path,
                      const char *pattern, const char *value, int64_t deadline,
                      struct tn_error *err)
{
    tn_autobuf struct tn_buf before = ANSWER_BUF(c->x, REPLACE_MAX);
    tn_autobuf struct tn_buf after = ANSWER_BUF(c->x, 4 * REPLACE_MAX);

    if (tn_hand_files_fetch(f, path, add_piece, &before, deadline, err) < 0)
        return -1;
    replace_all(tn_buf_str(&before), before.len, pattern, value, &after);
    if (!tn_buf_ok(&after))
        return tn_fail(err, TN_E_TOO_LARGE, "it would become too large");
    return tn_hand_files_put(f, path, tn_buf_str(&after), after.len, deadline, err);
}

static void post_replace(struct daytona_call *c)
{
    tn_autobuf struct tn_buf json = ANSWER_BUF(c->x, DAYTONA_ANSWER_MAX);
    tn_autojson struct tn_json *body = NULL;
    struct tn_jw w = tn_jw(&json);

    if (surface_body(c->x, DAYTONA_BODY_MAX, &body))
        return;
    const struct tn_json *files = tn_json_get(body, "files");
    const char *pattern = tn_json_get_str(body, "pattern", NULL);
    const char *value = tn_json_get_str(body, "newValue", NULL);
    if (!pattern || !*pattern || !value) {
        daytona_fail(c->x, 400, NULL, "pattern and newValue: expected texts");
        return;
    }
    if (tn_json_count(files) > REPLACE_FILES) {
        daytona_fail(c->x, 400, NULL, "files: at most %d at once", REPLACE_FILES);
        return;
    }
    tn_autofiles struct tn_hand_files *f = daytona_files(c);
    if (!f)
        return;
    int64_t deadline = soon();
    tn_jw_array(&w);
    for (size_t i = 0; i < tn_json_count(files) && !tn_http_peer_gone(c->x); i++) {
        const char *given = tn_json_str(tn_json_at(files, i), NULL);
        tn_autofree char *path = surface_path(c->home, given ? given : "");
        struct tn_error err = {0};
        int failed = replace_in(c, f, path, pattern, value, deadline, &err);
        tn_jw_object(&w);
        tn_jw_kstr(&w, "file", given ? given : "");
        tn_jw_kbool(&w, "success", !failed);
        if (failed)
            tn_jw_kstr(&w, "error", err.text);
        tn_jw_object_end(&w);
    }
    tn_jw_array_end(&w);
    tn_http_reply_json(c->x, 200, &json);
}

const struct daytona_row daytona_files_rows[] = {
    {"GET", "files", get_list, NULL},
    {"GET", "files/", get_list, NULL},
    {"DELETE", "files", delete_file, NULL},
    {"DELETE", "files/", delete_file, NULL},
    {"GET", "files/info", get_info, NULL},
    {"POST", "files/folder", post_folder, NULL},
    {"POST", "files/move", post_move, NULL},
    {"POST", "files/permissions", post_permissions, NULL},
    {"POST", "files/upload", post_upload, NULL},
    {"POST", "files/upload-v2", post_upload, NULL},
    {"POST", "files/bulk-upload", bulk_upload, NULL},
    {"GET", "files/download", get_download, NULL},
    {"POST", "files/bulk-download", bulk_download, NULL},
    {"GET", "files/find", get_find, NULL},
    {"GET", "files/search", get_search, NULL},
    {"POST", "files/replace", post_replace, NULL},
    {0},
};
