/* The plugins jupyter (IPython cells) and agent_skills (names that cells find defined). */
#include "base/clock.h"
#include "hand/embedded.h"
#include "hand/plugin.h"
#include "hand/python/exports.h"
#include "hand/python/interpreter.h"
#include "hand/python/kernel.h"
#include "hand/python/live.h"

enum { KERNELS_MAX = 16, CONTENT_MAX = 16 << 20 };
#define DEFAULT_SECONDS 120.0
#define GIVE_UP_SECONDS 10.0

struct jupyter {
    struct kernel_place place;
    struct lives lives;
    pthread_mutex_t lock;
    struct kernel *kernels[KERNELS_MAX];
    size_t count;
};

/* All kernels at some moment. */
struct kernels {
    struct kernel *items[KERNELS_MAX];
    size_t count;
};

static void *open_jupyter(struct tn_hand *hand)
{
    struct jupyter *j = tn_calloc(1, sizeof *j);

    j->place.hand = hand;
    pthread_mutex_init(&j->place.lock, NULL);
    pthread_mutex_init(&j->lock, NULL);
    lives_init(&j->lives);
    return j;
}

static void close_jupyter(void *state)
{
    struct jupyter *j = state;

    for (size_t i = 0; i < j->count; i++)
        kernel_unref(j->kernels[i]);
    lives_done(&j->lives);
    pthread_mutex_destroy(&j->lock);
    pthread_mutex_destroy(&j->place.lock);
    free(j->place.directory);
    free(j->place.path);
    free(j->place.interpreter);
    free(j);
}

static void borrow(struct jupyter *j, struct kernels *all)
{
    pthread_mutex_lock(&j->lock);
    for (all->count = 0; all->count < j->count; all->count++)
        all->items[all->count] = kernel_ref(j->kernels[all->count]);
    pthread_mutex_unlock(&j->lock);
}

static void give_back(struct kernels *all)
{
    for (size_t i = 0; i < all->count; i++)
        kernel_unref(all->items[i]);
}

/* These with the lock. */

static struct kernel **find(struct jupyter *j, const char *name)
{
    for (size_t i = 0; i < j->count; i++) {
        if (strcmp(kernel_name(j->kernels[i]), name) == 0)
            return &j->kernels[i];
    }
    return NULL;
}

static struct kernel *take_off(struct jupyter *j, struct kernel **at)
{
    struct kernel *k = *at;

    *at = j->kernels[--j->count];
    return k;
}

static void make_room(struct jupyter *j)
{
    for (size_t i = 0; i < j->count && j->count == KERNELS_MAX; i++) {
        if (kernel_is_spare(j->kernels[i]))
            kernel_unref(take_off(j, &j->kernels[i]));
    }
}

/* The caller unrefs it. */
static struct kernel *kernel_named(struct jupyter *j, const char *name, struct tn_error *err)
{
    struct kernel *k = NULL;

    if (tn_sessions_check_name(name, err) < 0)
        return NULL;
    pthread_mutex_lock(&j->lock);
    struct kernel **at = find(j, name);
    if (!at)
        make_room(j);
    if (!at && j->count < KERNELS_MAX) {
        at = &j->kernels[j->count++];
        *at = kernel_new(&j->place, name);
    }
    if (at)
        k = kernel_ref(*at);
    pthread_mutex_unlock(&j->lock);
    if (!k)
        tn_fail(err, TN_E_BUSY, "there are %d kernels already: use one of them", KERNELS_MAX);
    return k;
}

/* --- the action ----------------------------------------------------------------------------- */

/* A line of our own, in brackets. */
static void put_note(struct tn_buf *content, const char *before, const char *text,
                     const char *after)
{
    if (content->len && content->data[content->len - 1] != '\n')
        tn_buf_putc(content, '\n');
    tn_buf_printf(content, "[%s%s%s]", before, text, after);
}

static void put_heading(const struct kernel_result *r, struct tn_buf *content)
{
    const struct tn_json *warnings = tn_json_get(r->answer, "warnings");

    if (r->lost)
        put_note(content, "This is a new kernel: the one before ", r->lost,
                 ". Its variables are lost.");
    for (size_t i = 0; i < tn_json_count(warnings); i++) {
        const char *warning = tn_json_str(tn_json_at(warnings, i), NULL);
        put_note(content, "Warning: ", warning ? warning : "", "");
    }
    if (content->len)
        tn_buf_putc(content, '\n');
}

static void put_end(const struct kernel_result *r, double timeout, struct tn_buf *content)
{
    char seconds[32];

    tn_format_double(seconds, timeout);
    if (r->end == KERNEL_DIED)
        put_note(content, "The kernel ", r->why,
                 ". Its variables are lost; the next cell starts a new one.");
    if (r->end == KERNEL_GIVEN_UP)
        put_note(content, "The cell was not run: it was given up.", "", "");
    if (r->end == KERNEL_TIMEOUT) {
        put_note(content, "Execution timed out (", seconds, " seconds).");
        if (r->why)
            put_note(content, "", r->why, ".");
    }
}

static void put_footer(const struct kernel_result *r, struct tn_buf *content)
{
    tn_buf_printf(content, "\n[Jupyter current working directory: %s]", r->cwd);
    if (r->interpreter)
        tn_buf_printf(content, "\n[Jupyter Python interpreter: %s]", r->interpreter);
}

static void take_images(const struct tn_json *images, struct tn_str_list *list)
{
    size_t n = tn_json_count(images);

    if (n == 0)
        return;
    list->items = tn_calloc(n + 1, sizeof *list->items);
    for (; list->count < n; list->count++) {
        const char *url = tn_json_str(tn_json_at(images, list->count), NULL);
        list->items[list->count] = tn_strdup(url ? url : "");
    }
}

static void observe(const struct tn_ipython_action *run, const struct kernel_result *r,
                    double timeout, struct tn_observation *o)
{
    tn_autobuf struct tn_buf content = TN_BUF_INIT(CONTENT_MAX);
    size_t len = 0;
    const char *text = tn_json_str(tn_json_get(r->answer, "text"), &len);

    tn_observation_init(o, TN_OBSERVATION_RUN_IPYTHON);
    o->run_ipython.code = tn_strdup(run->code);
    o->run_ipython.failed =
        r->end != KERNEL_DONE || tn_json_bool(tn_json_get(r->answer, "failed"), false);
    put_heading(r, &content);
    tn_buf_add(&content, text ? text : "", len);
    put_end(r, timeout, &content);
    if (run->include_extra)
        put_footer(r, &content);
    tn_observation_take_content(o, &content);
    take_images(tn_json_get(r->answer, "images"), &o->run_ipython.image_urls);
}

struct followed {
    struct lives *lives;
    const char *id;
};

static void tell_live(const char *text, size_t n, void *ctx)
{
    const struct followed *f = ctx;

    lives_add(f->lives, f->id, text, n);
}

static void run_ipython(struct tn_hand *hand, const struct tn_action *a, struct tn_observation *o,
                        struct tn_delivery *delivery)
{
    struct jupyter *j = tn_plugin_state(hand, &tn_plugin_jupyter);
    const struct tn_ipython_action *run = &a->run_ipython;
    struct followed followed = {.lives = &j->lives, .id = delivery->request};
    struct kernel_cell cell = {
        .live = lives_wanted(&j->lives, delivery->request) ? tell_live : NULL,
        .ctx = &followed,
        .code = run->code,
        .init = run->kernel_init_code ? run->kernel_init_code : "",
        .timeout = a->timeout.set && a->timeout.value > 0 ? a->timeout.value : DEFAULT_SECONDS,
        .request = delivery->request,
    };
    struct kernel_result r;
    struct tn_error err;
    struct kernel *k = kernel_named(j, run->session ? run->session : TN_MAIN_SESSION, &err);

    if (!k) {
        tn_observation_init_error(o, a, "%s", err.text);
        lives_end(&j->lives, delivery->request);
        return;
    }
    kernel_run(k, &cell, &r);
    lives_end(&j->lives, delivery->request);
    if (r.end == KERNEL_FAILED)
        tn_observation_init_error(o, a, "%s", r.why);
    else
        observe(run, &r, cell.timeout, o);
    kernel_result_done(&r);
    kernel_unref(k);
}

/* --- jupyter -------------------------------------------------------------------------------- */

static void interrupt(void *state)
{
    struct jupyter *j = state;

    __atomic_store_n(&j->place.closing, true, __ATOMIC_RELEASE);
    lives_wake(&j->lives);
}

static int probe(void *state, struct tn_buf *found, struct tn_error *err)
{
    struct jupyter *j = state;
    struct tn_hand *hand = j->place.hand;
    struct tn_session *shell = tn_sessions_get(hand->sessions, TN_MAIN_SESSION, NULL);
    tn_autofree char *listing = tn_session_exports(shell, 0);
    char **exports = exports_parse(listing ? listing : "");
    char *const *env = listing ? exports : hand->shell_env;
    const char *home = exports_get(env, "HOME");
    struct interpreters list;

    tn_session_unref(shell);
    interpreters_find(&list, exports_get(env, "PATH"));
    int r = interpreters_probe(&list, home ? home : "", found, err);
    interpreters_done(&list);
    exports_free(exports);
    return r;
}

static int start(void *state, int64_t deadline, struct tn_error *err)
{
    struct kernel *k = kernel_named(state, TN_MAIN_SESSION, err);
    int r = k ? kernel_start(k, deadline, err) : -1;

    kernel_unref(k);
    return r;
}

static void stop(void *state)
{
    struct kernels all;

    borrow(state, &all);
    for (size_t i = 0; i < all.count; i++)
        kernel_stop(all.items[i]);
    give_back(&all);
}

static void cancel(void *state)
{
    struct kernels all;

    borrow(state, &all);
    for (size_t i = 0; i < all.count; i++)
        kernel_interrupt(all.items[i]);
    give_back(&all);
}

/* The kernel that shared its directory and variables goes as well. */
static void session_gone(void *state, const char *name)
{
    struct jupyter *j = state;

    pthread_mutex_lock(&j->lock);
    struct kernel **at = find(j, name);
    struct kernel *k = at ? take_off(j, at) : NULL;
    pthread_mutex_unlock(&j->lock);
    if (k)
        kernel_stop(k);
    kernel_unref(k);
}

static void put_kernel(struct tn_jw *w, const char *name, const struct kernel_state *k)
{
    tn_jw_object(w);
    tn_jw_kstr(w, "name", name);
    tn_jw_kbool(w, "running", k->running);
    tn_jw_kbool(w, "busy", k->busy);
    tn_jw_kint(w, "cells", k->cells);
    tn_jw_kint(w, "restarts", k->restarts);
    if (k->running) {
        tn_jw_kint(w, "pid", k->kernel);
        tn_jw_kstr(w, "interpreter", k->interpreter);
        tn_jw_kstr(w, "connection_file", k->file);
    }
    tn_jw_object_end(w);
}

static void status(void *state, struct tn_jw *w)
{
    struct kernels all;
    struct kernel_state kernels[KERNELS_MAX];
    int64_t memory = 0, restarts = 0;
    bool running = false;

    borrow(state, &all);
    tn_jw_key(w, "pids");
    tn_jw_array(w);
    for (size_t i = 0; i < all.count; i++) {
        struct kernel_state *k = &kernels[i];
        kernel_inspect(all.items[i], k);
        running = running || k->running;
        memory += k->memory;
        restarts += k->restarts;
        if (k->running) {
            tn_jw_int(w, k->bridge);
            tn_jw_int(w, k->kernel);
        }
    }
    tn_jw_array_end(w);
    tn_jw_kbool(w, "running", running);
    tn_jw_kint(w, "memory", memory);
    tn_jw_kint(w, "restarts", restarts);
    tn_jw_key(w, "kernels");
    tn_jw_array(w);
    for (size_t i = 0; i < all.count; i++) {
        put_kernel(w, kernel_name(all.items[i]), &kernels[i]);
        free(kernels[i].file);
        free(kernels[i].interpreter);
    }
    tn_jw_array_end(w);
    give_back(&all);
}

static void get_cell(struct tn_http_exchange *x, void *ctx)
{
    struct tn_hand *hand = ctx;

    if (!tn_plugin_enabled(hand, &tn_plugin_jupyter)) {
        tn_http_reply_detail(x, 404, tn_plugin_jupyter.not_asked);
        return;
    }
    struct jupyter *j = tn_plugin_state(hand, &tn_plugin_jupyter);
    lives_answer(&j->lives, x);
}

static void delete_cell(struct tn_http_exchange *x, void *ctx)
{
    struct tn_hand *hand = ctx;
    const char *id = tn_http_param(x, "id");
    int64_t deadline = tn_deadline_in(GIVE_UP_SECONDS);
    struct kernels all = {0};
    bool found = false;

    if (tn_plugin_enabled(hand, &tn_plugin_jupyter)) {
        borrow(tn_plugin_state(hand, &tn_plugin_jupyter), &all);
        for (size_t i = 0; i < all.count && !found; i++)
            found = kernel_give_up(all.items[i], id, deadline);
        give_back(&all);
    }
    if (!found)
        tn_http_reply_detail(x, 404, "no such cell runs or waits");
    else if (tn_now() >= deadline)
        tn_http_reply_detail(x, 504, "the cell has not ended yet: its kernel is starting");
    else
        tn_http_reply(x, 204, NULL, NULL, 0);
}

static const struct tn_route routes[] = {
    {"DELETE", "/v1/cells/{id}", delete_cell, "gives the cell of that X-Request-Id up", 0},
    {"GET", "/v1/cells/{id}/output", get_cell,
     "what the cell of that X-Request-Id prints, from ?offset=, after ?wait= seconds at most", 0},
    {0},
};

static const struct tn_plugin_action actions[] = {{TN_ACTION_RUN_IPYTHON, run_ipython}, {0}};

const struct tn_plugin tn_plugin_jupyter = {
    .name = "jupyter",
    .help = "IPython cells (run_ipython)",
    .install = "apt-get install python3-ipykernel, or pip install ipykernel",
    .flags = TN_PLUGIN_NAMED,
    .not_asked = "JupyterRequirement not found. Unable to run IPython action.",
    .open = open_jupyter,
    .close = close_jupyter,
    .interrupt = interrupt,
    .cancel = cancel,
    .session_gone = session_gone,
    .probe = probe,
    .start = start,
    .stop = stop,
    .status = status,
    .routes = routes,
    .actions = actions,
};

/* --- agent_skills --------------------------------------------------------------------------- */

/* All it has is what new kernels run first, so its state is the hand itself. */
static void *open_skills(struct tn_hand *hand)
{
    return hand;
}

static void close_skills(void *state)
{
}

static void *its_jupyter(void *state)
{
    return tn_plugin_state(state, &tn_plugin_jupyter);
}

static int probe_skills(void *state, struct tn_buf *found, struct tn_error *err)
{
    if (!tn_plugin_enabled(state, &tn_plugin_jupyter))
        return tn_fail(err, TN_E_NOT_FOUND, "the plugin jupyter was not asked for");
    return probe(its_jupyter(state), found, err);
}

static int start_skills(void *state, int64_t deadline, struct tn_error *err)
{
    return start(its_jupyter(state), deadline, err);
}

static void stop_skills(void *state)
{
    stop(its_jupyter(state));
}

static void cancel_skills(void *state)
{
    cancel(its_jupyter(state));
}

static void status_skills(void *state, struct tn_jw *w)
{
    struct kernels all;
    bool running = false;

    borrow(its_jupyter(state), &all);
    for (size_t i = 0; i < all.count; i++) {
        struct kernel_state k;
        kernel_inspect(all.items[i], &k);
        running = running || k.running;
        free(k.file);
        free(k.interpreter);
    }
    give_back(&all);
    tn_jw_kbool(w, "running", running);
    tn_jw_key(w, "pids"); /* those of jupyter */
    tn_jw_array(w);
    tn_jw_array_end(w);
    tn_jw_kint(w, "memory", 0);
    tn_jw_kint(w, "restarts", 0);
}

const struct tn_plugin tn_plugin_agent_skills = {
    .name = "agent_skills",
    .help = "Python functions for the agent, defined in every kernel",
    .install = "apt-get install python3-ipykernel, or pip install ipykernel",
    .flags = TN_PLUGIN_NAMED,
    .open = open_skills,
    .close = close_skills,
    .cancel = cancel_skills,
    .probe = probe_skills,
    .start = start_skills,
    .stop = stop_skills,
    .status = status_skills,
};
