#include "hand/viewer.h"

#include <fcntl.h>
#include <sys/random.h>

#include "hand/viewer-page.h"
#include "net/listen.h"

#define URL_FILE "/tmp/oh-server-url"
enum { TRIES = 10, PORT_SPAN = 1024 };

static void root(struct tn_http_exchange *x, void *ctx)
{
    static const char body[] = "{\"status\":\"File viewer server is running\"}";
    tn_http_reply(x, 200, "application/json", body, sizeof body - 1);
}

static const struct tn_route routes[] = {
    {"GET", "/", root, "says that the viewer runs", 0},
    {"GET", "/view", viewer_view, "an image or PDF file as a page", 0},
    {"GET", "/file", viewer_file, "the bytes of a PDF file, for its page", 0},
    {"GET", "/script/{name}", viewer_script, "what pages run", 0},
    {0},
};
static const struct tn_route *const tables[] = {routes, NULL};

/* The same behind a secret, which `allow` has compared. */
static const struct tn_route secret_routes[] = {
    {"GET", "/{secret}", root, "says that the viewer runs", 0},
    {"GET", "/{secret}/view", viewer_view, "an image or PDF file as a page", 0},
    {"GET", "/{secret}/file", viewer_file, "the bytes of a PDF file, for its page", 0},
    {"GET", "/{secret}/script/{name}", viewer_script, "what pages run", 0},
    {0},
};
static const struct tn_route *const secret_tables[] = {secret_routes, NULL};

static char published[64]; /* what we wrote, for the end */
static char prefix[40];    /* "/SECRET", or nothing */

static bool make_secret(struct tn_error *err)
{
    unsigned char bytes[16];

    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes) {
        tn_fail(err, TN_E_IO, "no random numbers");
        return false;
    }
    prefix[0] = '/';
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(prefix + 1 + 2 * i, 3, "%02x", bytes[i]);
    return true;
}

static bool secret_gate(struct tn_http_exchange *x, void *user)
{
    const char *path = tn_http_path(x);
    size_t n = strlen(prefix);
    unsigned char differs = strlen(path) < n;

    for (size_t i = 0; !differs && i < n; i++)
        differs |= (unsigned char)(path[i] ^ prefix[i]);
    if (!differs && (path[n] == '\0' || path[n] == '/'))
        return viewer_allow(x, user);
    tn_http_reply_detail(x, 404, "Not Found");
    return false;
}

/* Written anew rather than followed: the file lies in a directory that everybody may write to. */
static void publish(int port)
{
    int n = snprintf(published, sizeof published, "http://localhost:%d%s", port, prefix);

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

struct tn_http_server *tn_viewer_start(int port, bool secret, struct tn_agent_user *user,
                                       struct tn_error *err)
{
    int span = port + PORT_SPAN <= 65535 ? PORT_SPAN : 65535 - port;

    if (secret && !make_secret(err))
        return NULL;
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
        struct tn_http_options options = {
            .routes = secret ? secret_tables : tables,
            .allow = secret ? secret_gate : viewer_allow,
            .ctx = user,
            .max_connections = 16,
        };
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
