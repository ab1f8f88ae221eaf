#include "runtime/runtime.h"

#include <libgen.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/fs.h"
#include "runtime/programs.h"
#include "runtime/registry.h"

/* What an earlier process left may cost a start this much. */
#define SWEEP_SECONDS 5.0

/* The configured directory, or tendon in $XDG_STATE_HOME, ~/.local/state or /var/lib. */
static char *state_directory(const struct tn_config *config)
{
    const char *state = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");

    if (config->tendon.state)
        return tn_strdup(config->tendon.state);
    if (state && *state == '/')
        return tn_asprintf("%s/tendon", state);
    if (home && *home == '/')
        return tn_asprintf("%s/.local/state/tendon", home);
    return tn_strdup("/var/lib/tendon");
}

struct tn_runtime *tn_runtime_open(const struct tn_runtime_options *options, struct tn_error *err)
{
    struct tn_runtime *rt = tn_calloc(1, sizeof *rt);
    tn_autofree char *given = state_directory(options->config);
    tn_autofree char *sandboxes = tn_asprintf("%s/sandbox", given);

    pthread_mutex_init(&rt->lock, NULL);
    rt->store = tn_store_open(given, err);
    rt->state = realpath(given, NULL);
    if (!rt->store || !rt->state || (mkdir(sandboxes, 0700) && errno != EEXIST)) {
        if (rt->store)
            tn_fail_errno(err, errno, "%s", sandboxes);
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
                                .progress_ctx = options->progress_ctx};
    /* What resists stays for gc, which can say why. */
    tn_runtime_sweep(rt, NULL, NULL, tn_deadline_in(SWEEP_SECONDS), NULL);
    return rt;
}

void tn_runtime_close(struct tn_runtime *rt)
{
    if (!rt)
        return;
    for (size_t i = 0; i < rt->engine_count; i++)
        rt->engines[i].backend->close(rt->engines[i].engine);
    tn_store_close(rt->store);
    pthread_mutex_destroy(&rt->lock);
    free(rt->state);
    free(rt->hand);
    free(rt->program);
    free(rt);
}

struct tn_store *tn_runtime_store(struct tn_runtime *rt)
{
    return rt->store;
}

const struct tn_host *tn_runtime_host(const struct tn_runtime *rt)
{
    return &rt->host;
}

static int open_engine(struct tn_runtime *rt, const struct tn_backend *backend, void **engine,
                       struct tn_error *err)
{
    for (size_t i = 0; i < rt->engine_count; i++)
        if (rt->engines[i].backend == backend) {
            *engine = rt->engines[i].engine;
            return 0;
        }
    if (rt->engine_count == TN_MAX_ENGINES)
        return tn_fail(err, TN_E_BUSY, "more than %d backends are open", TN_MAX_ENGINES);
    if (backend->open(&rt->host, engine, err))
        return tn_error_context(err, "%s", backend->name);
    rt->engines[rt->engine_count].backend = backend;
    rt->engines[rt->engine_count++].engine = *engine;
    return 0;
}

int tn_runtime_engine(struct tn_runtime *rt, const char *name, const struct tn_backend **backend,
                      void **engine, struct tn_error *err)
{
    *backend = tn_backend_find(rt->host.config, name, err);
    if (!*backend)
        return -1;
    pthread_mutex_lock(&rt->lock);
    int failed = open_engine(rt, *backend, engine, err);
    pthread_mutex_unlock(&rt->lock);
    return failed;
}
