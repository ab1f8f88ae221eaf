/* Warm sandboxes: made in advance, claimed by tn_sandbox_create. */
#include "base/clock.h"
#include "runtime/runtime.h"

static int make_warm(struct tn_sandbox *sb, const struct tn_subject *subject,
                     struct tn_place *place, int64_t deadline, void *ctx, struct tn_error *err)
{
    if (sb->backend->create(sb->engine, subject, place, deadline, err))
        return -1;
    /* Only what is known to be ready may be handed out. */
    struct tn_hand_client *client = tn_hand_client_new(place->address, subject->key, err);
    int failed = !client || tn_hand_client_wait(client, -1, deadline, err);
    tn_hand_client_free(client);
    return failed ? -1 : 0;
}

int tn_pool_fill(struct tn_runtime *rt, const struct tn_spec *spec, int count, int64_t deadline,
                 struct tn_error *err)
{
    const struct tn_config *c = rt->host.config;
    const char *name = spec->runtime ? spec->runtime : c->tendon.runtime;
    const struct tn_backend *backend;
    char digest[17];
    void *engine;
    int made = 0;

    if (spec->name)
        return tn_fail(err, TN_E_INVALID, "warm sandboxes have no name");
    if (tn_spec_check(spec, err) || tn_runtime_engine(rt, name, &backend, &engine, err))
        return -1;
    tn_spec_digest(spec, digest);
    for (;;) {
        int waiting = tn_store_warm_count(rt->store, backend->name, digest, err);
        struct tn_record record;

        if (waiting < 0)
            return -1;
        if (waiting >= count)
            return made;
        if (tn_record_make(backend, spec, &record, err))
            return -1;
        record.pool = tn_strdup(digest);
        struct tn_sandbox *sb = tn_sandbox_bring_up(rt, &record, make_warm, NULL, deadline, err);
        if (!sb)
            return -1;
        tn_sandbox_free(sb);
        made++;
    }
}
