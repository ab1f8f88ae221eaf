/* tendon mcp: Tendon itself as an MCP server. */
#include "cli/mcp/mcp.h"

#include <fcntl.h>
#include <netdb.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/secret.h"
#include "base/thread.h"
#include "cli/job.h"
#include "cli/verb.h"
#include "net/listen.h"
#include "web/web.h"

enum { KEY_FILE_MAX = 4096 };
#define STOP_SECONDS 5.0

struct mcp_options {
    struct tn_spec spec;
    char *template;
    char *sandbox;
    char *listen, *key_file;
    int64_t limit;
};

static const struct tn_field rows[] = {
    TN_OBJECT("spec", struct mcp_options, spec, &tn_spec_fields),
    TN_STRING("template", struct mcp_options, template, .flag = "--template", .letter = 't',
              .value = "NAME", .help = "start from [template.NAME] of the configuration"),
    TN_STRING("sandbox", struct mcp_options, sandbox, .flag = "--sandbox", .value = VALUE_SANDBOX,
              .help = "let clients work in this one instead of one of their own"),
    TN_INT("limit", struct mcp_options, limit, .flag = "--limit", .value = "N", .fallback = "16",
           .min = 1, .max = 10000, .help = "most sandboxes at once"),
    TN_STRING("listen", struct mcp_options, listen, .flag = "--listen", .value = "ADDRESS",
              .help =
                  "serve streamable HTTP at HOST:PORT or unix:PATH [standard input and output]"),
    TN_STRING("key_file", struct mcp_options, key_file, .flag = "--key-file", .value = "FILE",
              .help = "clients must show what is in it as a bearer token [a new key, printed]"),
};
static const struct tn_fields options_table = TN_FIELDS(rows);

struct mcp_job {
    const struct mcp_options *options;
    struct mcp_service service;
    struct tn_mcp_server *server;
    bool loopback;          /* listens on this machine alone */
    char key[KEY_FILE_MAX]; /* "": nobody is asked for one */
};

/* --- what a client may ask ------------------------------------------------------------------ */

static void describe(void *ctx, struct tn_buf *capabilities, struct tn_buf *instructions)
{
    struct mcp_service *s = ctx;

    tn_buf_puts(capabilities, "{\"tools\":{},\"resources\":{}}");
    tn_buf_puts(instructions,
                "A computer of your own: a shell, files, Python and a browser in a sandbox. ");
    tn_buf_puts(instructions,
                s->given ? "It was there before you and stays. "
                         : "It is made when you first use it and removed when you leave. ");
    mcp_put_about(s, instructions);
    tn_buf_puts(instructions, "Paths that are not absolute start where the shell `main` is. "
                              "sandbox_info tells more.");
}

struct method {
    const char *name;
    int (*plain)(struct tn_mcp_request *request, struct tn_buf *result);
    int (*call)(struct mcp_client *c, struct tn_mcp_request *request, struct tn_buf *result);
};

static const struct method methods[] = {
    {"tools/list", .plain = tools_list},
    {"tools/call", .call = tools_call},
    {"resources/list", .call = resources_list},
    {"resources/templates/list", .plain = resources_templates},
    {"resources/read", .call = resources_read},
};

static int request(void *ctx, void *state, struct tn_mcp_request *request, struct tn_buf *result)
{
    const char *name = tn_mcp_request_message(request)->method;

    for (size_t i = 0; i < TN_COUNT(methods); i++) {
        if (strcmp(methods[i].name, name) == 0)
            return methods[i].call ? methods[i].call(state, request, result)
                                   : methods[i].plain(request, result);
    }
    return tn_mcp_refuse(request, TN_RPC_METHOD_NOT_FOUND, "there is no method '%s'", name);
}

static const struct tn_mcp_server_ops ops = {
    .name = "tendon",
    .version = TN_VERSION,
    .title = "Tendon sandboxes",
    .describe = describe,
    .client_open = mcp_client_open,
    .client_close = mcp_client_close,
    .request = request,
};

/* --- HTTP ----------------------------------------------------------------------------------- */

static void post(struct tn_http_exchange *x, void *ctx)
{
    tn_mcp_http_post(((struct mcp_job *)ctx)->server, x);
}

static void get(struct tn_http_exchange *x, void *ctx)
{
    tn_mcp_http_get(((struct mcp_job *)ctx)->server, x);
}

static void delete (struct tn_http_exchange *x, void *ctx)
{
    tn_mcp_http_delete(((struct mcp_job *)ctx)->server, x);
}

static const struct tn_route routes[] = {
    {"POST", "/mcp", post, "a message", 0},
    {"GET", "/mcp", get, "the stream of what the server says", 0},
    {"DELETE", "/mcp", delete, "the end of a session", 0},
    {0},
};

/* A page in somebody's browser: of another site, or of one whose name was made to mean this
 * machine. */
static bool is_foreign(const struct mcp_job *j, const struct tn_http_exchange *x)
{
    const char *origin = tn_http_header(x, "Origin"), *host = tn_http_header(x, "Host");
    const char *site = origin ? strstr(origin, "://") : NULL;

    if (!origin)
        return false;
    if (!site || !host || strcasecmp(site + 3, host) != 0)
        return true;
    tn_autofree char *name =
        tn_strndup(host, *host == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":"));
    return j->loopback && tn_web_reach_of(name) != TN_WEB_LOOPBACK;
}

static bool allow(struct tn_http_exchange *x, void *ctx)
{
    struct mcp_job *j = ctx;
    const char *given = tn_http_header(x, "Authorization");

    if (is_foreign(j, x)) {
        tn_http_reply_detail(x, 403, "Requests of web pages of other sites are refused");
        return false;
    }
    if (!*j->key ||
        (given && strncasecmp(given, "Bearer ", 7) == 0 && tn_same_secret(given + 7, j->key)))
        return true;
    tn_http_set_header(x, "WWW-Authenticate", "Bearer");
    tn_http_reply_detail(x, 401, "The key is missing or wrong: Authorization: Bearer KEY");
    return false;
}

static int make_key(char *key, struct tn_error *err)
{
    unsigned char random[24];

    if (getrandom(random, sizeof random, 0) != sizeof random)
        return tn_fail_errno(err, errno, "no random bytes for a key");
    for (size_t i = 0; i < sizeof random; i++)
        snprintf(key + 2 * i, 3, "%02x", random[i]);
    return 0;
}

static int read_key(const char *path, char *key, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(KEY_FILE_MAX - 1);

    if (tn_fs_read(AT_FDCWD, path, &text, err) < 0)
        return -1;
    size_t n = strcspn(tn_buf_str(&text), "\r\n");
    if (n == 0)
        return tn_fail(err, TN_E_INVALID, "the key in %s is empty", path);
    snprintf(key, KEY_FILE_MAX, "%.*s", (int)n, tn_buf_str(&text));
    return 0;
}

static bool is_on_loopback(int fd)
{
    struct sockaddr_storage a = {0};
    socklen_t n = sizeof a;
    char host[NI_MAXHOST];

    return getsockname(fd, (struct sockaddr *)&a, &n) == 0 && a.ss_family != AF_UNIX &&
           getnameinfo((struct sockaddr *)&a, n, host, sizeof host, NULL, 0, NI_NUMERICHOST) == 0 &&
           tn_web_reach_of(host) == TN_WEB_LOOPBACK;
}

static int serve_http(struct mcp_job *j, struct tn_error *err)
{
    const struct tn_route *const tables[] = {routes, NULL};
    const struct tn_http_options options = {.routes = tables, .allow = allow, .ctx = j};
    struct tn_listen_address address;

    if (tn_listen_parse(j->options->listen, &address, err) < 0)
        return -1;
    bool open = address.kind == TN_LISTEN_UNIX; /* only its owner can connect */
    if (j->options->key_file ? read_key(j->options->key_file, j->key, err) < 0
                             : !open && make_key(j->key, err) < 0)
        return -1;
    int fd = tn_listen_open(&address, err);
    if (fd < 0)
        return -1;
    j->loopback = is_on_loopback(fd);
    struct tn_http_server *http = tn_http_server_new(&options);
    if (tn_http_server_listen(http, fd, err) < 0)
        return -1;
    cli_note(j->service.cli, "listening at %s, path /mcp", j->options->listen);
    if (*j->key && !j->options->key_file) /* also when quiet: nobody gets in without it */
        fprintf(stderr, "tendon: key: %s\n", j->key);
    for (;;) /* a signal to the other thread ends it */
        pause();
}

/* --- the verb ------------------------------------------------------------------------------- */

static int work(void *ctx, struct tn_error *err)
{
    struct mcp_job *j = ctx;

    if (j->options->listen)
        return serve_http(j, err);
    tn_mcp_stdio(j->server, STDIN_FILENO, STDOUT_FILENO);
    int left = tn_mcp_server_stop(j->server, tn_deadline_in(STOP_SECONDS));
    mcp_remove_all(&j->service);
    if (left && tn_mcp_server_stop(j->server, tn_deadline_in(STOP_SECONDS)) > 0)
        _exit(0); /* a request is stuck, and still uses what would be freed */
    return 0;
}

/* Requests under way may still be using their sandboxes: the process ends right after. */
static void abandon(void *ctx)
{
    struct mcp_job *j = ctx;
    struct tn_listen_address address;

    mcp_remove_all(&j->service);
    if (j->options->listen && tn_listen_parse(j->options->listen, &address, NULL) == 0 &&
        address.kind == TN_LISTEN_UNIX)
        unlink(address.path);
}

static int run(struct cli *cli, const void *given, struct tn_error *err)
{
    const struct mcp_options *options = given;
    struct tn_spec spec = {0};
    struct mcp_job j = {
        .options = options,
        .service = {.cli = cli,
                    .spec = &spec,
                    .given = options->sandbox,
                    .limit = (size_t)options->limit,
                    .lock = PTHREAD_MUTEX_INITIALIZER},
    };
    int status = -1;

    if (options->spec.keep)
        return tn_fail(err, TN_E_INVALID,
                       "--keep: sandboxes go with their clients; --sandbox names one that stays");
    tn_cond_init(&j.service.changed);
    if (options->sandbox) { /* a wrong name is told now */
        tn_autosandbox struct tn_sandbox *sb = cli_sandbox(cli, options->sandbox, err);
        if (!sb)
            return -1;
    }
    if (cli_spec(cli, options->template, &options->spec, &spec, err) == 0 &&
        cli_runtime(cli, err)) {
        spec.keep = false;
        j.server = tn_mcp_server_new(&ops, &j.service);
        status = job_run(&(struct job){.work = work, .abandon = abandon, .ctx = &j}, err);
        tn_mcp_server_free(j.server);
    }
    tn_spec_done(&spec);
    return status;
}

const struct verb verb_mcp = {
    .name = "mcp",
    .group = VERB_WORK,
    .summary = "be an MCP server: a sandbox for every client",
    .details =
        "Speaks the Model Context Protocol on standard input and output, or over streamable\n"
        "HTTP with --listen. A client gets tools for shell, files, Python and browser in a\n"
        "sandbox of its own, which is made at its first use and removed when it leaves.\n"
        "In the configuration of an MCP client: command \"tendon\", arguments [\"mcp\"].",
    .options = &options_table,
    .options_size = sizeof(struct mcp_options),
    .run = run,
};
