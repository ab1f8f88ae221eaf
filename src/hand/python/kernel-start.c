/* A kernel for the next cell: what became of the one there was, and how another one is started. */
#include "base/account.h"
#include "hand/embedded.h"
#include "hand/plugin.h"
#include "hand/python/exports.h"
#include "hand/python/interpreter.h"
#include "hand/python/kernel-internal.h"

#define START_SECONDS 60.0
#define SHELL_SECONDS 10.0
/* A deadline that passes while an interpreter says hello: a little more, or nothing would ever come
 * of short ones. */
#define HELLO_SECONDS 0.5

/* --- the place ------------------------------------------------------------------------------ */

static int unpack(const struct tn_hand *hand, const char *directory, struct tn_error *err)
{
    const struct tn_agent_user *user = &hand->user;
    tn_autoact struct tn_act_as as_user = {0};

    /* The directory is the user's: whatever is put there is put as the user. */
    if (user->switch_user && tn_act_as_begin(&as_user, user->account.uid, user->account.gid,
                                             user->groups, user->group_count, err) < 0)
        return -1;
    if (tn_embedded_unpack("python/tendon_kernel", directory, err) < 0)
        return -1;
    return tn_embedded_unpack("python/agentskills/", directory, err);
}

/* The directory, made with its programs when it is needed first. */
static int prepare(struct kernel_place *p, struct tn_error *err)
{
    const struct tn_user *account = &p->hand->user.account;
    int r = 0;

    pthread_mutex_lock(&p->lock);
    if (!p->directory) {
        tn_autofree char *directory =
            tn_state_private(p->hand->state, "python", account->uid, account->gid, err);
        r = directory ? unpack(p->hand, directory, err) : -1;
        if (r == 0)
            p->directory = TN_TAKE_PTR(directory);
    }
    pthread_mutex_unlock(&p->lock);
    return r;
}

/* --- the end of one ------------------------------------------------------------------------- */

void kernel_lose(struct kernel *k, const char *why)
{
    pthread_mutex_lock(&k->lock);
    struct bridge *bridge = TN_TAKE_PTR(k->bridge);
    bool stopped = k->stopped;
    k->stopped = false;
    k->pid = 0;
    k->restarts += !stopped;
    pthread_mutex_unlock(&k->lock);
    bridge_free(bridge);
    if (!stopped)
        tn_backoff_bad(&k->backoff);
    tn_autofree char *died = TN_TAKE_PTR(k->died);
    if (k->ready && !k->lost)
        k->lost = tn_strdup(stopped ? "was stopped" : died ? died : why);
    k->ready = false;
    k->owed = 0;
    free(TN_TAKE_PTR(k->cwd));
}

void kernel_note(struct kernel *k, const struct tn_json *message)
{
    const char *died = tn_json_get_str(message, "died", NULL);

    if (died) {
        free(k->died);
        k->died = tn_strdup(died);
    }
    if (tn_json_bool(tn_json_get(message, "ready"), false))
        k->ready = k->fresh = true;
    if (k->owed && (uint64_t)tn_json_int(tn_json_get(message, "id"), 0) == k->owed &&
        tn_json_bool(tn_json_get(message, "stopped"), false))
        k->owed = 0;
}

/* Looks what it has said since its last answer, and waits for a cell that shall stop. */
static int settle(struct kernel *k, int64_t deadline, struct tn_error *err)
{
    while (k->bridge) {
        tn_autojson struct tn_json *message = NULL;
        int64_t until = k->owed_until < deadline ? k->owed_until : deadline;
        if (bridge_receive(k->bridge, k->owed ? until : 0, &message, err) == 0)
            kernel_note(k, message);
        else if (err->code != TN_E_TIMEOUT)
            kernel_lose(k, err->text);
        else if (!k->owed)
            break;
        else if (tn_now() >= k->owed_until)
            kernel_lose(k, "did not stop when its cell was interrupted, and was killed");
        else
            return tn_fail(err, TN_E_TIMEOUT, "the cell before is still being stopped");
    }
    return 0;
}

/* --- the start of another one --------------------------------------------------------------- */

struct tn_session *kernel_shell(struct kernel *k)
{
    struct tn_sessions *sessions = k->place->hand->sessions;
    struct tn_session *session = tn_sessions_get(sessions, k->name, NULL);

    return session ? session : tn_sessions_get(sessions, TN_MAIN_SESSION, NULL);
}

/* The environment of the shell, with what only the server may decide. */
static void learn_exports(struct kernel *k, int64_t deadline)
{
    struct tn_session *shell = kernel_shell(k);
    int64_t patience = tn_deadline_in(SHELL_SECONDS);
    char *const *initial = k->place->hand->shell_env;

    free(k->listing);
    exports_free(k->exports);
    k->listing = tn_session_exports(shell, deadline < patience ? deadline : patience);
    tn_session_unref(shell);
    k->exports = exports_parse(k->listing ? k->listing : "");
    if (!k->listing) {
        for (size_t i = 0; initial[i]; i++) {
            tn_autofree char *name = tn_strndup(initial[i], strcspn(initial[i], "="));
            exports_set(&k->exports, name, exports_get(initial, name));
        }
    }
    exports_set(&k->exports, "TENDON_HAND", tn_state_id(k->place->hand->state));
}

/* Why the interpreters there are cannot do it. */
static int fail_all(const struct interpreters *list, const struct tn_buf *reasons,
                    struct tn_error *err)
{
    if (list->count == 0)
        return tn_fail(err, TN_E_NOT_FOUND,
                       "there is no Python in this sandbox: install python3 and ipykernel (%s)",
                       tn_plugin_jupyter.install);
    return tn_fail(err, TN_E_NOT_FOUND,
                   "no Python in this sandbox can run IPython: install ipykernel (apt-get install "
                   "python3-ipykernel, or %s -m pip install ipykernel). Found %s",
                   list->paths[0], tn_buf_str(reasons));
}

/* Waits for the first line of a bridge: 1 when the interpreter can do it, 0 when it cannot, which
 * is noted; -1 when time is up. */
static int greet(struct bridge *bridge, const char *interpreter, int64_t deadline,
                 struct tn_json **hello, struct tn_buf *reasons, struct tn_error *err)
{
    const char *separator = reasons->len ? "; " : "";

    if (bridge_receive(bridge, deadline, hello, err) < 0) {
        if (err->code == TN_E_TIMEOUT)
            return -1;
        tn_buf_printf(reasons, "%s%s: %.160s", separator, interpreter, err->text);
        return 0;
    }
    const struct tn_json *missing = tn_json_get(*hello, "missing");
    if (!missing)
        return 1;
    const char *module = tn_json_str(tn_json_at(missing, 0), NULL);
    tn_buf_printf(reasons, "%s%s without %s", separator, interpreter, module ? module : "it");
    return 0;
}

/* 1 when its bridge runs, 0 when this interpreter cannot, -1 when all is lost. */
static int try_interpreter(struct kernel *k, const char *interpreter, int64_t deadline,
                           struct tn_buf *reasons, struct tn_error *err)
{
    struct kernel_place *p = k->place;
    tn_autojson struct tn_json *hello = NULL;
    struct bridge *bridge =
        bridge_start(p->hand, interpreter, p->directory, k->name, k->exports, err);

    if (!bridge) {
        tn_buf_printf(reasons, "%s%.160s", reasons->len ? "; " : "", err->text);
        return 0;
    }
    int r = greet(bridge, interpreter, deadline, &hello, reasons, err);
    if (r <= 0) {
        bridge_free(bridge);
        return r;
    }
    pthread_mutex_lock(&k->lock);
    k->bridge = bridge;
    k->pid = (pid_t)tn_json_int(tn_json_get(hello, "kernel"), 0);
    free(k->interpreter);
    k->interpreter = tn_strdup(tn_json_get_str(hello, "interpreter", interpreter));
    free(k->file);
    k->file = tn_strdup(tn_json_get_str(hello, "file", ""));
    pthread_mutex_unlock(&k->lock);
    k->ready = false;
    k->start_by = tn_deadline_in(START_SECONDS);
    return 1;
}

/* The one that could the last time, as long as PATH is the same. */
static char *remembered(struct kernel_place *p, const char *path)
{
    pthread_mutex_lock(&p->lock);
    char *interpreter =
        p->path && strcmp(p->path, path) == 0 ? tn_strdup_or_null(p->interpreter) : NULL;
    pthread_mutex_unlock(&p->lock);
    return interpreter;
}

static void remember(struct kernel_place *p, const char *path, const char *interpreter)
{
    pthread_mutex_lock(&p->lock);
    free(p->path);
    free(p->interpreter);
    p->path = tn_strdup(path);
    p->interpreter = tn_strdup(interpreter);
    pthread_mutex_unlock(&p->lock);
}

static int try_interpreters(struct kernel *k, int64_t deadline, struct tn_error *err)
{
    tn_autobuf struct tn_buf reasons = TN_BUF_INIT(4096);
    const char *path = exports_get(k->exports, "PATH");
    tn_autofree char *known = remembered(k->place, path ? path : "");
    struct interpreters list;

    int r = known ? try_interpreter(k, known, deadline, &reasons, err) : 0;
    if (r != 0)
        return r < 0 ? -1 : 0;
    tn_buf_reset(&reasons);
    interpreters_find(&list, path);
    for (size_t i = 0; r == 0 && i < list.count; i++) {
        r = try_interpreter(k, list.paths[i], deadline, &reasons, err);
        if (r == 1)
            remember(k->place, path ? path : "", list.paths[i]);
    }
    if (r == 0)
        fail_all(&list, &reasons, err);
    interpreters_done(&list);
    return r == 1 ? 0 : -1;
}

static int begin(struct kernel *k, int64_t deadline, struct tn_error *err)
{
    if (__atomic_load_n(&k->place->closing, __ATOMIC_ACQUIRE))
        return tn_fail(err, TN_E_BUSY, "the server is stopping");
    if (tn_backoff_wait(&k->backoff, k->place->hand->ending, deadline, err) < 0)
        return tn_error_context(err, "the kernel");
    if (prepare(k->place, err) < 0)
        return -1;
    learn_exports(k, deadline);
    int64_t least = tn_deadline_in(HELLO_SECONDS);
    return try_interpreters(k, deadline > least ? deadline : least, err);
}

/* Waits until it is ready; one that dies meanwhile has no state to lose. */
static int await_ready(struct kernel *k, int64_t deadline, struct tn_error *err)
{
    while (!k->ready) {
        tn_autojson struct tn_json *message = NULL;
        int64_t until = k->start_by < deadline ? k->start_by : deadline;
        if (bridge_receive(k->bridge, until, &message, err) == 0) {
            kernel_note(k, message);
            continue;
        }
        if (err->code == TN_E_TIMEOUT && tn_now() < k->start_by)
            return tn_fail(err, TN_E_TIMEOUT, "the kernel is still starting");
        if (err->code == TN_E_TIMEOUT)
            tn_fail(err, TN_E_INTERNAL, "it did not get ready within %g seconds", START_SECONDS);
        else if (k->died)
            tn_fail(err, TN_E_INTERNAL, "%s", k->died);
        tn_error_context(err, "the kernel did not start");
        err->code = TN_E_INTERNAL;
        kernel_lose(k, "");
        return -1;
    }
    tn_backoff_good(&k->backoff);
    return 0;
}

int kernel_ensure(struct kernel *k, int64_t deadline, struct tn_error *err)
{
    if (settle(k, deadline, err) < 0 || (!k->bridge && begin(k, deadline, err) < 0))
        return -1;
    return await_ready(k, deadline, err);
}
