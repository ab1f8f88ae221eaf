#include "runtime/external/engine.h"

#include "base/clock.h"
#include "mcp/program.h"

#define OPEN_SECONDS 15.0

struct engine {
    struct external *x;
    const struct tn_host *host;
    struct tn_rpc_pool *programs;
};

/* Methods every program has; calling them needs no mention in "methods". */
static const char *const required[] = {"create", "inspect", "drive", "list"};

bool external_has(const struct external *x, const char *method)
{
    for (size_t i = 0; i < TN_COUNT(required); i++)
        if (strcmp(required[i], method) == 0)
            return true;
    for (size_t i = 0; i < tn_json_count(x->methods); i++) {
        const char *name = tn_json_str(tn_json_at(x->methods, i), NULL);
        if (name && strcmp(name, method) == 0)
            return true;
    }
    return false;
}

const struct external *engine_external(const struct engine *e)
{
    return e->x;
}

/* Tells a fresh program where it is. */
static int introduce(void *ctx, struct tn_rpc_program *p, int64_t deadline, struct tn_error *err)
{
    const struct engine *e = ctx;
    tn_autobuf struct tn_buf params = TN_BUF_INIT(64 << 10);
    tn_autojson struct tn_json *result = NULL;
    struct tn_jw w = tn_jw(&params);

    tn_jw_object(&w);
    tn_jw_kint(&w, "protocol", 1);
    tn_jw_kstr(&w, "state", e->host->state);
    tn_jw_kstr(&w, "hand", e->host->hand);
    tn_jw_kstr(&w, "programs", e->host->program);
    tn_jw_object_end(&w);
    return tn_rpc_program_call(p, "open", &params, e->host->progress, e->host->progress_ctx,
                               deadline, &result, err);
}

int engine_call(struct engine *e, const char *method, const struct tn_buf *params, int64_t deadline,
                struct tn_json **result, struct tn_error *err)
{
    if (!external_has(e->x, method))
        return tn_fail(err, TN_E_UNSUPPORTED, "the runtime %s has no %s", e->x->name, method);
    if (tn_rpc_pool_call(e->programs, method, params, e->host->progress, e->host->progress_ctx,
                         deadline, result, err) < 0)
        return tn_error_context(err, "%s", e->x->name);
    return 0;
}

int engine_open(struct external *x, const struct tn_host *host, struct engine **out,
                struct tn_error *err)
{
    struct tn_rpc_program *spare = __atomic_exchange_n(&x->spare, NULL, __ATOMIC_ACQ_REL);
    struct engine *e = tn_calloc(1, sizeof *e);

    *e = (struct engine){.x = x, .host = host};
    e->programs = tn_rpc_pool_new(
        &(struct tn_rpc_pool_options){.path = x->path, .introduce = introduce, .ctx = e});
    if (tn_rpc_pool_prepare(e->programs, spare, tn_deadline_in(OPEN_SECONDS), err) < 0) {
        engine_close(e);
        return tn_error_context(err, "%s", x->name);
    }
    *out = e;
    return 0;
}

void engine_close(struct engine *e)
{
    if (!e)
        return;
    tn_rpc_pool_free(e->programs);
    free(e);
}
