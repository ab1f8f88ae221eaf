#include "hand/viewer.h"

#include <fcntl.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "base/base64.h"
#include "net/listen.h"

#define URL_FILE "/tmp/oh-server-url"
enum {
    TRIES = 10,
    PORT_SPAN = 1024,
    CHUNK = 48 << 10 /* a multiple of 3: base64 without padding */
};

static const struct kind {
    const char *extension;
    const char *mime;
    const char *before, *after; /* around the data URL */
} kinds[] = {
    {".pdf", "application/pdf",
     "<embed type=\"application/pdf\" width=\"100%\" height=\"1000\" src=\"", "\">"},
    {".png", "image/png", "<img src=\"", "\""},
    {".jpg", "image/jpeg", "<img src=\"", "\""},
    {".jpeg", "image/jpeg", "<img src=\"", "\""},
    {".gif", "image/gif", "<img src=\"", "\""},
};

static void put_escaped(struct tn_buf *out, const char *text)
{
    for (; *text; text++) {
        const char *entity = *text == '&'   ? "&amp;"
                             : *text == '<' ? "&lt;"
                             : *text == '>' ? "&gt;"
                             : *text == '"' ? "&quot;"
                                            : NULL;
        if (entity)
            tn_buf_puts(out, entity);
        else
            tn_buf_putc(out, *text);
    }
}

static void reply_problem(struct tn_http_exchange *x, int status, const char *title,
                          const char *path, const char *why)
{
    tn_autobuf struct tn_buf html = TN_BUF_INIT(64 << 10);

    tn_buf_printf(&html, "<h1>%s</h1><p>", title);
    put_escaped(&html, path);
    tn_buf_puts(&html, "</p>");
    if (why) {
        tn_buf_puts(&html, "<p>");
        put_escaped(&html, why);
        tn_buf_puts(&html, "</p>");
    }
    tn_http_reply(x, status, "text/html; charset=utf-8", tn_buf_str(&html), html.len);
}

static const struct kind *kind_of(const char *extension)
{
    for (size_t i = 0; i < TN_COUNT(kinds); i++) {
        if (strcasecmp(kinds[i].extension, extension) == 0)
            return &kinds[i];
    }
    return NULL;
}

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

static void show_file(struct tn_http_exchange *x, const char *path, const struct kind *kind, int fd)
{
    const char *slash = strrchr(path, '/');
    tn_autobuf struct tn_buf head = TN_BUF_INIT(64 << 10), tail = TN_BUF_INIT(64 << 10);

    tn_buf_puts(&head, "<!DOCTYPE html><html><head><meta charset=\"utf-8\"><title>File Viewer - ");
    put_escaped(&head, slash + 1);
    tn_buf_printf(&head, "</title></head><body>%sdata:%s;base64,", kind->before, kind->mime);
    tn_buf_puts(&tail, kind->after);
    if (kind->mime[0] == 'i') {
        tn_buf_puts(&tail, " alt=\"");
        put_escaped(&tail, slash + 1);
        tn_buf_puts(&tail, "\">");
    }
    tn_buf_puts(&tail, "</body></html>");
    tn_http_start(x, 200, "text/html; charset=utf-8", -1);
    if (tn_http_write(x, tn_buf_str(&head), head.len) < 0 || write_base64(x, fd) < 0 ||
        tn_http_write(x, tn_buf_str(&tail), tail.len) < 0)
        tn_http_abort(x);
    else
        tn_http_end(x);
}

static int open_as(const struct tn_agent_user *user, const char *path)
{
    tn_autoact struct tn_act_as as = {0};

    if (user->switch_user && tn_act_as_begin(&as, user->account.uid, user->account.gid,
                                             user->groups, user->group_count, NULL) < 0) {
        errno = EACCES;
        return -1;
    }
    return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

static void view(struct tn_http_exchange *x, void *ctx)
{
    const char *path = tn_http_query(x, "path");
    struct stat st;

    if (!path) {
        tn_http_reply_detail(x, 422, "Invalid request parameters");
        return;
    }
    if (path[0] != '/') {
        reply_problem(x, 400, "Error: Path must be absolute", path, NULL);
        return;
    }
    tn_autofd int fd = open_as(ctx, path);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR)) {
        reply_problem(x, 404, "Error: File not found", path, NULL);
        return;
    }
    if (fd < 0 || fstat(fd, &st) < 0) {
        reply_problem(x, 500, "Error viewing file", path, tn_strerror(errno));
        return;
    }
    if (S_ISDIR(st.st_mode)) {
        reply_problem(x, 400, "Error: Path is a directory", path, NULL);
        return;
    }
    const char *dot = strrchr(strrchr(path, '/'), '.');
    const struct kind *kind = dot ? kind_of(dot) : NULL;
    if (!kind || !S_ISREG(st.st_mode)) {
        tn_autobuf struct tn_buf why = TN_BUF_INIT(8 << 10);
        tn_buf_printf(
            &why,
            "Unsupported file extension: %s. Supported extensions are: .pdf, .png, .jpg, .jpeg, .gif",
            dot ? dot : "");
        reply_problem(x, 500, "Error viewing file", path, tn_buf_str(&why));
        return;
    }
    show_file(x, path, kind, fd);
}

static void root(struct tn_http_exchange *x, void *ctx)
{
    static const char body[] = "{\"status\":\"File viewer server is running\"}";
    tn_http_reply(x, 200, "application/json", body, sizeof body - 1);
}

static const struct tn_route routes[] = {
    {"GET", "/", root, "says that the viewer runs", TN_ROUTE_OPEN},
    {"GET", "/view", view, "an image or PDF file as a page", TN_ROUTE_OPEN},
    {0},
};
static const struct tn_route *const tables[] = {routes, NULL};

static char published[64]; /* what we wrote, for the end */

/* Written anew rather than followed: the file lies in a directory that everybody may write to. */
static void publish(int port)
{
    int n = snprintf(published, sizeof published, "http://localhost:%d", port);

    unlink(URL_FILE);
    tn_autofd int fd = open(URL_FILE, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0 || write(fd, published, (size_t)n) != n)
        return; /* convenience only: the viewer works without it */
}

void tn_viewer_withdraw(void)
{
    char url[sizeof published] = "";
    tn_autofd int fd = open(URL_FILE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

    if (fd >= 0 && read(fd, url, sizeof url - 1) > 0 && strcmp(url, published) == 0)
        unlink(URL_FILE); /* another server may have written its own */
}

struct tn_http_server *tn_viewer_start(int port, struct tn_agent_user *user, struct tn_error *err)
{
    int span = port + PORT_SPAN <= 65535 ? PORT_SPAN : 65535 - port;

    for (int i = 0; i < TRIES && span > 0; i++) {
        struct tn_listen_address at = {
            .kind = TN_LISTEN_TCP, .host = "127.0.0.1", .loopback = true};
        uint32_t random;
        if (getrandom(&random, sizeof random, 0) != sizeof random)
            random = (uint32_t)i;
        at.port = port + 1 + (int)(random % (uint32_t)span);
        int fd = tn_listen_open(&at, NULL);
        if (fd < 0)
            continue;
        struct tn_http_options options = {.routes = tables, .ctx = user, .max_connections = 16};
        struct tn_http_server *server = tn_http_server_new(&options);
        if (tn_http_server_listen(server, fd, err) < 0) {
            tn_http_server_free(server);
            return NULL;
        }
        publish(at.port);
        return server;
    }
    tn_fail(err, TN_E_BUSY, "no free port for the file viewer after %d", port);
    return NULL;
}
