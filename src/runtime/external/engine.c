#include "runtime/external/engine.h"

#include <pthread.h>

#include "base/clock.h"
#include "base/thread.h"
#include "runtime/external/program.h"

#define MAX_PROGRAMS 8
#define OPEN_SECONDS 15.0

struct engine {
    struct external *x;
    const struct tn_host *host;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct program *idle[MAX_PROGRAMS];
    int idle_count, busy_count;
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
static int introduce(const struct engine *e, struct program *p, int64_t deadline,
                     struct tn_error *err)
{
    tn_autobuf struct tn_buf params = TN_BUF_INIT(64 << 10);
    tn_autojson struct tn_json *result = NULL;
    struct tn_jw w = tn_jw(&params);

    tn_jw_object(&w);
    tn_jw_kint(&w, "protocol", 1);
    tn_jw_kstr(&w, "state", e->host->state);
    tn_jw_kstr(&w, "hand", e->host->hand);
    tn_jw_kstr(&w, "programs", e->host->program);
    tn_jw_object_end(&w);
    return program_call(p, "open", &params, e->host->progress, e->host->progress_ctx, deadline,
                        &result, err);
}

static struct program *start(const struct engine *e, int64_t deadline, struct tn_error *err)
{
    struct program *p = program_start(e->x->path, deadline, err);

    if (p && introduce(e, p, deadline, err) < 0) {
        program_stop(p);
        p = NULL;
    }
    return p;
}

/* One that ended while it had nothing to do is none. */
static struct program *whole(struct program *p)
{
    if (!p || !program_broken(p))
        return p;
    program_stop(p);
    return NULL;
}

/* A program for one call; NULL with err. */
static struct program *take(struct engine *e, int64_t deadline, struct tn_error *err)
{
    struct timespec until = tn_timespec(deadline);
    struct program *p = NULL;
    int late = 0;

    pthread_mutex_lock(&e->lock);
    while (e->idle_count == 0 && e->busy_count == MAX_PROGRAMS && late == 0)
        late = pthread_cond_timedwait(&e->changed, &e->lock, &until);
    bool full = e->idle_count == 0 && e->busy_count == MAX_PROGRAMS;
    if (e->idle_count > 0)
        p = e->idle[--e->idle_count];
    e->busy_count += !full;
    pthread_mutex_unlock(&e->lock);
    if (full) {
        tn_fail(err, TN_E_BUSY, "all of its programs are busy");
        return NULL;
    }
    p = whole(p);
    if (!p)
        p = start(e, deadline, err);
    if (!p) {
        pthread_mutex_lock(&e->lock);
        e->busy_count--;
        pthread_cond_signal(&e->changed);
        pthread_mutex_unlock(&e->lock);
    }
    return p;
}

static void give_back(struct engine *e, struct program *p)
{
    p = whole(p);
    pthread_mutex_lock(&e->lock);
    e->busy_count--;
    if (p)
        e->idle[e->idle_count++] = p;
    pthread_cond_signal(&e->changed);
    pthread_mutex_unlock(&e->lock);
}

int engine_call(struct engine *e, const char *method, const struct tn_buf *params, int64_t deadline,
                struct tn_json **result, struct tn_error *err)
{
    tn_autojson struct tn_json *unused = NULL;

    if (!external_has(e->x, method))
        return tn_fail(err, TN_E_UNSUPPORTED, "the runtime %s has no %s", e->x->name, method);
    struct program *p = take(e, deadline, err);
    if (!p)
        return tn_error_context(err, "%s", e->x->name);
    int r = program_call(p, method, params, e->host->progress, e->host->progress_ctx, deadline,
                         result ? result : &unused, err);
    give_back(e, p);
    return r < 0 ? tn_error_context(err, "%s", e->x->name) : 0;
}

int engine_open(struct external *x, const struct tn_host *host, struct engine **out,
                struct tn_error *err)
{
    struct engine *e = tn_calloc(1, sizeof *e);
    int64_t deadline = tn_deadline_in(OPEN_SECONDS);

    *e = (struct engine){.x = x, .host = host};
    pthread_mutex_init(&e->lock, NULL);
    tn_cond_init(&e->changed);
    struct program *p = whole(__atomic_exchange_n(&x->spare, NULL, __ATOMIC_ACQ_REL));
    if (p && introduce(e, p, deadline, err) < 0) {
        program_stop(p);
        engine_close(e);
        return tn_error_context(err, "%s", x->name);
    }
    if (!p)
        p = start(e, deadline, err);
    if (!p) {
        engine_close(e);
        return tn_error_context(err, "%s", x->name);
    }
    e->idle[e->idle_count++] = p;
    *out = e;
    return 0;
}

void engine_close(struct engine *e)
{
    if (!e)
        return;
    while (e->idle_count > 0)
        program_stop(e->idle[--e->idle_count]);
    pthread_cond_destroy(&e->changed);
    pthread_mutex_destroy(&e->lock);
    free(e);
}
