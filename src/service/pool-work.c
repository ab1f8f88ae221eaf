/* Filling and draining.
 *
 * One thread looks where something is missing and starts others, each of which makes one sandbox
 * after the other behind the line (admit.h) until the pool is full.  They wait until nobody has
 * claimed for a moment, unless the pool is below its minimum: a burst of claims has the machine for
 * itself. */
#include <sys/eventfd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "service/admit.h"
#include "service/pools.h"

#define QUIET_SECONDS 0.2
#define BACKOFF_FIRST 1.0
#define BACKOFF_MOST 60.0
#define DRAIN_SECONDS 30.0
#define BURST_USUAL 4

struct pool_worker {
    struct pool_worker *next;
    struct pools *pools;
    struct pool *pool;
    struct place_in_line *place; /* while it waits */
    int cancel;                  /* of one that fills: what ends a pull; 0: there is none */
    bool fills, unwanted;
};

/* Under the lock: what it waits for or makes is wanted no more. */
static void give_up(struct pool_worker *w)
{
    w->unwanted = true;
    if (w->place)
        queue_cancel(w->place);
    if (w->cancel)
        eventfd_write(w->cancel, 1);
}

/* Under the lock: until that time or a change. */
static void doze(struct pools *p, int64_t until)
{
    struct timespec t = tn_timespec(until);

    if (until == TN_NEVER)
        pthread_cond_wait(&p->changed, &p->lock);
    else
        pthread_cond_timedwait(&p->changed, &p->lock, &t);
}

/* When nobody has claimed for a moment. */
static int64_t quiet_after(const struct pool *x)
{
    return x->last_use ? x->last_use + (int64_t)(QUIET_SECONDS * TN_SECOND) : 0;
}

/* --- making one ---------------------------------------------------------------------------- */

static void note_failure(struct pool *x, const struct tn_error *why)
{
    x->look = true;
    if (tn_now() < x->not_before) /* the others of this burst have failed too */
        return;
    if (!x->info.problem || strcmp(x->info.problem, why->text) != 0)
        tn_log(TN_LOG_WARN, "a pool cannot be filled", tn_log_str("pool", x->info.name),
               tn_log_str("why", why->text));
    free(x->info.problem);
    x->info.problem = tn_strdup(why->text);
    x->backoff = x->backoff > 0 ? x->backoff * 2 : BACKOFF_FIRST;
    if (x->backoff > BACKOFF_MOST)
        x->backoff = BACKOFF_MOST;
    x->not_before = tn_deadline_in(x->backoff);
}

static void note_success(struct pool *x)
{
    free(TN_TAKE_PTR(x->info.problem));
    x->backoff = 0;
}

/* Waits in line and makes one: 1, 0 when the pool is full, or -1. */
static int make_one(struct pool_worker *w, bool urgent, const struct tn_spec *spec, int target,
                    struct tn_error *err)
{
    struct pools *p = w->pools;
    struct tn_service *s = p->s;
    int64_t deadline = tn_deadline_in(s->options->start_seconds);
    struct place_in_line *place = queue_join_pool(s->queue, urgent);

    pthread_mutex_lock(&p->lock);
    w->place = place;
    if (p->stopping || w->unwanted)
        queue_cancel(place);
    pthread_mutex_unlock(&p->lock);
    int result = queue_wait(place, deadline, err);
    pthread_mutex_lock(&p->lock);
    w->place = NULL;
    pthread_mutex_unlock(&p->lock);
    if (!result)
        result = admit_reserve(s, err);
    if (!result)
        result = tn_pool_add(s->rt, spec, target, w->cancel, deadline, err);
    queue_leave(place);
    return result;
}

/* Under the lock.  False: nothing is to be made now. */
static bool wants_more(const struct pools *p, const struct pool *x)
{
    return !p->stopping && !x->gone && tn_now() >= x->not_before;
}

/* Under the lock, which it leaves meanwhile; false: enough. */
static bool fill_step(struct pool_worker *w)
{
    struct pools *p = w->pools;
    struct pool *x = w->pool;
    int target = (int)x->info.target, ready = 0, result;
    int64_t minimum = x->info.minimum, quiet = quiet_after(x);
    struct tn_error err = {0};
    struct tn_spec spec;

    pthread_mutex_unlock(&p->lock);
    int all = tn_store_warm_count(tn_runtime_store(p->s->rt), x->runtime, x->digest, &ready, &err);
    pthread_mutex_lock(&p->lock);
    if (all >= target || !wants_more(p, x))
        return false;
    bool urgent = ready < minimum;
    if (all >= 0 && !urgent && tn_now() < quiet) {
        doze(p, quiet);
        return true;
    }
    if (all < 0 || tn_spec_copy(&x->info.spec, &spec, &err)) {
        note_failure(x, &err);
        return false;
    }
    pthread_mutex_unlock(&p->lock);
    result = make_one(w, urgent, &spec, target, &err);
    tn_spec_done(&spec);
    pthread_mutex_lock(&p->lock);
    if (result > 0)
        note_success(x);
    else if (result < 0 && err.code != TN_E_GONE)
        note_failure(x, &err);
    return result > 0 && !w->unwanted;
}

/* --- workers ------------------------------------------------------------------------------- */

/* Under the lock; frees itself. */
static void end_worker(struct pool_worker *w)
{
    struct pools *p = w->pools;
    struct pool_worker **at = &p->workers;

    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
    w->pool->workers--;
    w->pool->look = true;
    pthread_cond_broadcast(&p->changed);
    if (w->cancel)
        close(w->cancel);
    free(w);
}

static void *fill(void *arg)
{
    struct pool_worker *w = arg;
    struct pools *p = w->pools;

    pthread_mutex_lock(&p->lock);
    while (wants_more(p, w->pool) && fill_step(w))
        continue;
    end_worker(w);
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

static void *drain(void *arg)
{
    struct pool_worker *w = arg;
    struct pools *p = w->pools;
    struct pool *x = w->pool;
    struct tn_pool_name pool = {.runtime = x->runtime};
    struct tn_error err = {0};

    pthread_mutex_lock(&p->lock);
    memcpy(pool.digest, x->digest, sizeof pool.digest);
    int most = x->gone ? 0 : (int)x->info.target;
    pthread_mutex_unlock(&p->lock);
    int removed = tn_pool_drain(p->s->rt, &pool, most, tn_deadline_in(DRAIN_SECONDS), &err);
    pthread_mutex_lock(&p->lock);
    if (removed < 0)
        note_failure(x, &err);
    else if (removed == 0) /* those that are left are being made */
        x->not_before = tn_deadline_in(BACKOFF_FIRST);
    end_worker(w);
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

static void start_worker(struct pools *p, struct pool *x, void *(*work)(void *))
{
    int cancel = work == fill ? eventfd(0, EFD_CLOEXEC) : -1;
    struct pool_worker *w = tn_calloc(1, sizeof *w);
    struct tn_error err = {0};
    pthread_t thread;

    *w = (struct pool_worker){.pools = p,
                              .pool = x,
                              .next = p->workers,
                              .cancel = cancel > 0 ? cancel : 0,
                              .fills = work == fill};
    p->workers = w;
    x->workers++;
    int sys = tn_thread_start(&thread, work, w);
    if (!sys) {
        pthread_detach(thread);
        return;
    }
    tn_fail_errno(&err, sys, "a thread that fills pools");
    note_failure(x, &err);
    end_worker(w);
}

/* --- what is missing ----------------------------------------------------------------------- */

/* Under the lock: as many as are making too much; all of a pool that is to have none. */
static void give_up_makers(struct pools *p, const struct pool *x, int64_t too_many)
{
    for (const struct pool_worker *w = p->workers; w; w = w->next)
        too_many -= w->pool == x && w->unwanted;
    for (struct pool_worker *w = p->workers; w; w = w->next)
        if (w->pool == x && w->fills && !w->unwanted && (x->gone || (too_many > 0 && !w->place))) {
            give_up(w);
            too_many--;
        }
}

/* Under the lock, which it leaves meanwhile. */
static void look_at(struct pools *p, struct pool *x)
{
    struct tn_error err = {0};
    int ready = 0;

    x->look = false;
    x->pins++;
    pthread_mutex_unlock(&p->lock);
    int all = tn_store_warm_count(tn_runtime_store(p->s->rt), x->runtime, x->digest, &ready, &err);
    pthread_mutex_lock(&p->lock);
    x->pins--;
    x->ready = ready;
    int64_t target = x->gone ? 0 : x->info.target;
    if (x->gone || all > target)
        give_up_makers(p, x, all - target);
    if (all < 0) {
        note_failure(x, &err);
    } else if (all > target) {
        if (!x->workers)
            start_worker(p, x, drain);
    } else if (all < target) {
        /* After a failure one tries for all. */
        int64_t burst = x->backoff > 0 ? 1 : x->info.burst > 0 ? x->info.burst : BURST_USUAL;
        for (int64_t i = all; i < target && x->workers < burst; i++)
            start_worker(p, x, fill);
    } else if (x->gone && x->listed && !x->workers) {
        tn_autofree char *runtime = tn_strdup(x->runtime);
        char digest[17];
        memcpy(digest, x->digest, sizeof digest);
        pthread_mutex_unlock(&p->lock);
        pools_forget(p, runtime, digest);
        pthread_mutex_lock(&p->lock);
    }
}

/* When it is to be looked at: not before nobody has claimed for a moment, unless it is low. */
static int64_t due(const struct pool *x)
{
    int64_t quiet = x->ready < x->info.minimum ? 0 : quiet_after(x);

    return !x->look ? TN_NEVER : x->not_before > quiet ? x->not_before : quiet;
}

static void *tend(void *arg)
{
    struct pools *p = arg;

    pthread_mutex_lock(&p->lock);
    while (!p->stopping) {
        struct pool *x = p->first;
        int64_t wake = TN_NEVER;
        for (; x; x = x->next) {
            if (due(x) <= tn_now())
                break;
            if (due(x) < wake)
                wake = due(x);
        }
        if (x)
            look_at(p, x);
        else
            doze(p, wake);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

int pools_begin(struct pools *p, struct tn_error *err)
{
    int sys = tn_thread_start(&p->thread, tend, p);

    p->running = !sys;
    return sys ? tn_fail_errno(err, sys, "the thread of the pools") : 0;
}

bool pools_end(struct pools *p, int64_t deadline)
{
    if (!p)
        return true;
    pthread_mutex_lock(&p->lock);
    p->stopping = true;
    for (struct pool_worker *w = p->workers; w; w = w->next)
        give_up(w);
    pthread_cond_broadcast(&p->changed);
    while (p->workers && tn_now() < deadline)
        doze(p, deadline);
    bool done = !p->workers;
    pthread_mutex_unlock(&p->lock);
    if (p->running)
        pthread_join(p->thread, NULL);
    p->running = false;
    return done;
}

/* --- news ---------------------------------------------------------------------------------- */

void pools_check(struct pools *p, int64_t deadline)
{
    struct tn_error err = {0};

    if (tn_pool_check(p->s->rt, deadline, &err) < 0)
        tn_log(TN_LOG_WARN, "warm sandboxes could not be looked at", tn_log_str("why", err.text));
    pthread_mutex_lock(&p->lock);
    for (struct pool *x = p->first; x; x = x->next)
        x->look = true;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

void pool_used(struct tn_service *s, const struct tn_spec *spec, bool found)
{
    struct pools *p = s->steward ? steward_pools(s->steward) : NULL;
    struct tn_pool_name pool;

    if (!p || tn_pool_name(s->rt, spec, &pool, NULL))
        return;
    pthread_mutex_lock(&p->lock);
    for (struct pool *x = p->first; x; x = x->next) {
        if (x->gone || strcmp(x->digest, pool.digest) != 0 || strcmp(x->runtime, pool.runtime) != 0)
            continue;
        *(found ? &x->info.claimed : &x->info.missed) += 1;
        x->ready -= found;
        x->last_use = tn_now();
        /* Nobody is woken who would only find that it is too early. */
        if (!x->look || x->ready < x->info.minimum)
            pthread_cond_broadcast(&p->changed);
        x->look = true;
    }
    pthread_mutex_unlock(&p->lock);
}
