#include "runtime/runtime.h"

#include <libgen.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/thread.h"
#include "runtime/programs.h"
#include "runtime/registry.h"
#include "security/judge.h"

/* What an earlier process left may cost a start this much. */
#define SWEEP_SECONDS 5.0

/* The state directory, made when missing: its real path, on the heap. */
static char *make_state(const struct tn_config *config, struct tn_error *err)
{
    tn_autofree char *given = tn_config_state(config);
    tn_autofree char *sandboxes = tn_asprintf("%s/sandbox", given);
    tn_autofd int dir = tn_state_open(given, err);

    if (dir < 0)
        return NULL;
    char *state = mkdirat(dir, "sandbox", 0700) && errno != EEXIST ? NULL : realpath(given, NULL);
    if (!state)
        tn_fail_errno(err, errno, "%s", sandboxes);
    return state;
}

/* A backend that is expected prepares itself while the store is opened. */
struct expecting {
    struct tn_runtime *rt;
    const struct tn_spec *spec; /* NULL: none is */
    pthread_t thread;
    bool apart; /* in that thread */
};

static void *expect_thread(void *arg)
{
    const struct expecting *x = arg;

    tn_sandbox_expect(x->rt, x->spec);
    return NULL;
}

static void expect_begin(struct expecting *x)
{
    x->apart = x->spec && tn_thread_start(&x->thread, expect_thread, x) == 0;
    if (x->spec && !x->apart)
        expect_thread(x);
}

static void expect_end(const struct expecting *x)
{
    if (x->apart)
        pthread_join(x->thread, NULL);
}

struct tn_runtime *tn_runtime_open(const struct tn_runtime_options *options, struct tn_error *err)
{
    struct tn_runtime *rt = tn_calloc(1, sizeof *rt);

    pthread_mutex_init(&rt->lock, NULL);
    pthread_mutex_init(&rt->follow, NULL);
    rt->state = make_state(options->config, err);
    if (!rt->state) {
        tn_runtime_close(rt);
        return NULL;
    }
    rt->hand = tn_program_find("tendon-hand", options->config->tendon.hand, NULL);
    rt->program = tn_strdup(rt->hand ? rt->hand : ".");
    rt->host = (struct tn_host){.config = options->config,
                                .state = rt->state,
                                .hand = rt->hand,
                                .program = dirname(rt->program),
                                .progress = options->progress,
                                .progress_ctx = options->progress_ctx,
                                .told = options->told,
                                .told_ctx = options->told_ctx};
    rt->ask = options->ask;
    rt->ask_ctx = options->ask_ctx;
    if (tn_security_on(&options->config->security) &&
        !(rt->judge = tn_judge_new(&options->config->security, err))) {
        tn_runtime_close(rt);
        return NULL;
    }
    /* Backends may be opened from here on: the host is complete. */
    struct expecting expecting = {.rt = rt, .spec = options->expect};
    expect_begin(&expecting);
    rt->store = tn_store_open(rt->state, err);
    expect_end(&expecting);
    if (!rt->store) {
        tn_runtime_close(rt);
        return NULL;
    }
    /* What resists stays for gc, which can say why. */
    tn_runtime_sweep(rt, NULL, NULL, tn_deadline_in(SWEEP_SECONDS), NULL);
    return rt;
}

void tn_runtime_close(struct tn_runtime *rt)
{
    if (!rt)
        return;
    for (size_t i = 0; i < rt->engine_count; i++) {
        if (rt->engines[i].open)
            rt->engines[i].backend->close(rt->engines[i].engine);
        pthread_mutex_destroy(&rt->engines[i].opening);
    }
    tn_store_close(rt->store);
    tn_judge_free(rt->judge);
    pthread_mutex_destroy(&rt->lock);
    pthread_mutex_destroy(&rt->follow);
    free(rt->state);
    free(rt->hand);
    free(rt->program);
    free(rt);
}

static void tell_change(const char *id, void *ctx)
{
    struct tn_runtime *rt = ctx;

    pthread_mutex_lock(&rt->follow);
    if (rt->changed)
        rt->changed(id, rt->changed_ctx);
    pthread_mutex_unlock(&rt->follow);
}

void tn_runtime_follow(struct tn_runtime *rt, tn_changed_fn fn, void *ctx)
{
    pthread_mutex_lock(&rt->follow);
    rt->changed = fn;
    rt->changed_ctx = ctx;
    pthread_mutex_unlock(&rt->follow);
    if (fn) { /* it stays: backends read it without a lock */
        rt->host.changed_ctx = rt;
        __atomic_store_n(&rt->host.changed, tell_change, __ATOMIC_RELEASE);
    }
}

struct tn_store *tn_runtime_store(struct tn_runtime *rt)
{
    return rt->store;
}

struct tn_judge *tn_runtime_judge(const struct tn_runtime *rt)
{
    return rt->judge;
}

const struct tn_host *tn_runtime_host(const struct tn_runtime *rt)
{
    return &rt->host;
}

/* The slot of a backend, or -1. */
static int slot_of(struct tn_runtime *rt, const struct tn_backend *backend, struct tn_error *err)
{
    size_t i = 0;

    pthread_mutex_lock(&rt->lock);
    while (i < rt->engine_count && rt->engines[i].backend != backend)
        i++;
    if (i == rt->engine_count && i < TN_MAX_ENGINES) {
        rt->engines[i].backend = backend;
        pthread_mutex_init(&rt->engines[i].opening, NULL);
        rt->engine_count++;
    }
    pthread_mutex_unlock(&rt->lock);
    if (i == TN_MAX_ENGINES)
        return tn_fail(err, TN_E_BUSY, "more than %d backends are open", TN_MAX_ENGINES);
    return (int)i;
}

int tn_runtime_engine(struct tn_runtime *rt, const char *name, const struct tn_backend **backend,
                      void **engine, struct tn_error *err)
{
    int failed = 0;

    *backend = tn_backend_find(rt->host.config, name, err);
    int i = *backend ? slot_of(rt, *backend, err) : -1;
    if (i < 0)
        return -1;
    pthread_mutex_lock(&rt->engines[i].opening);
    if (!rt->engines[i].open)
        failed = (*backend)->open(&rt->host, &rt->engines[i].engine, err);
    rt->engines[i].open = !failed;
    *engine = rt->engines[i].engine;
    pthread_mutex_unlock(&rt->engines[i].opening);
    return failed ? tn_error_context(err, "%s", (*backend)->name) : 0;
}

static int enough(const char *id, void *ctx)
{
    return 1;
}

int tn_runtime_ready(struct tn_runtime *rt, const char *name, int64_t deadline,
                     struct tn_error *err)
{
    const struct tn_backend *backend;
    void *engine;

    if (tn_runtime_engine(rt, name, &backend, &engine, err))
        return -1;
    if (backend->list && backend->list(engine, enough, NULL, deadline, err) < 0)
        return tn_error_context(err, "%s", backend->name);
    return 0;
}
