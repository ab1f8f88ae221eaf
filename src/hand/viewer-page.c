#include "hand/viewer-page.h"

#include <strings.h>
#include <sys/stat.h>

#include "base/base64.h"
#include "hand/embedded.h"
#include "hand/file/path.h"
#include "net/url.h"

enum {
    CHUNK = 48 << 10, /* a multiple of 3: base64 without padding */
    PAGE_MAX = 64 << 10
};

#define HTML "text/html; charset=utf-8"
#define POLICY                                                                         \
    "default-src 'none'; script-src 'self'; worker-src 'self'; connect-src 'self'; "   \
    "object-src 'self'; frame-src 'self'; img-src data: blob:; font-src data: blob:; " \
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

struct kind {
    const char *extension;
    const char *mime;
    void (*show)(struct tn_http_exchange *x, const char *path, const struct kind *kind, int fd);
};

/* How the build may have compressed a script. */
static const struct packing {
    const char *suffix;
    const char *encoding;
} packings[] = {{".br", "br"}, {".gz", "gzip"}};

static const struct script {
    const char *name;
    const char *file; /* among the embedded ones, but for the suffix */
} scripts[] = {
    {"view.js", "web/viewer/view.js"},
    {"pdf.js", "viewer/pdf.js"},
    {"pdf.worker.js", "viewer/pdf.worker.js"},
};

static const struct tn_embedded *find_script(const char *name, const char **encoding)
{
    for (size_t i = 0; i < TN_COUNT(scripts); i++) {
        for (size_t k = 0; k < TN_COUNT(packings) && strcmp(scripts[i].name, name) == 0; k++) {
            tn_autofree char *file = tn_asprintf("%s%s", scripts[i].file, packings[k].suffix);
            const struct tn_embedded *found = tn_embedded_find(file);
            *encoding = packings[k].encoding;
            if (found)
                return found;
        }
    }
    return NULL;
}

/* --- pieces of pages ------------------------------------------------------------------------ */

static void put_escaped(struct tn_buf *out, const char *text)
{
    for (; *text; text++) {
        const char *entity = *text == '&'    ? "&amp;"
                             : *text == '<'  ? "&lt;"
                             : *text == '>'  ? "&gt;"
                             : *text == '"'  ? "&quot;"
                             : *text == '\'' ? "&#39;"
                                             : NULL;
        if (entity)
            tn_buf_puts(out, entity);
        else
            tn_buf_putc(out, *text);
    }
}

static void set_headers(struct tn_http_exchange *x)
{
    tn_http_set_header(x, "X-Content-Type-Options", "nosniff");
    tn_http_set_header(x, "Cross-Origin-Resource-Policy", "same-origin");
    tn_http_set_header(x, "Referrer-Policy", "no-referrer");
    tn_http_set_header(x, "Cache-Control", "no-store");
}

static void set_page_headers(struct tn_http_exchange *x)
{
    set_headers(x);
    tn_http_set_header(x, "Content-Security-Policy", POLICY);
}

static void reply_problem(struct tn_http_exchange *x, int status, const char *title,
                          const char *path, const char *why)
{
    tn_autobuf struct tn_buf html = TN_BUF_INIT(PAGE_MAX);

    tn_buf_printf(&html, "<h1>%s</h1><p>", title);
    put_escaped(&html, path);
    tn_buf_puts(&html, "</p>");
    if (why) {
        tn_buf_puts(&html, "<p>");
        put_escaped(&html, why);
        tn_buf_puts(&html, "</p>");
    }
    set_page_headers(x);
    tn_http_reply(x, status, HTML, tn_buf_str(&html), html.len);
}

static void put_head(struct tn_buf *out, const char *path, const char *more)
{
    tn_buf_puts(out, "<!DOCTYPE html><html><head><meta charset=\"utf-8\"><title>File Viewer - ");
    put_escaped(out, strrchr(path, '/') + 1);
    tn_buf_printf(out, "</title>%s</head><body>", more);
}

/* --- kinds of files ------------------------------------------------------------------------- */

static int write_base64(struct tn_http_exchange *x, int fd)
{
    tn_autofree char *in = tn_malloc(CHUNK);
    tn_autobuf struct tn_buf out = TN_BUF_INIT(CHUNK * 2);

    for (size_t have = 0;;) {
        ssize_t n = read(fd, in + have, CHUNK - have);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        have += (size_t)n;
        if (have < CHUNK && n > 0)
            continue;
        tn_buf_reset(&out);
        tn_base64_encode(&out, in, have);
        if (tn_http_write(x, tn_buf_str(&out), out.len) < 0)
            return -1;
        if (n == 0)
            return 0;
        have = 0;
    }
}

static void show_image(struct tn_http_exchange *x, const char *path, const struct kind *kind,
                       int fd)
{
    tn_autobuf struct tn_buf head = TN_BUF_INIT(PAGE_MAX), tail = TN_BUF_INIT(PAGE_MAX);

    put_head(&head, path, "");
    tn_buf_printf(&head, "<img src=\"data:%s;base64,", kind->mime);
    tn_buf_puts(&tail, "\" alt=\"");
    put_escaped(&tail, strrchr(path, '/') + 1);
    tn_buf_puts(&tail, "\"></body></html>");
    set_page_headers(x);
    tn_http_start(x, 200, HTML, -1);
    if (tn_http_write(x, tn_buf_str(&head), head.len) < 0 || write_base64(x, fd) < 0 ||
        tn_http_write(x, tn_buf_str(&tail), tail.len) < 0)
        tn_http_abort(x);
    else
        tn_http_end(x);
}

/* Every browser of our time does, on this machine; what does not gets what it can show. */
static bool can_draw_pdf(struct tn_http_exchange *x)
{
    const char *accepted = tn_http_header(x, "Accept-Encoding"), *encoding = NULL;

    return find_script("pdf.js", &encoding) && accepted && strstr(accepted, encoding);
}

/* The first canvas is there before any script runs: who looks early still sees one. */
static void show_pdf(struct tn_http_exchange *x, const char *path, const struct kind *kind, int fd)
{
    tn_autobuf struct tn_buf html = TN_BUF_INIT(PAGE_MAX);

    if (can_draw_pdf(x)) {
        put_head(&html, path,
                 "<script src=\"script/pdf.js\" defer></script>"
                 "<script src=\"script/view.js\" defer></script>");
        tn_buf_puts(&html, "<canvas class=\"page\" aria-label=\"Page 1\"></canvas>");
    } else {
        put_head(&html, path, "");
        tn_buf_printf(&html, "<embed type=\"%s\" width=\"100%%\" height=\"1000\" src=\"file?path=",
                      kind->mime);
        tn_url_encode(&html, path, "/");
        tn_buf_puts(&html, "\">");
    }
    tn_buf_puts(&html, "</body></html>");
    set_page_headers(x);
    tn_http_reply(x, 200, HTML, tn_buf_str(&html), html.len);
}

static const struct kind kinds[] = {
    {".pdf", "application/pdf", show_pdf}, {".png", "image/png", show_image},
    {".jpg", "image/jpeg", show_image},    {".jpeg", "image/jpeg", show_image},
    {".gif", "image/gif", show_image},
};

static const struct kind *kind_of(const char *extension)
{
    for (size_t i = 0; i < TN_COUNT(kinds); i++) {
        if (strcasecmp(kinds[i].extension, extension) == 0)
            return &kinds[i];
    }
    return NULL;
}

/* --- requests ------------------------------------------------------------------------------- */

static int open_as(const struct tn_agent_user *user, const char *path, struct stat *st,
                   struct tn_error *err)
{
    struct tn_file_user who = {.uid = user->account.uid,
                               .gid = user->account.gid,
                               .groups = user->groups,
                               .group_count = user->group_count};
    tn_autoact struct tn_act_as as = {0};

    return tn_file_act_as(&as, &who, err) < 0 ? -1 : tn_file_open(path, st, err);
}

/* The file that the request names and its kind, or -1 after an answer that says why not. */
static int open_requested(struct tn_http_exchange *x, const struct tn_agent_user *user,
                          const struct kind **kind, struct stat *st)
{
    const char *path = tn_http_query(x, "path");
    struct tn_error err = {0};

    if (!path) {
        tn_http_reply_detail(x, 422, "Invalid request parameters");
        return -1;
    }
    if (path[0] != '/') {
        reply_problem(x, 400, "Error: Path must be absolute", path, NULL);
        return -1;
    }
    tn_autofd int fd = open_as(user, path, st, &err);
    if (fd < 0 && (err.sys == ENOENT || err.sys == ENOTDIR)) {
        reply_problem(x, 404, "Error: File not found", path, NULL);
        return -1;
    }
    if (fd < 0) {
        reply_problem(x, 500, "Error viewing file", path,
                      err.sys ? tn_strerror(err.sys) : err.text);
        return -1;
    }
    if (S_ISDIR(st->st_mode)) {
        reply_problem(x, 400, "Error: Path is a directory", path, NULL);
        return -1;
    }
    const char *dot = strrchr(strrchr(path, '/'), '.');
    *kind = dot ? kind_of(dot) : NULL;
    if (!*kind) {
        tn_autobuf struct tn_buf why = TN_BUF_INIT(8 << 10);
        tn_buf_puts(&why, "Unsupported file extension: ");
        for (const char *p = dot ? dot : ""; *p; p++)
            tn_buf_putc(&why, *p >= 'A' && *p <= 'Z' ? (char)(*p - 'A' + 'a') : *p);
        tn_buf_puts(&why, ". Supported extensions are: ");
        for (size_t i = 0; i < TN_COUNT(kinds); i++)
            tn_buf_printf(&why, "%s%s", i ? ", " : "", kinds[i].extension);
        reply_problem(x, 500, "Error viewing file", path, tn_buf_str(&why));
        return -1;
    }
    if (!S_ISREG(st->st_mode)) {
        reply_problem(x, 500, "Error viewing file", path, "Not a regular file");
        return -1;
    }
    return TN_TAKE_FD(fd);
}

void viewer_view(struct tn_http_exchange *x, void *user)
{
    const struct kind *kind = NULL;
    struct stat st;
    tn_autofd int fd = open_requested(x, user, &kind, &st);

    if (fd >= 0)
        kind->show(x, tn_http_query(x, "path"), kind, fd);
}

void viewer_file(struct tn_http_exchange *x, void *user)
{
    const struct kind *kind = NULL;
    struct stat st;
    tn_autofd int fd = open_requested(x, user, &kind, &st);

    if (fd < 0)
        return;
    if (kind->show != show_pdf) {
        tn_http_reply_detail(x, 404, "Not Found");
        return;
    }
    set_headers(x);
    if (tn_http_start(x, 200, kind->mime, st.st_size) < 0)
        return;
    if (tn_http_write_file(x, fd, 0, st.st_size) < 0)
        tn_http_abort(x);
    else
        tn_http_end(x);
}

void viewer_script(struct tn_http_exchange *x, void *user)
{
    const char *encoding = NULL;
    const struct tn_embedded *file = find_script(tn_http_param(x, "name"), &encoding);

    if (!file) {
        tn_http_reply_detail(x, 404, "Not Found");
        return;
    }
    set_page_headers(x); /* a worker has a policy of its own */
    tn_http_set_header(x, "Content-Encoding", encoding);
    tn_http_reply(x, 200, "text/javascript; charset=utf-8", file->bytes, file->size);
}

bool viewer_allow(struct tn_http_exchange *x, void *user)
{
    static const char *const ours[] = {"localhost", "127.0.0.1", "[::1]"};
    const char *host = tn_http_header(x, "Host");

    for (size_t i = 0; host && i < TN_COUNT(ours); i++) {
        size_t n = strlen(ours[i]);
        if (strncasecmp(host, ours[i], n) == 0 && (host[n] == '\0' || host[n] == ':'))
            return true;
    }
    reply_problem(x, 403, "Access Denied", host ? host : "", "Only local access is allowed");
    return false;
}
