#include "hand/mcp/gateway.h"

#include <ctype.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <strings.h>
#include <sys/eventfd.h>

#include "base/child.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/secret.h"
#include "base/thread.h"
#include "hand/hand.h"
#include "hand/mcp/proxy.h"
#include "hand/plugin.h"
#include "net/listen.h"

#define ADDRESS "127.0.0.1:50005"
#define TOKEN "GATEWAY_ACCESS_TOKEN"
#define TOKEN_DIRECTORY "/etc/mcp-gateway"
#define CLONES "/opt/mcp-gateway/"
#define GITHUB "github/"
#define PREPARE_SECONDS 600.0
#define READY "+"
enum { CONFIG_MAX = 1 << 20, STRANGERS_MAX = 64, LOG_MAX = 64 << 10 };

/* --- where shells find it ------------------------------------------------------------------- */

static int copy_program(int fd, void *ctx, struct tn_error *err)
{
    tn_autofd int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

    if (from < 0)
        return tn_fail_errno(err, errno, "this program");
    return tn_fs_copy(from, fd, UINT64_MAX, err) < 0 ? -1 : 0;
}

static int put_file(const char *directory, const char *name, mode_t mode, tn_fs_writer_fn writer,
                    void *ctx, struct tn_error *err)
{
    tn_autofree char *path = tn_asprintf("%s/%s", directory, name);
    tn_autofd int made = tn_fs_mkdirs(TN_FS_ANYWHERE, directory, 0755, NULL, NULL, err);

    return made < 0 ? -1
                    : tn_fs_replace(TN_FS_ANYWHERE, path, &(struct tn_fs_replace){.mode = mode},
                                    writer, ctx, err);
}

int mcp_gateway_install(struct tn_error *err)
{
    if (getpid() != 1)
        return tn_fail(err, TN_E_UNSUPPORTED, "%s is only for sandboxes with a root of their own",
                       MCP_GATEWAY);
    return put_file("/usr/local/bin", MCP_GATEWAY, 0755, copy_program, NULL, err);
}

/* --- the configuration ---------------------------------------------------------------------- */

struct reading {
    struct tn_jw w;
    struct tn_error *err;
};

/* Either spelling: clients in Python write install_cmd, those in JavaScript installCmd. */
static const char *command_of(const struct tn_json *server, const char *python, const char *script)
{
    return tn_json_get_str(server, python, tn_json_get_str(server, script, NULL));
}

/* Appends `apiKey` as api-key or API_KEY; what is no letter or digit becomes the separator. */
static void put_words(struct tn_buf *out, const char *text, char between, bool upper)
{
    for (size_t i = 0; text[i]; i++) {
        unsigned char c = (unsigned char)text[i];
        if (isupper(c) && i > 0 && islower((unsigned char)text[i - 1]))
            tn_buf_putc(out, between);
        tn_buf_putc(out, isalnum(c) ? (char)(upper ? toupper(c) : tolower(c)) : between);
    }
}

static int put_member(const char *key, struct tn_json *value, void *ctx)
{
    struct tn_jw *w = ctx;
    tn_autobuf struct tn_buf name = TN_BUF_INIT(CONFIG_MAX), json = TN_BUF_INIT(CONFIG_MAX);
    struct tn_jw text = tn_jw(&json);

    put_words(&name, key, '_', true);
    tn_jw_tree(&text, value);
    tn_jw_kstr(w, tn_buf_str(&name),
               tn_json_str(value, NULL) ? tn_json_str(value, NULL) : tn_buf_str(&json));
    return 0;
}

/* Servers of the catalog are images of containers; here one is a program of the same name. */
static int put_program(struct reading *r, const char *key, const struct tn_json *server)
{
    tn_autobuf struct tn_buf program = TN_BUF_INIT(CONFIG_MAX);

    tn_buf_puts(&program, "mcp-server-");
    put_words(&program, key, '-', false);
    if (!tn_agent_has(tn_buf_str(&program)))
        return tn_fail(r->err, TN_E_NOT_FOUND,
                       "%.100s: there is no program %.100s in this sandbox, and the container "
                       "images of the catalog are not run here: install the program in a "
                       "template, or give a server with a command of its own (run_cmd)",
                       key, tn_buf_str(&program));
    tn_jw_kstr(&r->w, "command", tn_buf_str(&program));
    tn_jw_key(&r->w, "env");
    tn_jw_object(&r->w);
    tn_json_each(server, put_member, &r->w);
    tn_jw_object_end(&r->w);
    return 0;
}

static int run_shell(const char *const *argv, struct tn_error *err)
{
    static const struct tn_child_fd fds[] = {{-1, 0}, {2, 1}, {2, 2}};
    const struct tn_child_spec spec = {.argv = argv, .fds = fds, .fd_count = TN_COUNT(fds)};
    tn_autochild struct tn_child *child = tn_child_start(&spec, err);
    struct tn_exit end;

    if (!child || tn_child_wait(child, tn_deadline_in(PREPARE_SECONDS), &end, err) < 0)
        return -1;
    return tn_exit_code(&end) == 0
               ? 0
               : tn_fail(err, TN_E_INVALID, "ended with exit code %d", tn_exit_code(&end));
}

/* Its repository, unless it is there already, and what installs it. */
static int prepare(const char *key, const char *directory, const char *install,
                   struct tn_error *err)
{
    static const char script[] = "[ -d \"$0\" ] || git clone -q --depth 1 \"$1\" \"$0\" || exit\n"
                                 "cd \"$0\" && eval \"$2\"";
    const char *slash = strchr(key + strlen(GITHUB), '/');
    tn_autofree char *url = tn_asprintf("https://github.com/%s", key + strlen(GITHUB));
    const char *argv[] = {"sh", "-c", script, directory, url, install ? install : "", NULL};

    if (!slash || !slash[1] || strchr(slash + 1, '/') || strstr(key, "..") || strchr(key, '\\'))
        return tn_fail(err, TN_E_INVALID, "expected github/OWNER/REPOSITORY");
    return run_shell(argv, err);
}

static int put_command(struct reading *r, const char *key, const struct tn_json *server,
                       const char *command)
{
    bool github = strncmp(key, GITHUB, strlen(GITHUB)) == 0;
    tn_autofree char *directory =
        github ? tn_asprintf(CLONES "%s", key + strlen(GITHUB)) : tn_strdup(".");
    const char *const args[] = {"-c", "cd \"$0\" && eval \"$1\"", directory, command};
    const struct tn_json *env = tn_json_get(server, "envs");

    if (github && prepare(key, directory, command_of(server, "install_cmd", "installCmd"), r->err))
        return tn_error_context(r->err, "%.100s", key);
    tn_jw_kstr(&r->w, "command", "sh");
    tn_jw_key(&r->w, "args");
    tn_jw_array(&r->w);
    for (size_t i = 0; i < TN_COUNT(args); i++)
        tn_jw_str(&r->w, args[i]);
    tn_jw_array_end(&r->w);
    if (env) {
        tn_jw_key(&r->w, "env");
        tn_jw_tree(&r->w, env);
    }
    return 0;
}

static int put_server(const char *key, struct tn_json *server, void *ctx)
{
    struct reading *r = ctx;
    tn_autobuf struct tn_buf name = TN_BUF_INIT(CONFIG_MAX);
    const char *command = command_of(server, "run_cmd", "runCmd");

    put_words(&name, strncmp(key, GITHUB, strlen(GITHUB)) == 0 ? key + strlen(GITHUB) : key, '-',
              false);
    tn_jw_object(&r->w);
    tn_jw_kstr(&r->w, "name", tn_buf_str(&name));
    int failed = command ? put_command(r, key, server, command) : put_program(r, key, server);
    tn_jw_object_end(&r->w);
    return failed;
}

/* The configuration as entries for the proxy, after all that their programs need was done. */
static struct tn_json *read_config(const char *text, struct tn_error *err)
{
    tn_autojson struct tn_json *config = NULL;
    tn_autobuf struct tn_buf json = TN_BUF_INIT(CONFIG_MAX);
    struct reading r = {.w = tn_jw(&json), .err = err};
    struct tn_json *entries = NULL;

    if (tn_json_parse(text, strlen(text), &config, err) < 0)
        return NULL;
    if (tn_json_type(config) != TN_JSON_OBJECT) {
        tn_fail(err, TN_E_INVALID, "--config: expected an object of servers");
        return NULL;
    }
    tn_jw_array(&r.w);
    if (tn_json_each(config, put_server, &r) < 0)
        return NULL;
    tn_jw_array_end(&r.w);
    return tn_json_parse(tn_buf_str(&json), json.len, &entries, err) < 0 ? NULL : entries;
}

/* --- serving --------------------------------------------------------------------------------- */

struct gateway {
    struct tn_hand hand; /* its key is the token */
    struct tn_json *entries;
    int report; /* for who started us: what went wrong, or READY */
};

static bool allow(struct tn_http_exchange *x, void *ctx)
{
    const struct tn_hand *hand = ctx;
    const char *given = tn_http_header(x, "Authorization");

    if (strcmp(tn_http_path(x), "/mcp") != 0) {
        tn_http_reply_detail(x, 404, "Not Found");
        return false;
    }
    if (given && strncasecmp(given, "Bearer ", 7) == 0 &&
        tn_same_secret(given + 7, hand->options.key) && tn_http_know(x, NULL))
        return true;
    tn_http_set_header(x, "WWW-Authenticate", "Bearer");
    tn_http_reply_detail(x, 401, "The token of this gateway is needed: Authorization: Bearer");
    return false;
}

static int write_token(int fd, void *ctx, struct tn_error *err)
{
    return tn_fs_write(fd, ctx, strlen(ctx), err);
}

static int listen_for_clients(struct gateway *g, struct tn_error *err)
{
    static const struct tn_route *tables[2];
    const struct tn_http_options options = {
        .routes = tables, .allow = allow, .ctx = &g->hand, .max_strangers = STRANGERS_MAX};
    struct tn_listen_address address;

    tables[0] = tn_plugin_mcp.routes;
    struct tn_http_server *server = tn_http_server_new(&options);
    int fd = tn_listen_parse(ADDRESS, &address, err) < 0 ? -1 : tn_listen_open(&address, err);
    return fd < 0 || tn_http_server_listen(server, fd, err) < 0
               ? tn_error_context(err, "does a gateway run already? " ADDRESS)
               : 0;
}

static int bring_up(struct gateway *g, struct tn_error *err)
{
    struct tn_hand *hand = &g->hand;
    tn_autobuf struct tn_buf problems = TN_BUF_INIT(LOG_MAX);
    const char *id = getenv("TENDON_HAND");

    if (tn_agent_user_set_up(&hand->options, &hand->user, err) < 0)
        return -1;
    hand->shell_env = tn_agent_env(&hand->user, tn_agent_shell("bash"), id ? id : "");
    hand->plugins = tn_plugins_open(hand);
    struct mcp_proxy *proxy = tn_plugin_state(hand, &tn_plugin_mcp);
    if (mcp_proxy_update(proxy, g->entries, &problems, err) < 0)
        return -1;
    if (problems.len)
        return tn_fail(err, TN_E_INVALID, "%s", tn_buf_str(&problems));
    return listen_for_clients(g, err) < 0
               ? -1
               : put_file(TOKEN_DIRECTORY, ".token", 0600, write_token, hand->options.key, err);
}

static void *start_thread(void *arg)
{
    struct gateway *g = arg;
    struct tn_error err = {0};

    if (bring_up(g, &err) < 0) {
        tn_fs_write(g->report, err.text, strlen(err.text), NULL);
        _exit(1); /* its helpers end with it */
    }
    tn_autofd int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd < 3; fd++)
        dup2(null, fd);
    tn_fs_write(g->report, READY, strlen(READY), NULL);
    tn_close(TN_TAKE_FD(g->report));
    return NULL;
}

/* In a process of its own: this thread reaps, as in main.c. */
static _Noreturn void serve(struct gateway *g)
{
    struct tn_error err = {0};
    pthread_t starter;
    struct pollfd reaper = {.events = POLLIN};

    setsid();
    reaper.fd = tn_reaper_start(true, &err);
    if (reaper.fd < 0 || tn_thread_start(&starter, start_thread, g) != 0)
        _exit(1);
    for (;;)
        if (poll(&reaper, 1, -1) > 0)
            tn_reaper_collect();
}

static int start_gateway(const char *config, struct tn_error *err)
{
    static struct gateway g;
    tn_autobuf struct tn_buf said = TN_BUF_INIT(LOG_MAX);
    const char *token = getenv(TOKEN);
    int ends[2];

    if (!token || !*token)
        return tn_fail(err, TN_E_INVALID, TOKEN " is not set: who has it may use the tools");
    g.entries = read_config(config, err);
    if (!g.entries)
        return -1;
    g.hand.options = (struct tn_hand_options){
        .key = tn_strdup(token), .username = tn_strdup("root"), .working_dir = getcwd(NULL, 0)};
    unsetenv(TOKEN);
    g.hand.ending = eventfd(0, EFD_CLOEXEC); /* never written to: it ends with its process */
    if (g.hand.ending < 0)
        return tn_fail_errno(err, errno, "eventfd");
    if (pipe2(ends, O_CLOEXEC) < 0)
        return tn_fail_errno(err, errno, "pipe");
    g.report = ends[1];
    pid_t pid = fork();
    if (pid == 0)
        serve(&g);
    tn_close(ends[1]);
    int failed = pid < 0 ? tn_fail_errno(err, errno, "fork") : tn_fs_read_fd(ends[0], &said, err);
    tn_close(ends[0]);
    return failed || strcmp(tn_buf_str(&said), READY) == 0
               ? failed
               : tn_fail(err, TN_E_INVALID, "%s", said.len ? tn_buf_str(&said) : "it has ended");
}

/* --- the command ----------------------------------------------------------------------------- */

static int pull(int count, char **names, struct tn_error *err)
{
    tn_autobuf struct tn_buf nothing = TN_BUF_INIT(CONFIG_MAX);
    struct reading r = {.w = tn_jw(&nothing), .err = err};

    tn_jw_array(&r.w);
    for (int i = 0; i < count; i++) {
        tn_jw_object(&r.w);
        if (put_program(&r, names[i], NULL) < 0)
            return -1;
        tn_jw_object_end(&r.w);
    }
    return 0;
}

int mcp_gateway(int argc, char **argv)
{
    struct tn_error err = {0};
    int failed;

    signal(SIGPIPE, SIG_IGN);
    tn_log_init(STDERR_FILENO, TN_LOG_ERROR, false);
    if (argc == 3 && strcmp(argv[1], "--config") == 0)
        failed = start_gateway(argv[2], &err);
    else if (argc > 2 && strcmp(argv[1], "pull") == 0)
        failed = pull(argc - 2, argv + 2, &err);
    else
        failed = tn_fail(&err, TN_E_INVALID, "usage: %s --config JSON | pull NAME...", MCP_GATEWAY);
    if (failed)
        fprintf(stderr, "%s: %s\n", MCP_GATEWAY, err.text);
    return failed ? 1 : 0;
}
