/* The life of a backend's process. */
#include <stdarg.h>

#include "base/log.h"
#include "base/thread.h"
#include "hand/mcp/backend-internal.h"
#include "hand/mcp/launcher.h"

#define HELLO_SECONDS 30.0
#define LAST_MOMENT_SECONDS 0.5
#define LINE_MAX ((size_t)32 << 20)
#define UNSENT_MAX ((size_t)64 << 20)
enum { PER_SECOND = 500 };

void mcp_set_error(struct mcp_backend *b, const char *fmt, ...)
{
    char text[1024];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    free(b->last_error);
    b->last_error = tn_strdup(text);
}

void mcp_forget_list(struct mcp_backend *b, enum mcp_list which)
{
    b->list_version[which]++;
    mcp_items_unref(TN_TAKE_PTR(b->lists[which]));
}

/* --- runs ----------------------------------------------------------------------------------- */

struct mcp_run *mcp_run_ref(struct mcp_run *run)
{
    pthread_mutex_lock(&run->backend->lock);
    run->refs++;
    pthread_mutex_unlock(&run->backend->lock);
    return run;
}

void mcp_run_unref(struct mcp_run *run)
{
    struct mcp_backend *b = run->backend;

    pthread_mutex_lock(&b->lock);
    bool last = --run->refs == 0;
    pthread_mutex_unlock(&b->lock);
    if (!last)
        return;
    tn_mcp_pipe_free(run->pipe);
    tn_helper_free(run->helper);
    tn_mcp_peer_free(run->peer);
    free(run);
    mcp_backend_unref(b);
}

void mcp_run_answer(struct mcp_run *run, const struct tn_json *id, int64_t code, const char *text)
{
    tn_mcp_answer(run->peer, id, code, text, NULL);
}

/* --- what comes from it --------------------------------------------------------------------- */

static int peer_send(void *ctx, void *route, const char *text, size_t n, int64_t deadline,
                     struct tn_error *err)
{
    struct mcp_run *run = ctx;
    return tn_mcp_pipe_send(run->pipe, text, n, deadline, err);
}

/* A server that floods is heard, but not passed on to everybody. */
static bool too_many(struct mcp_backend *b)
{
    int64_t second = tn_now() / TN_SECOND;

    pthread_mutex_lock(&b->lock);
    if (b->second != second) {
        b->second = second;
        b->in_second = 0;
    }
    bool many = ++b->in_second > PER_SECOND;
    b->dropped += many;
    pthread_mutex_unlock(&b->lock);
    return many;
}

static void peer_request(void *ctx, struct tn_mcp_peer *peer, const struct tn_rpc *message)
{
    struct mcp_run *run = ctx;

    if (too_many(run->backend))
        tn_mcp_answer(peer, message->id, TN_RPC_INTERNAL_ERROR, "too many requests", NULL);
    else
        run->backend->ops->request(run->backend->ctx, run->backend, run, message);
}

static const struct {
    const char *method;
    enum mcp_list list;
} changes[] = {
    {"notifications/tools/list_changed", MCP_TOOLS},
    {"notifications/prompts/list_changed", MCP_PROMPTS},
    {"notifications/resources/list_changed", MCP_RESOURCES},
    {"notifications/resources/list_changed", MCP_TEMPLATES},
};

static void peer_notification(void *ctx, struct tn_mcp_peer *peer, const struct tn_rpc *message)
{
    struct mcp_run *run = ctx;
    struct mcp_backend *b = run->backend;

    for (size_t i = 0; i < TN_COUNT(changes); i++) {
        if (strcmp(changes[i].method, message->method) == 0) {
            pthread_mutex_lock(&b->lock);
            mcp_forget_list(b, changes[i].list);
            pthread_mutex_unlock(&b->lock);
        }
    }
    if (!too_many(b))
        b->ops->notification(b->ctx, b, message);
}

/* What it told us by may end, and it still has something to tell. */
static void peer_answer(void *ctx, struct tn_mcp_peer *peer, const struct tn_rpc *message)
{
    struct mcp_run *run = ctx;
    struct mcp_backend *b = run->backend;

    pthread_mutex_lock(&b->lock);
    bool ours = run->listening && tn_json_int(message->id, 0) == run->listening;
    if (ours) {
        run->listening = 0;
        run->unheard = message->kind == TN_RPC_RESULT; /* an error: it does not want to */
    }
    pthread_mutex_unlock(&b->lock);
    if (ours)
        mcp_listen_again(run);
}

static const struct tn_mcp_peer_ops peer_ops = {
    .send = peer_send,
    .request = peer_request,
    .notification = peer_notification,
    .answer = peer_answer,
};

static void take_line(void *ctx, const char *text, size_t n)
{
    struct mcp_run *run = ctx;
    struct mcp_backend *b = run->backend;
    struct tn_error err;
    int result = text ? tn_mcp_peer_feed(run->peer, text, n, &err)
                      : tn_fail(&err, TN_E_TOO_LARGE, "a line of more than %zu MB", LINE_MAX >> 20);

    pthread_mutex_lock(&b->lock);
    run->silent = 0;
    if (result < 0) {
        b->noise++;
        mcp_set_error(b, "said what is no MCP message: %.200s", err.text);
    }
    pthread_mutex_unlock(&b->lock);
}

/* --- its end -------------------------------------------------------------------------------- */

/* Nothing comes from it any more: the next call starts another one, those under way hear why. */
static void bury(struct mcp_run *run)
{
    tn_autobuf struct tn_buf why = TN_BUF_INIT(8192);
    struct mcp_backend *b = run->backend;

    pthread_mutex_lock(&b->lock);
    bool wanted = run->wanted_end;
    run->dead = true;
    if (b->run == run && b->state == MCP_UP) {
        b->state = MCP_OFF;
        b->run = NULL;
        if (!wanted)
            tn_backoff_bad(&b->backoff);
    }
    for (int i = 0; i < MCP_LIST_COUNT; i++)
        mcp_forget_list(b, (enum mcp_list)i);
    pthread_cond_broadcast(&b->changed);
    pthread_mutex_unlock(&b->lock);
    if (!wanted) /* it may be about to end by itself */
        tn_helper_wait(run->helper, tn_deadline_in(LAST_MOMENT_SECONDS), NULL);
    tn_helper_end(run->helper, wanted ? LAST_MOMENT_SECONDS : 0);
    tn_buf_printf(&why, "MCP server '%s' ", b->spec.name);
    pthread_mutex_lock(&b->lock);
    if (wanted)
        tn_buf_puts(&why, "was stopped");
    else if (run->silent >= MCP_SILENT_MAX)
        tn_buf_puts(&why, "answered nothing any more and was ended");
    else
        tn_helper_obituary(run->helper, &why);
    if (!wanted)
        mcp_set_error(b, "%s", tn_buf_str(&why));
    pthread_mutex_unlock(&b->lock);
    tn_mcp_peer_lost(run->peer, tn_buf_str(&why));
}

static void leave(struct mcp_backend *b)
{
    pthread_mutex_lock(&b->lock);
    b->threads--;
    pthread_cond_broadcast(&b->changed);
    pthread_mutex_unlock(&b->lock);
    mcp_backend_unref(b);
}

static void *read_run(void *arg)
{
    struct mcp_run *run = arg;
    struct mcp_backend *b = run->backend;
    struct tn_error err;

    if (tn_mcp_pipe_run(run->pipe, &err) < 0)
        tn_log(TN_LOG_WARN, "MCP server", tn_log_str("name", b->spec.name),
               tn_log_str("reason", err.text));
    bury(run);
    mcp_run_unref(run);
    leave(b);
    return NULL;
}

/* --- its beginning -------------------------------------------------------------------------- */

/* The variables every server gets; the rest of the shells' environment is none of its business. */
static bool is_inherited(const char *variable)
{
    static const char *const names[] = {"HOME",     "LOGNAME", "SHELL",      "TERM",
                                        "USER",     "LANG",    "TZ",         "LC_ALL",
                                        "LC_CTYPE", "TMPDIR",  "TENDON_HAND"};

    for (size_t i = 0; i < TN_COUNT(names); i++) {
        size_t n = strlen(names[i]);
        if (strncmp(variable, names[i], n) == 0 && variable[n] == '=')
            return true;
    }
    return false;
}

/* Two variables of one name: the latter of a list counts, so that each is in it once. */
static void put_variable(char **env, size_t *count, const char *variable)
{
    size_t n = strcspn(variable, "=") + 1;

    for (size_t i = 0; i < *count; i++) {
        if (strncmp(env[i], variable, n) == 0) {
            free(env[i]);
            env[i] = tn_strdup(variable);
            return;
        }
    }
    env[(*count)++] = tn_strdup(variable);
}

static char **make_env(const struct mcp_backend *b)
{
    char **shell = b->hand->shell_env;
    size_t count = 0, n = 1;

    for (size_t i = 0; shell[i]; i++)
        n++;
    for (size_t i = 0; b->spec.env && b->spec.env[i]; i++)
        n++;
    char **env = tn_calloc(n + 1, sizeof *env);
    for (size_t i = 0; shell[i]; i++) {
        if (is_inherited(shell[i]))
            put_variable(env, &count, shell[i]);
        if (strncmp(shell[i], "PATH=", 5) == 0) {
            tn_autofree char *path = tn_asprintf("%s:/openhands/bin", shell[i]);
            put_variable(env, &count, path);
        }
    }
    for (size_t i = 0; b->spec.env && b->spec.env[i]; i++)
        put_variable(env, &count, b->spec.env[i]);
    return env;
}

/* Starts the process and who reads from it.  The reference is the caller's. */
static struct mcp_run *launch(struct mcp_backend *b, struct tn_error *err)
{
    char **env = make_env(b);
    struct tn_helper_spec spec = {
        .name = b->spec.name,
        .argv = (const char *const *)b->spec.argv,
        .env = (const char *const *)env,
        .in = 0,
        .out = 1,
    };
    struct tn_helper *helper = tn_helper_start(b->hand, &spec, err);
    tn_agent_env_free(env);
    if (!helper) {
        if (err->code == TN_E_NOT_FOUND)
            mcp_launcher_missing(spec.argv[0], err);
        return NULL;
    }
    struct mcp_run *run = tn_calloc(1, sizeof *run);
    run->refs = 2;
    run->backend = mcp_backend_ref(b);
    run->helper = helper;
    run->peer = tn_mcp_peer_new(&peer_ops, run);
    run->pipe = tn_mcp_pipe_new(&(struct tn_mcp_pipe_options){
        .in = tn_helper_from(helper),
        .out = tn_helper_to(helper),
        .line_max = LINE_MAX,
        .unsent_max = UNSENT_MAX,
        .line = take_line,
        .ctx = run,
    });
    pthread_mutex_lock(&b->lock);
    b->threads++;
    b->refs++;
    b->run = run;
    if (b->ended) { /* meanwhile */
        run->wanted_end = true;
        tn_mcp_pipe_stop(run->pipe);
    }
    pthread_mutex_unlock(&b->lock);
    pthread_t thread;
    int sys = tn_thread_start(&thread, read_run, run);
    if (sys) {
        tn_fail_errno(err, sys, "start a thread");
        pthread_mutex_lock(&b->lock);
        b->run = NULL;
        pthread_mutex_unlock(&b->lock);
        tn_mcp_peer_lost(run->peer, err->text);
        mcp_run_unref(run);
        leave(b);
        mcp_run_unref(run);
        return NULL;
    }
    pthread_detach(thread);
    return run;
}

static int greet(struct mcp_run *run, struct tn_json **hello, struct tn_error *err)
{
    static const struct tn_mcp_hello words = {
        .name = "tendon-hand",
        .version = TN_VERSION,
        .capabilities = "{\"roots\":{},\"sampling\":{},\"elicitation\":{}}",
    };
    tn_autorpc struct tn_rpc server = {0};
    int64_t deadline = tn_deadline_in(HELLO_SECONDS);
    struct tn_error why;

    /* The handshake comes first: older servers need not bear another question before it, and those
     * that have none any more refuse it. */
    if (tn_mcp_initialize(run->peer, &words, deadline, &server, err) < 0) {
        if (tn_mcp_discover(run->peer, &MCP_HAND_META, deadline, &server, &why) <= 0)
            return -1;
        run->modern = true;
    }
    *hello = tn_json_ref(server.result);
    return 0;
}

/* It is up, or is not: whoever waits is told. */
static void settle(struct mcp_backend *b, struct mcp_run *run, struct tn_json *hello,
                   const struct tn_error *err)
{
    pthread_mutex_lock(&b->lock);
    tn_json_free(b->hello);
    b->hello = hello;
    b->modern = run && run->modern;
    bool wanted_end = run && run->wanted_end;
    b->state = hello && !wanted_end && !run->dead ? MCP_UP : MCP_OFF;
    b->attempts++;
    if (b->state == MCP_UP) {
        b->starts++;
        tn_backoff_good(&b->backoff);
    } else {
        b->run = NULL;
        if (!hello && !wanted_end)
            mcp_set_error(b, "%s", err->text);
        if (!wanted_end)
            tn_backoff_bad(&b->backoff);
        if (!run && err->code == TN_E_NOT_FOUND) /* to look again costs nothing */
            b->backoff.until = 0;
        if (run)
            tn_mcp_pipe_stop(run->pipe);
    }
    pthread_cond_broadcast(&b->changed);
    pthread_mutex_unlock(&b->lock);
}

/* Of one that has ended its last words say more than that nobody reads. */
static void explain(struct mcp_run *run, struct tn_error *err)
{
    tn_autobuf struct tn_buf why = TN_BUF_INIT(8192);

    pthread_mutex_lock(&run->backend->lock);
    bool wanted = run->wanted_end;
    pthread_mutex_unlock(&run->backend->lock);
    if (err->code != TN_E_PEER || wanted ||
        tn_helper_wait(run->helper, tn_deadline_in(LAST_MOMENT_SECONDS), NULL) < 0)
        return;
    tn_buf_printf(&why, "MCP server '%s' ", run->backend->spec.name);
    tn_helper_obituary(run->helper, &why);
    tn_fail(err, TN_E_PEER, "%s", tn_buf_str(&why));
}

static void *start_run(void *arg)
{
    struct mcp_backend *b = arg;
    struct tn_json *hello = NULL;
    struct mcp_run *run = NULL;
    struct tn_error err;

    pthread_mutex_lock(&b->lock);
    struct tn_backoff backoff = b->backoff;
    pthread_mutex_unlock(&b->lock);
    if (tn_backoff_wait(&backoff, b->hand->ending, tn_deadline_in(HELLO_SECONDS), &err) == 0 &&
        (run = launch(b, &err)) && greet(run, &hello, &err) < 0)
        explain(run, &err);
    if (!hello)
        tn_log(TN_LOG_WARN, "MCP server not started", tn_log_str("name", b->spec.name),
               tn_log_str("reason", err.text));
    settle(b, run, hello, &err);
    pthread_mutex_lock(&b->lock);
    bool up = b->state == MCP_UP, again = b->starts > 1;
    pthread_mutex_unlock(&b->lock);
    if (up)
        b->ops->up(b->ctx, b, again);
    if (run)
        mcp_run_unref(run);
    leave(b);
    return NULL;
}

void mcp_start(struct mcp_backend *b)
{
    pthread_t thread;

    b->state = MCP_STARTING;
    b->threads++;
    b->refs++;
    if (tn_thread_start(&thread, start_run, b) == 0) {
        pthread_detach(thread);
    } else {
        b->state = MCP_OFF;
        b->attempts++;
        b->threads--;
        b->refs--;
        mcp_set_error(b, "no thread to start it");
    }
}
