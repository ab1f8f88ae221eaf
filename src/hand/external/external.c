#include "hand/external/external.h"

#include <signal.h>
#include <sys/eventfd.h>

#include "base/thread.h"
#include "hand/external/program.h"
#include "hand/hand.h"

enum { ACTIONS_MAX = 100, TEXT_MAX = 2000 };
#define DEFAULT_SECONDS 120.0
/* What a program has to wind up after its time, within the second the hand may be late. */
#define CANCEL_SECONDS 0.4
#define STOP_SECONDS 1.0
/* How long `stop` waits for an action whose program has been killed. */
#define YIELD_SECONDS 5.0

struct tn_external {
    struct tn_plugin row;
    struct tn_hand *hand;
    char *name, *path, *help; /* path NULL: gone since the command line was read */
    int quit;                 /* readable once the hand is ending */
    int interrupted;          /* readable once who has entered shall give up */

    pthread_mutex_t lock;
    pthread_cond_t freed;
    bool busy; /* somebody talks to the program; only he may replace it */
    bool ending;
    struct plugin_program *program; /* NULL: not running */
    struct tn_json *about;          /* what it said of itself the last time */
    struct tn_backoff backoff;
    bool broken; /* since its latest good start */
    int64_t restarts;
};

/* --- one at a time -------------------------------------------------------------------------- */

/* Whether it is, which is forgotten then. */
static bool take_interrupt(struct tn_external *x)
{
    eventfd_t count;

    return eventfd_read(x->interrupted, &count) == 0;
}

static int enter(struct tn_external *x, int64_t deadline, struct tn_error *err)
{
    struct timespec until = tn_timespec(deadline);
    int r = 0;

    pthread_mutex_lock(&x->lock);
    while (x->busy && !x->ending && r == 0)
        r = pthread_cond_timedwait(&x->freed, &x->lock, &until);
    bool ending = x->ending, mine = !ending && !x->busy;
    if (mine) {
        x->busy = true;
        take_interrupt(x); /* that of somebody before */
    }
    pthread_mutex_unlock(&x->lock);
    if (ending)
        return tn_fail(err, TN_E_GONE, "the hand is ending");
    return mine ? 0 : tn_fail(err, TN_E_BUSY, "%s is busy with another action", x->name);
}

static void leave(struct tn_external *x)
{
    pthread_mutex_lock(&x->lock);
    x->busy = false;
    pthread_cond_broadcast(&x->freed);
    pthread_mutex_unlock(&x->lock);
}

/* --- its program, for whoever has entered --------------------------------------------------- */

static void replace(struct tn_external *x, struct plugin_program *program, double grace)
{
    pthread_mutex_lock(&x->lock);
    struct plugin_program *old = x->program;
    x->program = program;
    pthread_mutex_unlock(&x->lock);
    plugin_program_free(old, grace);
}

static void drop_broken(struct tn_external *x)
{
    replace(x, NULL, 0);
    x->broken = true;
    tn_backoff_bad(&x->backoff);
}

static bool short_text(const struct tn_json *object, const char *key, bool needed)
{
    const char *text = tn_json_get_str(object, key, NULL);

    return text ? strlen(text) <= TEXT_MAX : !needed;
}

/* What it says of itself is shown to others: within bounds. */
static bool makes_sense(const struct tn_json *about)
{
    const struct tn_json *actions = tn_json_get(about, "actions");

    for (size_t i = 0; i < tn_json_count(actions); i++) {
        const struct tn_json *action = tn_json_at(actions, i);
        if (i >= ACTIONS_MAX || !short_text(action, "name", true) ||
            !short_text(action, "help", false))
            return false;
    }
    return tn_json_type(actions) == TN_JSON_ARRAY && short_text(about, "help", false);
}

static int ask_what_it_does(struct tn_external *x, int64_t deadline, struct tn_error *err)
{
    const struct plugin_program_patience patience = {x->quit, x->interrupted, deadline};
    struct tn_rpc answer;

    if (plugin_program_call(x->program, "describe", "{}", &patience, &answer, err) < 0)
        return -1;
    int r = 0;
    if (answer.kind == TN_RPC_ERROR)
        r = tn_fail(err, TN_E_PEER, "describe: %.200s", answer.message);
    else if (!makes_sense(answer.result))
        r = tn_fail(err, TN_E_PEER, "describe: expected at most %d actions with a name each",
                    ACTIONS_MAX);
    if (r == 0) {
        pthread_mutex_lock(&x->lock);
        tn_json_free(x->about);
        x->about = tn_json_ref(answer.result);
        x->restarts += x->broken;
        pthread_mutex_unlock(&x->lock);
    }
    tn_rpc_done(&answer);
    return r;
}

static int probe(void *state, struct tn_buf *found, struct tn_error *err)
{
    struct tn_external *x = state;

    if (!x->path || access(x->path, X_OK) < 0)
        return tn_fail(err, TN_E_NOT_FOUND, "there is no program tendon-plugin-%s", x->name);
    tn_buf_puts(found, x->path);
    return 0;
}

/* The program runs and has said what it does. */
static int get_ready(struct tn_external *x, int64_t deadline, struct tn_error *err)
{
    tn_autobuf struct tn_buf found = TN_BUF_INIT(8192);

    if (x->program && tn_helper_wait(plugin_program_helper(x->program), 0, NULL) == 0)
        drop_broken(x); /* it ended while nobody looked */
    if (x->program)
        return 0;
    if (probe(x, &found, err) < 0)
        return tn_plugin_lacks(&x->row, err);
    if (tn_backoff_wait(&x->backoff, x->quit, deadline, err) < 0)
        return -1;
    if (take_interrupt(x))
        return tn_fail(err, TN_E_TIMEOUT, "was interrupted");
    struct plugin_program *program = plugin_program_start(x->hand, x->path, err);
    if (!program)
        return -1;
    replace(x, program, 0);
    if (ask_what_it_does(x, deadline, err) < 0) {
        drop_broken(x);
        return -1;
    }
    x->broken = false;
    tn_backoff_good(&x->backoff);
    return 0;
}

/* --- the row -------------------------------------------------------------------------------- */

static int start(void *state, int64_t deadline, struct tn_error *err)
{
    struct tn_external *x = state;

    if (enter(x, deadline, err) < 0)
        return -1;
    int r = get_ready(x, deadline, err);
    leave(x);
    return r;
}

static void stop(void *state)
{
    struct tn_external *x = state;

    pthread_mutex_lock(&x->lock);
    if (x->busy && x->program) /* what it does then fails */
        tn_helper_signal(plugin_program_helper(x->program), SIGKILL, NULL);
    pthread_mutex_unlock(&x->lock);
    if (enter(x, tn_deadline_in(YIELD_SECONDS), NULL) < 0)
        return;
    replace(x, NULL, STOP_SECONDS);
    leave(x);
}

static void interrupt(void *state)
{
    struct tn_external *x = state;

    pthread_mutex_lock(&x->lock);
    x->ending = true;
    pthread_cond_broadcast(&x->freed);
    pthread_mutex_unlock(&x->lock);
    eventfd_write(x->quit, 1);
}

static void cancel(void *state)
{
    struct tn_external *x = state;

    pthread_mutex_lock(&x->lock);
    if (x->busy)
        eventfd_write(x->interrupted, 1);
    pthread_mutex_unlock(&x->lock);
}

static void put_about(const struct tn_json *about, struct tn_jw *w)
{
    const struct tn_json *actions = tn_json_get(about, "actions");

    tn_jw_kstr(w, "description", tn_json_get_str(about, "help", ""));
    tn_jw_key(w, "actions");
    tn_jw_array(w);
    for (size_t i = 0; i < tn_json_count(actions); i++) {
        tn_jw_object(w);
        tn_jw_kstr(w, "name", tn_json_get_str(tn_json_at(actions, i), "name", ""));
        tn_jw_kstr(w, "help", tn_json_get_str(tn_json_at(actions, i), "help", ""));
        tn_jw_object_end(w);
    }
    tn_jw_array_end(w);
}

static void status(void *state, struct tn_jw *w)
{
    struct tn_external *x = state;

    pthread_mutex_lock(&x->lock);
    struct tn_helper *helper = x->program ? plugin_program_helper(x->program) : NULL;
    bool running = helper && tn_helper_wait(helper, 0, NULL) < 0;
    tn_jw_kbool(w, "running", running);
    tn_jw_key(w, "pids");
    tn_jw_array(w);
    if (running)
        tn_jw_int(w, tn_helper_pid(helper));
    tn_jw_array_end(w);
    tn_jw_kint(w, "memory", running ? tn_helper_memory(helper) : 0);
    tn_jw_kint(w, "restarts", x->restarts);
    if (x->about)
        put_about(x->about, w);
    pthread_mutex_unlock(&x->lock);
}

static void close_(void *state)
{
    struct tn_external *x = state;

    plugin_program_free(x->program, 0);
    tn_json_free(x->about);
    tn_close(x->quit);
    tn_close(x->interrupted);
    pthread_cond_destroy(&x->freed);
    pthread_mutex_destroy(&x->lock);
    free(x->help);
    free(x->path);
    free(x->name);
    free(x);
}

struct tn_external *tn_external_open(struct tn_hand *hand, const char *name)
{
    struct tn_external *x = tn_calloc(1, sizeof *x);

    x->hand = hand;
    x->name = tn_strdup(name);
    x->path = tn_plugin_search(&hand->options, name);
    x->help = tn_asprintf("actions %s.*, by a program of their own", name);
    x->quit = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    x->interrupted = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&x->lock, NULL);
    tn_cond_init(&x->freed);
    x->row = (struct tn_plugin){
        .name = x->name,
        .help = x->help,
        .install = "put it " TN_EXTERNAL_PLACE,
        .flags = TN_PLUGIN_NAMED,
        .close = close_,
        .interrupt = interrupt,
        .cancel = cancel,
        .probe = probe,
        .start = start,
        .stop = stop,
        .status = status,
    };
    return x;
}

const struct tn_plugin *tn_external_row(const struct tn_external *x)
{
    return &x->row;
}

/* --- actions -------------------------------------------------------------------------------- */

static int check_action(const struct tn_external *x, const char *action, struct tn_error *err)
{
    const struct tn_json *actions = tn_json_get(x->about, "actions");
    tn_autobuf struct tn_buf known = TN_BUF_INIT(300);

    for (size_t i = 0; i < tn_json_count(actions); i++) {
        const char *name = tn_json_get_str(tn_json_at(actions, i), "name", "");
        if (strcmp(name, action) == 0)
            return 0;
        tn_buf_printf(&known, "%s%s", i ? ", " : "", name);
    }
    return tn_fail(err, TN_E_UNSUPPORTED, "there is no such action; there are: %s",
                   tn_buf_str(&known));
}

static void put_execute(const struct tn_action *a, const char *action, double seconds,
                        struct tn_buf *out)
{
    struct tn_jw w = tn_jw(out);

    tn_jw_object(&w);
    tn_jw_kstr(&w, "action", action);
    tn_jw_key(&w, "args");
    tn_jw_tree(&w, a->plugin.args);
    tn_jw_kdouble(&w, "timeout", seconds);
    tn_jw_object_end(&w);
}

/* The program was told to stop: keep it if it did. */
static int wind_up(struct tn_external *x, double seconds, struct tn_error *err)
{
    const struct plugin_program_patience patience = {x->quit, -1, tn_deadline_in(CANCEL_SECONDS)};
    struct tn_rpc answer;
    struct tn_error ignored;
    char number[32], what[80];

    tn_format_double(number, seconds);
    if (take_interrupt(x))
        snprintf(what, sizeof what, "was interrupted");
    else
        snprintf(what, sizeof what, "timed out after %s seconds", number);
    if (plugin_program_cancel(x->program, &patience, &answer, &ignored) < 0) {
        drop_broken(x);
        return tn_fail(err, TN_E_TIMEOUT, "%s, and its program was ended", what);
    }
    const char *last = answer.kind == TN_RPC_ERROR ? answer.message
                                                   : tn_json_get_str(answer.result, "content", "");
    tn_fail(err, TN_E_TIMEOUT, "%s: %.300s", what, last);
    tn_rpc_done(&answer);
    return -1;
}

static int call(struct tn_external *x, const struct tn_action *a, double seconds, int64_t deadline,
                struct tn_rpc *answer, struct tn_error *err)
{
    const struct plugin_program_patience patience = {x->quit, x->interrupted, deadline};
    const char *action = strchr(a->plugin.name, '.') + 1;
    tn_autobuf struct tn_buf params = TN_BUF_INIT(PROGRAM_LINE_MAX);

    if (get_ready(x, deadline, err) < 0 || check_action(x, action, err) < 0)
        return -1;
    put_execute(a, action, seconds, &params);
    if (!tn_buf_ok(&params))
        return tn_fail(err, TN_E_TOO_LARGE, "the arguments are longer than %zu MiB",
                       PROGRAM_LINE_MAX >> 20);
    if (plugin_program_call(x->program, "execute", tn_buf_str(&params), &patience, answer, err) ==
        0)
        return 0;
    switch ((int)err->code) {
    case TN_E_TIMEOUT:
        return wind_up(x, seconds, err);
    case TN_E_PEER:
        drop_broken(x);
        return -1;
    default:
        return -1;
    }
}

static void fill(const struct tn_action *a, const struct tn_rpc *answer, struct tn_observation *o)
{
    size_t n = 0;
    const char *content = tn_json_str(tn_json_get(answer->result, "content"), &n);
    tn_autobuf struct tn_buf text = TN_BUF_INIT(PROGRAM_LINE_MAX);

    if (answer->kind == TN_RPC_ERROR) {
        tn_observation_init_error(o, a, "%s: %s", a->plugin.name, answer->message);
        return;
    }
    if (!content) {
        tn_observation_init_error(o, a, "%s: the plugin answered without a content",
                                  a->plugin.name);
        return;
    }
    tn_observation_init(o, TN_OBSERVATION_MCP);
    free(o->mcp.name);
    o->mcp.name = tn_strdup(a->plugin.name);
    tn_json_free(o->mcp.arguments);
    o->mcp.arguments = tn_json_ref(a->plugin.args);
    tn_buf_add(&text, content, n);
    tn_observation_take_content(o, &text);
}

void tn_external_execute(struct tn_external *x, const struct tn_action *a, struct tn_observation *o)
{
    double seconds = a->timeout.set && a->timeout.value > 0 ? a->timeout.value : DEFAULT_SECONDS;
    int64_t deadline = tn_deadline_in(seconds);
    struct tn_rpc answer;
    struct tn_error err = {0};
    int r = enter(x, deadline, &err);

    if (r == 0) {
        r = call(x, a, seconds, deadline, &answer, &err);
        leave(x);
    }
    if (r < 0) {
        tn_observation_init_error(o, a, "%s: %s", a->plugin.name, err.text);
        return;
    }
    fill(a, &answer, o);
    tn_rpc_done(&answer);
}
