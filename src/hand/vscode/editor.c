#include "hand/vscode/editor.h"

#include <poll.h>
#include <pthread.h>
#include <sys/un.h>

#include "base/log.h"
#include "base/thread.h"
#include "hand/file-actions.h"
#include "hand/helper.h"
#include "hand/vscode/extensions.h"
#include "hand/vscode/program.h"
#include "net/http-client.h"
#include "net/listen.h"

#define STEP_SECONDS 0.02   /* between two looks whether it listens */
#define ANSWER_SECONDS 10.0 /* for one question whether it is ready */
#define DIAL_SECONDS 5.0
#define LAST_SECONDS 1.0 /* between its last word and its end */

enum { WORDS_MAX = 400, VERSION_MAX = 64 << 10 };

enum phase { IDLE, STARTING, READY };

struct editor {
    struct tn_hand *hand;
    char *base, *folder;

    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t changed;
    enum phase phase;
    struct tn_helper *helper; /* whoever is STARTING owns it, but others may signal it */
    char *address;            /* of its socket, for tn_dial */
    bool knows_base;
    bool stopping, closing;
    bool again; /* the last one has ended unasked: the next start is one more */
    int64_t restarts;
    struct tn_backoff backoff; /* changed by whoever is STARTING only */
    struct tn_error last;      /* how the last one ended unasked; TN_OK: none has */
    uint64_t failed;           /* starts, ever */
};

struct editor *editor_new(struct tn_hand *hand, const char *base, const char *folder)
{
    struct editor *e = tn_calloc(1, sizeof *e);

    e->hand = hand;
    e->base = tn_strdup(base);
    e->folder = tn_strdup(folder);
    pthread_mutex_init(&e->lock, NULL);
    tn_cond_init(&e->changed);
    return e;
}

void editor_free(struct editor *e)
{
    editor_stop(e);
    pthread_cond_destroy(&e->changed);
    pthread_mutex_destroy(&e->lock);
    free(e->address);
    free(e->base);
    free(e->folder);
    free(e);
}

static bool has_ended(struct tn_helper *h)
{
    return tn_helper_wait(h, 0, NULL) == 0;
}

static int tell_end(struct tn_helper *h, struct tn_error *err)
{
    tn_autobuf struct tn_buf words = TN_BUF_INIT(8192);

    tn_helper_obituary(h, &words);
    return tn_fail(err, TN_E_PEER, "the editor %.*s", WORDS_MAX, tn_buf_str(&words));
}

/* The directory of the socket is the user's, who may put a link there: it must not lead to what
 * only we can reach. */
static int dial(const struct editor *e, const char *address, struct tn_error *err)
{
    struct tn_file_user user = tn_hand_file_user(e->hand);
    tn_autoact struct tn_act_as as = {0};

    return tn_file_act_as(&as, &user, err) < 0
               ? -1
               : tn_dial(address, tn_deadline_in(DIAL_SECONDS), err);
}

static int refuse(struct tn_error *err)
{
    return tn_fail(err, TN_E_GONE, "the editor is being stopped");
}

static bool unwanted(struct editor *e)
{
    pthread_mutex_lock(&e->lock);
    bool answer = e->stopping || e->closing;
    pthread_mutex_unlock(&e->lock);
    return answer;
}

/* --- starting, by one thread at a time ----------------------------------------------------- */

static bool starts_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* That of shells, but with a place for its sockets, and not as if it were called inside another
 * editor's terminal. */
static char **environment(const struct tn_hand *hand, const char *runtime_dir)
{
    static const char *const dropped[] = {"VSCODE_IPC_HOOK_CLI=", "XDG_RUNTIME_DIR="};
    size_t count = 0, n = 0;

    while (hand->shell_env[count])
        count++;
    char **env = tn_calloc(count + 2, sizeof *env);
    for (size_t i = 0; i < count; i++) {
        if (!starts_with(hand->shell_env[i], dropped[0]) &&
            !starts_with(hand->shell_env[i], dropped[1]))
            env[n++] = tn_strdup(hand->shell_env[i]);
    }
    env[n] = tn_asprintf("XDG_RUNTIME_DIR=%s", runtime_dir);
    return env;
}

/* An editor without our extensions is an editor.  On somebody's own machine they have no place. */
static void install_extensions(struct editor *e, const char *directory)
{
    struct tn_error err;

    if (!e->hand->options.confine && editor_extensions_install(e->hand, directory, &err) < 0)
        tn_log(TN_LOG_WARN, "the editor goes without extensions of ours",
               tn_log_str("directory", directory), tn_log_str("reason", err.text));
}

static struct tn_helper *run(struct editor *e, const struct editor_program *program,
                             const char *directory, const char *socket, struct tn_error *err)
{
    tn_autofree char *extensions =
        editor_extensions_directory(program, (const char *const *)e->hand->shell_env);
    /* The kernel takes short names of sockets only; through its own directory it is short. */
    bool fits = strlen(socket) < sizeof(((struct sockaddr_un *)0)->sun_path);
    const struct editor_place place = {
        .socket = fits ? socket : "/proc/self/cwd/socket",
        .directory = fits ? directory : "/proc/self/cwd",
        .base = e->base,
        .extensions = extensions,
    };
    install_extensions(e, extensions);
    char **argv = editor_arguments(program, &place);
    char **env = environment(e->hand, directory);
    const struct tn_helper_spec spec = {
        .name = "the editor",
        .argv = (const char *const *)argv,
        .env = (const char *const *)env,
        .cwd = fits && access(e->folder, X_OK) == 0 ? e->folder : directory,
        .in = 3,
        .out = 4,
    };

    struct tn_helper *helper = tn_helper_start(e->hand, &spec, err);
    editor_free_strings(argv);
    editor_free_strings(env);
    return helper;
}

/* It listens, and answers. */
static bool is_ready(struct editor *e, const char *address, bool knows_base, int64_t deadline)
{
    tn_autobuf struct tn_buf version = TN_BUF_INIT(VERSION_MAX);
    int64_t most = tn_deadline_in(ANSWER_SECONDS);
    int fd = dial(e, address, NULL);

    if (fd < 0)
        return false;
    struct tn_http_client *client = tn_http_client_from_fd(fd);
    tn_autofree char *target = tn_asprintf("%s/version", knows_base ? e->base : "");
    struct tn_http_call ask = {.target = target, .deadline = most < deadline ? most : deadline};
    int status = tn_http_client_call(client, &ask, &version, NULL);
    tn_http_client_free(client);
    return status >= 200 && status < 400; /* one that is just coming up knows no page yet */
}

static int wait_until_ready(struct editor *e, struct tn_helper *helper, const char *address,
                            bool knows_base, int64_t deadline, struct tn_error *err)
{
    while (!is_ready(e, address, knows_base, deadline)) {
        if (tn_helper_wait(helper, tn_deadline_in(STEP_SECONDS), NULL) == 0)
            return tell_end(helper, err);
        if (unwanted(e))
            return refuse(err);
        if (tn_now() >= deadline)
            return tn_fail(err, TN_E_TIMEOUT, "the editor was not ready in time");
    }
    return 0;
}

/* Notes what others need to know of a new process.  The address is ours from now on. */
static void introduce(struct editor *e, struct tn_helper *helper, char *address, bool knows_base)
{
    pthread_mutex_lock(&e->lock);
    free(e->address);
    e->address = address;
    e->helper = helper;
    e->knows_base = knows_base;
    e->restarts += e->again;
    e->again = false;
    pthread_mutex_unlock(&e->lock);
}

/* The process is no good, for that reason. */
static void bury(struct editor *e, const struct tn_error *why)
{
    pthread_mutex_lock(&e->lock);
    struct tn_helper *helper = TN_TAKE_PTR(e->helper);
    if (why->code != TN_E_GONE) { /* nobody has asked it to end */
        tn_backoff_bad(&e->backoff);
        e->last = *why;
        e->again = true;
    }
    pthread_mutex_unlock(&e->lock);
    tn_helper_free(helper);
}

/* What crashes again and again is not started at once, unless somebody stops it meanwhile. */
static int wait_to_start(struct editor *e, int64_t deadline, struct tn_error *err)
{
    struct timespec until = tn_timespec(e->backoff.until);

    pthread_mutex_lock(&e->lock);
    while (!e->stopping && !e->closing && e->backoff.until <= deadline &&
           tn_now() < e->backoff.until)
        pthread_cond_timedwait(&e->changed, &e->lock, &until);
    bool wanted = !e->stopping && !e->closing;
    pthread_mutex_unlock(&e->lock);
    if (!wanted)
        return refuse(err);
    if (tn_backoff_wait(&e->backoff, e->hand->ending, deadline, err) < 0)
        return tn_error_context(err, "the editor");
    return 0;
}

static int launch(struct editor *e, int64_t deadline, struct tn_error *err)
{
    const struct tn_user *user = &e->hand->user.account;
    autoprogram struct editor_program program = {0};

    if (wait_to_start(e, deadline, err) < 0 ||
        editor_program_find((const char *const *)e->hand->shell_env, &program, err) < 0)
        return -1;
    tn_autofree char *directory =
        tn_state_private(e->hand->state, "vscode", user->uid, user->gid, err);
    if (!directory)
        return -1;
    tn_autofree char *socket = tn_asprintf("%s/socket", directory);
    unlink(socket);
    struct tn_helper *helper = run(e, &program, directory, socket, err);
    if (!helper)
        return -1;
    char *address = tn_asprintf("unix:%s", socket);
    bool knows_base = program.dialect->knows_base;
    introduce(e, helper, address, knows_base);
    if (wait_until_ready(e, helper, address, knows_base, deadline, err) < 0) {
        bury(e, err);
        return -1;
    }
    pthread_mutex_lock(&e->lock);
    tn_backoff_good(&e->backoff);
    pthread_mutex_unlock(&e->lock);
    tn_log(TN_LOG_INFO, "the editor is ready", tn_log_str("program", program.path),
           tn_log_int("pid", tn_helper_pid(helper)));
    return 0;
}

/* The one that ran has ended. */
static void succeed_the_dead(struct editor *e)
{
    struct tn_error err;

    if (!e->helper)
        return;
    tell_end(e->helper, &err);
    tn_log(TN_LOG_WARN, "the editor's server has ended", tn_log_str("how", err.text));
    bury(e, &err);
}

/* --- what others call ---------------------------------------------------------------------- */

/* With the lock held: until the one who is STARTING has come to an end.  An editor that ends at its
 * start tells all who wait at once: a page asks for much at the same time, and one start after the
 * other for each of them would take for ever. */
static int wait_for_other(struct editor *e, int64_t deadline, struct tn_error *err)
{
    struct timespec until = tn_timespec(deadline);
    uint64_t failed = e->failed;

    while (e->phase == STARTING && e->failed == failed) {
        if (pthread_cond_timedwait(&e->changed, &e->lock, &until) == ETIMEDOUT)
            return tn_fail(err, TN_E_TIMEOUT, "the editor was not ready in time");
    }
    if (e->failed == failed || e->last.code != TN_E_PEER)
        return 0;
    *err = e->last;
    return -1;
}

/* With the lock held: until it is ready, by our own doing if nobody else is at it. */
static int ensure_ready(struct editor *e, int64_t deadline, struct tn_error *err)
{
    for (;;) {
        if (e->closing || e->stopping)
            return refuse(err);
        if (e->phase == READY && !has_ended(e->helper))
            return 0;
        if (e->phase == STARTING) {
            if (wait_for_other(e, deadline, err) < 0)
                return -1;
            continue;
        }
        e->phase = STARTING;
        pthread_mutex_unlock(&e->lock);
        succeed_the_dead(e);
        int r = launch(e, deadline, err);
        pthread_mutex_lock(&e->lock);
        e->phase = r == 0 ? READY : IDLE;
        e->failed += r < 0;
        pthread_cond_broadcast(&e->changed);
        if (r < 0)
            return -1;
    }
}

/* It cannot be reached any more: true, with how it ended, if it has or does so in a moment. */
static bool explain(struct editor *e, struct tn_error *err)
{
    int64_t deadline = tn_deadline_in(LAST_SECONDS);

    pthread_mutex_lock(&e->lock);
    while (e->phase == READY && !has_ended(e->helper) && tn_now() < deadline) {
        /* In steps, because other visits need the lock. */
        struct timespec step = tn_timespec(tn_deadline_in(STEP_SECONDS));
        pthread_cond_timedwait(&e->changed, &e->lock, &step);
    }
    bool ended = e->phase == READY && has_ended(e->helper);
    if (ended)
        tell_end(e->helper, err);
    pthread_mutex_unlock(&e->lock);
    return ended;
}

void editor_explain(struct editor *e, struct tn_error *err)
{
    explain(e, err);
}

/* *ended: not reached, because it has ended. */
static int connect_once(struct editor *e, bool *knows_base, bool *ended, int64_t deadline,
                        struct tn_error *err)
{
    pthread_mutex_lock(&e->lock);
    int r = ensure_ready(e, deadline, err);
    tn_autofree char *address = r == 0 ? tn_strdup(e->address) : NULL;
    *knows_base = e->knows_base;
    pthread_mutex_unlock(&e->lock);
    int fd = r < 0 ? -1 : dial(e, address, err);
    *ended = fd < 0 && (r < 0 ? err->code == TN_E_PEER : explain(e, err));
    return fd;
}

int editor_connect(struct editor *e, bool *knows_base, int64_t deadline, struct tn_error *err)
{
    bool ended;
    int fd = connect_once(e, knows_base, &ended, deadline, err);

    return ended ? connect_once(e, knows_base, &ended, deadline, err) : fd;
}

void editor_stop(struct editor *e)
{
    pthread_mutex_lock(&e->lock);
    e->stopping = true;
    pthread_cond_broadcast(&e->changed);
    if (e->helper)
        tn_helper_end(e->helper, 0);
    while (e->phase == STARTING)
        pthread_cond_wait(&e->changed, &e->lock);
    struct tn_helper *helper = TN_TAKE_PTR(e->helper);
    e->phase = IDLE;
    e->stopping = e->again = false;
    e->backoff = (struct tn_backoff){0};
    e->last = (struct tn_error){0};
    pthread_mutex_unlock(&e->lock);
    tn_helper_free(helper);
}

void editor_interrupt(struct editor *e)
{
    pthread_mutex_lock(&e->lock);
    e->closing = true;
    pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->lock);
}

void editor_status(struct editor *e, struct tn_jw *w)
{
    pthread_mutex_lock(&e->lock);
    bool running = e->phase == READY && !has_ended(e->helper);
    tn_jw_kbool(w, "running", running);
    tn_jw_key(w, "pids");
    tn_jw_array(w);
    if (running)
        tn_jw_int(w, tn_helper_pid(e->helper));
    tn_jw_array_end(w);
    tn_jw_kint(w, "memory", running ? tn_helper_memory(e->helper) : 0);
    tn_jw_kint(w, "restarts", e->restarts);
    tn_jw_kbool(w, "starting", e->phase == STARTING);
    tn_jw_kint(w, "failures", e->backoff.failures);
    tn_jw_kstr(w, "last_error", e->last.code ? e->last.text : NULL);
    pthread_mutex_unlock(&e->lock);
}
