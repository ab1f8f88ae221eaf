#include "runtime/registry.h"

#include "base/nearest.h"
#include "runtime/external/external.h"

const struct tn_backend *const tn_backends[] = {
    &tn_backend_local,
    &tn_backend_cli,
    &tn_backend_jail,
    &tn_backend_docker,
    &tn_backend_remote,
    &tn_backend_e2b,
    &tn_backend_runloop,
    &tn_backend_modal,
    &tn_backend_daytona,
    &tn_backend_kubernetes,
    NULL,
};

static bool is_called(const struct tn_backend *b, const char *name)
{
    if (strcmp(b->name, name) == 0)
        return true;
    for (const char *const *alias = b->aliases; alias && *alias; alias++)
        if (strcmp(*alias, name) == 0)
            return true;
    return false;
}

/* --- an unknown name ----------------------------------------------------------------------- */

struct known {
    struct tn_buf list;
    struct tn_nearest nearest;
    char best[64]; /* a name from the path does not outlive the look at it */
};

static void offer(struct known *k, const char *name)
{
    const char *before = k->nearest.best;

    tn_nearest_offer(&k->nearest, name);
    if (k->nearest.best != before) {
        snprintf(k->best, sizeof k->best, "%s", name);
        k->nearest.best = k->best;
    }
}

static void add_known(const char *name, const char *summary, void *ctx)
{
    struct known *k = ctx;

    tn_buf_printf(&k->list, "%s%s", k->list.len ? ", " : "", name);
    offer(k, name);
}

static void fail_unknown(const struct tn_config *config, const char *name, struct tn_error *err)
{
    struct known k = {.list = TN_BUF_INIT(256), .nearest = tn_nearest(name)};

    tn_backend_each(config, add_known, &k);
    for (const struct tn_backend *const *b = tn_backends; *b; b++)
        for (const char *const *alias = (*b)->aliases; alias && *alias; alias++)
            offer(&k, *alias);
    tn_fail(err, TN_E_NOT_FOUND, "there is no runtime '%.60s'%s%s%s; known are: %s", name,
            k.nearest.best ? " (did you mean " : "", k.nearest.best ? k.nearest.best : "",
            k.nearest.best ? "?)" : "", tn_buf_str(&k.list));
    tn_buf_done(&k.list);
}

/* --- finding ------------------------------------------------------------------------------- */

const struct tn_backend *tn_backend_find(const struct tn_config *config, const char *name,
                                         struct tn_error *err)
{
    struct tn_error why = {0};

    for (const struct tn_backend *const *b = tn_backends; *b; b++)
        if (is_called(*b, name))
            return *b;
    const struct tn_backend *found = tn_external_find(config, name, &why);
    if (found)
        return found;
    if (why.code == TN_E_NOT_FOUND)
        fail_unknown(config, name, err);
    else if (err)
        *err = why;
    return NULL;
}

struct each {
    tn_backend_name_fn fn;
    void *ctx;
};

/* A program cannot take the name of a built-in one. */
static void tell_external(const char *name, const char *summary, void *ctx)
{
    const struct each *each = ctx;

    for (const struct tn_backend *const *b = tn_backends; *b; b++)
        if (is_called(*b, name))
            return;
    each->fn(name, summary, each->ctx);
}

void tn_backend_each(const struct tn_config *config, tn_backend_name_fn fn, void *ctx)
{
    struct each each = {fn, ctx};

    for (const struct tn_backend *const *b = tn_backends; *b; b++)
        fn((*b)->name, (*b)->summary, ctx);
    tn_external_each(config, tell_external, &each);
}
