#include <pthread.h>

#include "base/clock.h"
#include "base/thread.h"
#include "mcp/program.h"

enum { MAX_PROGRAMS = 8 };

struct tn_rpc_pool {
    struct tn_rpc_pool_options options; /* path is ours */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct tn_rpc_program *idle[MAX_PROGRAMS];
    int idle_count, busy_count;
};

struct tn_rpc_pool *tn_rpc_pool_new(const struct tn_rpc_pool_options *options)
{
    struct tn_rpc_pool *pool = tn_calloc(1, sizeof *pool);

    pool->options = *options;
    pool->options.path = tn_strdup(options->path);
    pthread_mutex_init(&pool->lock, NULL);
    tn_cond_init(&pool->changed);
    return pool;
}

void tn_rpc_pool_free(struct tn_rpc_pool *pool)
{
    if (!pool)
        return;
    while (pool->idle_count > 0)
        tn_rpc_program_stop(pool->idle[--pool->idle_count]);
    pthread_cond_destroy(&pool->changed);
    pthread_mutex_destroy(&pool->lock);
    free((char *)(uintptr_t)pool->options.path);
    free(pool);
}

/* One that ended while it had nothing to do is none. */
static struct tn_rpc_program *whole(struct tn_rpc_program *p)
{
    if (!p || !tn_rpc_program_broken(p))
        return p;
    tn_rpc_program_stop(p);
    return NULL;
}

/* A program that was introduced: this one, or a fresh one. */
static struct tn_rpc_program *start(const struct tn_rpc_pool *pool, struct tn_rpc_program *spare,
                                    int64_t deadline, struct tn_error *err)
{
    const struct tn_rpc_pool_options *o = &pool->options;
    struct tn_rpc_program *p = whole(spare);

    if (!p)
        p = tn_rpc_program_start(o->path, o->env, deadline, err);
    if (p && o->introduce(o->ctx, p, deadline, err) < 0) {
        tn_rpc_program_stop(p);
        p = NULL;
    }
    return p;
}

/* A program for one call; NULL with err. */
static struct tn_rpc_program *take(struct tn_rpc_pool *pool, int64_t deadline, struct tn_error *err)
{
    struct timespec until = tn_timespec(deadline);
    struct tn_rpc_program *p = NULL;
    int late = 0;

    pthread_mutex_lock(&pool->lock);
    while (pool->idle_count == 0 && pool->busy_count == MAX_PROGRAMS && late == 0)
        late = pthread_cond_timedwait(&pool->changed, &pool->lock, &until);
    bool full = pool->idle_count == 0 && pool->busy_count == MAX_PROGRAMS;
    if (pool->idle_count > 0)
        p = pool->idle[--pool->idle_count];
    pool->busy_count += !full;
    pthread_mutex_unlock(&pool->lock);
    if (full) {
        tn_fail(err, TN_E_BUSY, "all of its programs are busy");
        return NULL;
    }
    p = whole(p);
    if (!p)
        p = start(pool, NULL, deadline, err);
    if (!p) {
        pthread_mutex_lock(&pool->lock);
        pool->busy_count--;
        pthread_cond_signal(&pool->changed);
        pthread_mutex_unlock(&pool->lock);
    }
    return p;
}

static void give_back(struct tn_rpc_pool *pool, struct tn_rpc_program *p)
{
    p = whole(p);
    pthread_mutex_lock(&pool->lock);
    pool->busy_count--;
    if (p)
        pool->idle[pool->idle_count++] = p;
    pthread_cond_signal(&pool->changed);
    pthread_mutex_unlock(&pool->lock);
}

int tn_rpc_pool_prepare(struct tn_rpc_pool *pool, struct tn_rpc_program *spare, int64_t deadline,
                        struct tn_error *err)
{
    struct tn_rpc_program *p = start(pool, spare, deadline, err);

    if (!p)
        return -1;
    pthread_mutex_lock(&pool->lock);
    pool->busy_count++;
    pthread_mutex_unlock(&pool->lock);
    give_back(pool, p);
    return 0;
}

int tn_rpc_pool_call(struct tn_rpc_pool *pool, const char *method, const struct tn_buf *params,
                     tn_rpc_progress_fn progress, void *ctx, int64_t deadline,
                     struct tn_json **result, struct tn_error *err)
{
    tn_autojson struct tn_json *unused = NULL;
    struct tn_rpc_program *p = take(pool, deadline, err);

    if (!p)
        return -1;
    int r = tn_rpc_program_call(p, method, params, progress, ctx, deadline,
                                result ? result : &unused, err);
    give_back(pool, p);
    return r;
}
