/* Warm sandboxes: made in advance, claimed by tn_sandbox_create.  They are rows like any other, so
 * what counts is the store: however many processes and threads fill a pool, its rows are bounded by
 * the statement that adds them, and those of a killed process count until gc has them. */
#include "base/clock.h"
#include "base/proc.h"
#include "runtime/database.h"
#include "runtime/owner.h"
#include "runtime/registry.h"
#include "runtime/runtime.h"

#define REMOVE_SECONDS 30.0

static int make_warm(struct tn_sandbox *sb, const struct tn_subject *subject,
                     struct tn_place *place, int64_t deadline, void *ctx, struct tn_error *err)
{
    struct tn_subject wanted = *subject;

    wanted.warm = true;
    wanted.cancel = *(const int *)ctx;
    if (sb->backend->create(sb->engine, &wanted, place, deadline, err))
        return -1;
    wanted.ref = place->ref;
    struct tn_proc process = {0};
    if (sb->backend->process)
        process = sb->backend->process(sb->engine, &wanted);
    tn_autofd int watch = process.pid > 0 ? tn_proc_open(&process) : -1;
    if (!place->address || (watch < 0 && process.pid > 0 && errno == ESRCH))
        return tn_fail(err, TN_E_PEER, "the hand has ended%s%s", place->reason ? ": " : "",
                       place->reason ? place->reason : "");
    /* Only what is known to be ready may be handed out. */
    struct tn_hand_client *client = tn_hand_client_new(place->address, subject->key, err);
    int failed = !client || tn_hand_client_wait(client, watch, deadline, err);
    tn_hand_client_free(client);
    return failed ? -1 : 0;
}

static const char *runtime_of(const struct tn_runtime *rt, const struct tn_spec *spec)
{
    return spec->runtime ? spec->runtime : rt->host.config->tendon.runtime;
}

int tn_pool_name(struct tn_runtime *rt, const struct tn_spec *spec, struct tn_pool_name *out,
                 struct tn_error *err)
{
    const struct tn_backend *backend;

    if (spec->name)
        return tn_fail(err, TN_E_INVALID, "warm sandboxes have no name");
    if (spec->secrets.count)
        return tn_fail(err, TN_E_INVALID,
                       "secrets are put in when a sandbox starts: none is kept warm with them");
    backend = tn_backend_find(rt->host.config, runtime_of(rt, spec), err);
    if (!backend || tn_spec_check(spec, err))
        return -1;
    out->runtime = backend->name;
    tn_spec_digest(spec, out->digest);
    return 0;
}

int tn_pool_add(struct tn_runtime *rt, const struct tn_spec *spec, int most, int cancel,
                int64_t deadline, struct tn_error *err)
{
    const struct tn_backend *backend;
    struct tn_pool_name pool;
    struct tn_record record;
    struct tn_error why = {0};
    void *engine;

    if (tn_pool_name(rt, spec, &pool, err) ||
        tn_runtime_engine(rt, pool.runtime, &backend, &engine, err) ||
        tn_record_make(backend, spec, &record, err))
        return -1;
    record.pool = tn_strdup(pool.digest);
    record.pool_max = most;
    struct tn_sandbox *sb = tn_sandbox_bring_up(rt, &record, make_warm, &cancel, deadline, &why);
    tn_sandbox_free(sb);
    if (sb)
        return 1;
    if (why.code == TN_E_CONFLICT &&
        tn_store_warm_count(rt->store, pool.runtime, pool.digest, NULL, NULL) >= most)
        return 0;
    if (err)
        *err = why;
    return -1;
}

int tn_pool_fill(struct tn_runtime *rt, const struct tn_spec *spec, int count, int64_t deadline,
                 struct tn_error *err)
{
    int made = 0, added = 0;

    if (count <= 0)
        return 0;
    while ((added = tn_pool_add(rt, spec, count, 0, deadline, err)) == 1)
        made++;
    return added < 0 ? -1 : made;
}

/* --- removing ------------------------------------------------------------------------------ */

/* Out of its pool first, so that nobody claims it; if this process dies then, gc has it. */
static int remove_warm(struct tn_runtime *rt, const struct tn_record *found, int64_t deadline,
                       struct tn_error *err)
{
    struct tn_record record = {0};
    int taken = tn_store_unpool(rt->store, found->id, tn_owner_self(), err);

    if (taken != 1)
        return taken;
    if (tn_store_find(rt->store, found->id, &record, err))
        return -1;
    tn_autosandbox struct tn_sandbox *sb = tn_sandbox_from_record(rt, &record, err);
    if (sb && !tn_sandbox_drive(sb, TN_GOAL_GONE, deadline, err))
        return 1;
    tn_store_disown(rt->store, found->id, NULL); /* gc tries again */
    return -1;
}

struct drain {
    struct tn_runtime *rt;
    const struct tn_pool_name *pool;
    int most, removed;
    int64_t deadline;
    struct tn_error *err;
};

static int drain_one(const struct tn_record *found, void *ctx)
{
    struct drain *d = ctx;
    int there, removed;

    if (strcmp(found->pool, d->pool->digest) != 0 ||
        strcmp(found->runtime, d->pool->runtime) != 0 || found->status == TN_STATUS_STARTING)
        return 0;
    there = tn_store_warm_count(d->rt->store, d->pool->runtime, d->pool->digest, NULL, d->err);
    if (there <= d->most)
        return there < 0 ? -1 : 1;
    removed = remove_warm(d->rt, found, d->deadline, d->err);
    d->removed += removed > 0;
    return removed < 0 ? -1 : 0;
}

int tn_pool_drain(struct tn_runtime *rt, const struct tn_pool_name *pool, int most,
                  int64_t deadline, struct tn_error *err)
{
    struct drain d = {.rt = rt, .pool = pool, .most = most, .deadline = deadline, .err = err};

    return tn_store_each(rt->store, TN_STORE_WARM, drain_one, &d, err) < 0 ? -1 : d.removed;
}

/* The process lives on, and with it the owner of these rows: without a start it is nobody. */
int tn_pool_disown(struct tn_runtime *rt, struct tn_error *err)
{
    struct tn_owner self = tn_owner_self();

    return tn_db_run(tn_store_db(rt->store), err,
                     "UPDATE sandbox SET owner_start = 0 WHERE pool IS NOT NULL AND status = ?1"
                     " AND owner_pid = ?2 AND owner_start = ?3",
                     "iii", (int64_t)TN_STATUS_STARTING, (int64_t)self.pid, (int64_t)self.start) < 0
               ? -1
               : 0;
}

/* --- looking ------------------------------------------------------------------------------- */

struct check {
    struct tn_runtime *rt;
    int64_t deadline;
    int dead;
};

static int check_warm(const struct tn_record *found, void *ctx)
{
    struct check *c = ctx;
    struct tn_record record = {0};

    if (found->status == TN_STATUS_STARTING || tn_now() > c->deadline ||
        tn_store_find(c->rt->store, found->id, &record, NULL))
        return 0;
    tn_autosandbox struct tn_sandbox *sb = tn_sandbox_from_record(c->rt, &record, NULL);
    if (!sb || tn_sandbox_inspect(sb, NULL, c->deadline, NULL) || !sb->record.pool ||
        sb->record.status == TN_STATUS_RUNNING)
        return 0;
    c->dead += remove_warm(c->rt, found, tn_deadline_in(REMOVE_SECONDS), NULL) == 1;
    return 0;
}

int tn_pool_check(struct tn_runtime *rt, int64_t deadline, struct tn_error *err)
{
    struct check c = {.rt = rt, .deadline = deadline};

    return tn_store_each(rt->store, TN_STORE_WARM, check_warm, &c, err) ? -1 : c.dead;
}
