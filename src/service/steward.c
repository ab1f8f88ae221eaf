/* Four threads that sleep nearly always: one for the times of boxes, one for the slow round, one
 * for the usage of those that somebody looks at, one for the disk and for keys that end.  None
 * holds a lock while it does something to a box, and none waits for what it has ordered: the
 * workers of the boxes do that. */
#include "service/steward.h"

#include <pthread.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "runtime/registry.h"
#include "service/admit.h"
#include "service/audit.h"
#include "service/blobs.h"
#include "service/clock.h"
#include "service/daytona/daytona.h"
#include "service/e2b/e2b.h"
#include "service/front.h"
#include "service/metrics.h"
#include "service/pools.h"
#include "service/tcp-ports.h"
#include "service/timers.h"

#define USES_SECONDS 1.0 /* a killed service forgets no older use */
#define ROUND_SECONDS 60.0
#define DISK_SECONDS 1.0
#define SAMPLE_SECONDS 2.0
#define WATCH_SECONDS 60.0
#define LOOK_SECONDS 2.0   /* of the round for each box, */
#define LOOKS_SECONDS 20.0 /* and for all; the next round goes on where this one stopped */
#define GC_SECONDS 5.0
#define ROOM_SECONDS 5.0

struct watched {
    char id[11];
    int64_t until;
};

struct steward {
    struct tn_service *s;
    struct pools *pools;
    pthread_mutex_t lock;   /* of what follows */
    pthread_cond_t changed; /* stopping, or somebody watches */
    pthread_cond_t nudged;
    bool stopping;
    struct timers times;
    int64_t save_uses; /* when */
    struct watched *watched;
    size_t watched_count;
    pthread_t threads[4];
    size_t thread_count;
};

struct pools *steward_pools(const struct steward *k)
{
    return k->pools;
}

/* --- times --------------------------------------------------------------------------------- */

static const struct {
    enum box_order order;
    const char *why, *text;
} measures[] = {
    [KEEP_PAUSE] = {ORDER_PAUSE, "idle_pause", "a sandbox was idle: paused"},
    [KEEP_STOP] = {ORDER_STOP, "idle_stop", "a sandbox was idle: stopped"},
    [KEEP_END] = {ORDER_DELETE, "idle_stop", "an ephemeral sandbox was idle: deleted"},
    [KEEP_CLEAR] = {ORDER_DELETE, "stopped", "a sandbox was stopped for long enough: deleted"},
    [KEEP_DELETE] = {ORDER_DELETE, "ttl", "a sandbox has reached its time to live: deleted"},
    [KEEP_PAUSE_NOW] = {ORDER_PAUSE, "timeout", "a sandbox has reached its time-out: paused"},
    [KEEP_STOP_NOW] = {ORDER_PAUSE, "timeout", "a sandbox has reached its time-out: stopped"},
};

static void order(struct steward *k, struct box *b, enum keep what, const struct box_view *seen)
{
    struct tn_error err = {0};

    int failed = box_rest(b, measures[what].order, seen, what < KEEP_DELETE, &err);
    if (failed && err.code == TN_E_BUSY)
        return; /* somebody came in that moment */
    if (failed && err.code != TN_E_TIMEOUT) {
        tn_log(TN_LOG_WARN, "a limit could not be kept", tn_log_str("sandbox", box_id(b)),
               tn_log_str("limit", measures[what].why), tn_log_str("why", err.text));
        return;
    }
    metric_add(k->s->metrics, METRIC_KEPT, measures[what].why, 1);
    tn_log(TN_LOG_INFO, measures[what].text, tn_log_str("sandbox", box_id(b)));
}

static unsigned abilities_of(struct tn_service *s, const char *runtime)
{
    const struct tn_config *config = tn_runtime_host(s->rt)->config;
    const struct tn_backend *backend = runtime ? tn_backend_find(config, runtime, NULL) : NULL;

    return backend ? backend->abilities : 0;
}

/* When to look at it again, after what there was to do. */
static int64_t consider(struct steward *k, const char *id)
{
    autobox struct box *b = box_find(k->s, NULL, id, NULL);
    struct daytona_settings settings;
    autoview struct box_view v = {0};
    double again;

    if (!b)
        return TN_NEVER;
    box_look(b, &v);
    daytona_settings_of(v.metadata, &settings);
    struct keep_times t = {
        .state = v.state,
        .goal = v.goal,
        .in_use = box_in_use(b),
        .abilities = abilities_of(k->s, v.runtime),
        .used = v.used,
        .expires = v.expires,
        .idle_pause = v.idle_pause,
        .idle_stop = v.idle_stop,
        .timeout = v.timeout,
        .timeout_how = v.timeout_how,
        .ephemeral = settings.remove == 0,
        .stopped = v.stopped,
        .clear = settings.remove > 0 ? 60.0 * (double)settings.remove : 0,
    };
    enum keep what = keep_verdict(&t, service_time(), &again);
    bool rests = what >= KEEP_DELETE || v.state != BOX_RUNNING || box_is_quiet(b, v.used);
    if (what != KEEP_AS_IT_IS && rests)
        order(k, b, what, &v);
    return tn_deadline_in(again);
}

/* Under the lock, which it leaves meanwhile; until that time, or a change. */
static void doze(struct steward *k, pthread_cond_t *on, int64_t until)
{
    struct timespec t = tn_timespec(until);

    if (until == TN_NEVER)
        pthread_cond_wait(on, &k->lock);
    else
        pthread_cond_timedwait(on, &k->lock, &t);
}

static void *keep_times_loop(void *arg)
{
    struct steward *k = arg;
    char id[11];

    pthread_mutex_lock(&k->lock);
    while (!k->stopping) {
        if (tn_now() >= k->save_uses) {
            k->save_uses = TN_NEVER;
            pthread_mutex_unlock(&k->lock);
            boxes_save_uses(k->s->boxes);
            pthread_mutex_lock(&k->lock);
            continue;
        }
        if (!timers_take(&k->times, tn_now(), id)) {
            int64_t next = timers_next(&k->times);
            doze(k, &k->nudged, next < k->save_uses ? next : k->save_uses);
            continue;
        }
        pthread_mutex_unlock(&k->lock);
        int64_t due = consider(k, id);
        pthread_mutex_lock(&k->lock);
        /* Who was nudged meanwhile is looked at again anyway. */
        if (due != TN_NEVER && !timers_has(&k->times, id))
            timers_set(&k->times, id, due);
    }
    pthread_mutex_unlock(&k->lock);
    return NULL;
}

void steward_nudge(struct steward *k, struct box *b)
{
    if (!k)
        return;
    pthread_mutex_lock(&k->lock);
    timers_set(&k->times, box_id(b), tn_now());
    pthread_cond_signal(&k->nudged);
    pthread_mutex_unlock(&k->lock);
}

void steward_save_uses_soon(struct steward *k)
{
    if (!k)
        return;
    pthread_mutex_lock(&k->lock);
    k->save_uses = tn_deadline_in(USES_SECONDS);
    pthread_cond_signal(&k->nudged);
    pthread_mutex_unlock(&k->lock);
}

static int nudge_box(struct box *b, void *ctx)
{
    steward_nudge(ctx, b);
    return 0;
}

/* --- usage --------------------------------------------------------------------------------- */

void steward_watch(struct steward *k, struct box *b)
{
    size_t i = 0;

    if (!k)
        return;
    pthread_mutex_lock(&k->lock);
    while (i < k->watched_count && strcmp(k->watched[i].id, box_id(b)) != 0)
        i++;
    if (i == k->watched_count) {
        k->watched = tn_realloc(k->watched, ++k->watched_count * sizeof *k->watched);
        snprintf(k->watched[i].id, sizeof k->watched[i].id, "%s", box_id(b));
        pthread_cond_broadcast(&k->changed);
    }
    k->watched[i].until = tn_deadline_in(WATCH_SECONDS);
    pthread_mutex_unlock(&k->lock);
}

static void sample(struct steward *k, const char *id)
{
    autobox struct box *b = box_find(k->s, NULL, id, NULL);

    if (b && box_sample_due(b))
        box_sample(b, NULL);
}

static void *sample_loop(void *arg)
{
    struct steward *k = arg;

    pthread_mutex_lock(&k->lock);
    while (!k->stopping) {
        int64_t next = k->watched_count ? tn_deadline_in(SAMPLE_SECONDS) : TN_NEVER;
        for (size_t i = 0; i < k->watched_count && !k->stopping;) {
            char id[11];
            memcpy(id, k->watched[i].id, sizeof id);
            if (k->watched[i].until < tn_now()) {
                k->watched[i] = k->watched[--k->watched_count];
                continue;
            }
            i++;
            pthread_mutex_unlock(&k->lock);
            sample(k, id);
            pthread_mutex_lock(&k->lock);
        }
        do
            doze(k, &k->changed, next);
        while (!k->stopping && next != TN_NEVER && tn_now() < next);
    }
    pthread_mutex_unlock(&k->lock);
    return NULL;
}

/* --- the slow round ------------------------------------------------------------------------ */

static bool is_stopping(struct steward *k)
{
    pthread_mutex_lock(&k->lock);
    bool stopping = k->stopping;
    pthread_mutex_unlock(&k->lock);
    return stopping;
}

struct round {
    struct steward *k;
    int64_t deadline;
    char last[11]; /* looked at */
    double created;
};

static int check_box(struct box *b, void *ctx)
{
    struct round *r = ctx;
    autoview struct box_view v = {0};

    box_check(b, tn_deadline_in(LOOK_SECONDS));
    box_note_refusals(b);
    steward_nudge(r->k, b);
    box_look(b, &v);
    memcpy(r->last, v.id, sizeof r->last);
    r->created = v.created;
    return tn_now() > r->deadline || is_stopping(r->k);
}

/* Where backends do not answer this takes long: then some at a time. */
static void check_boxes(struct round *r)
{
    struct box_filter rest = {.after = r->last[0] ? r->last : NULL, .after_created = r->created};

    r->deadline = tn_deadline_in(LOOKS_SECONDS);
    if (box_each(r->k->s, &rest, check_box, r, NULL) == 0)
        r->last[0] = '\0';
}

static void tell_stray(const char *id, const char *why, void *ctx)
{
    tn_log(TN_LOG_INFO, "reclaimed what nobody owns", tn_log_str("sandbox", id),
           tn_log_str("why", why));
}

static void complain(const char *what, const struct tn_error *err)
{
    tn_log(TN_LOG_WARN, "the round over all sandboxes", tn_log_str("part", what),
           tn_log_str("why", err->text));
}

/* Whoever starts makes room for itself; but the limit may be lower than that of the service before.
 */
static void keep_room(struct tn_service *s)
{
    const struct tn_service_options *o = s->options;
    struct tn_error err = {0};

    if (o->pause_old_sandboxes && o->max_sandboxes > 0 &&
        pause_old_sandboxes(s, NULL, o->max_sandboxes, tn_deadline_in(ROOM_SECONDS), &err) < 0)
        complain("room", &err);
}

/* Everything that events should have told already, and what has none. */
static void go_round(struct round *r, bool first)
{
    struct steward *k = r->k;
    struct tn_service *s = k->s;
    struct tn_error err = {0};

    if (service_clock_keep(s->db, &err))
        complain("clock", &err);
    audit_take_notes(s->audit);
    if (!first) { /* the start has looked at all of them */
        check_boxes(r);
        e2b_builds_sweep(s);
        blobs_sweep(s);
    }
    if (is_stopping(k))
        return;
    keep_room(s);
    if (tn_runtime_gc(s->rt, false, tell_stray, NULL, tn_deadline_in(GC_SECONDS), &err) < 0)
        complain("strays", &err);
    pools_check(k->pools, tn_deadline_in(GC_SECONDS));
}

static void *round_loop(void *arg)
{
    struct steward *k = arg;
    struct round r = {.k = k};
    bool first = true;

    while (!is_stopping(k)) {
        int64_t next = tn_deadline_in(ROUND_SECONDS);
        go_round(&r, first);
        first = false;
        pthread_mutex_lock(&k->lock);
        while (!k->stopping && tn_now() < next)
            doze(k, &k->changed, next);
        pthread_mutex_unlock(&k->lock);
    }
    return NULL;
}

static void *disk_loop(void *arg)
{
    struct steward *k = arg;
    struct disk_watch w = {0};

    while (!is_stopping(k)) {
        int64_t next = tn_deadline_in(DISK_SECONDS);
        disk_watch_tick(k->s, &w);
        front_tick(k->s);
        tcp_ports_tick(k->s->tcp);
        pthread_mutex_lock(&k->lock);
        while (!k->stopping && tn_now() < next)
            doze(k, &k->changed, next);
        pthread_mutex_unlock(&k->lock);
    }
    return NULL;
}

/* --- all of it ----------------------------------------------------------------------------- */

struct steward *steward_new(struct tn_service *s, struct tn_error *err)
{
    void *(*const loops[])(void *) = {keep_times_loop, sample_loop, round_loop, disk_loop};
    struct steward *k = tn_calloc(1, sizeof *k);

    k->s = s;
    k->save_uses = tn_deadline_in(USES_SECONDS); /* those from before there was a steward */
    pthread_mutex_init(&k->lock, NULL);
    tn_cond_init(&k->changed);
    tn_cond_init(&k->nudged);
    k->pools = pools_new(s, err);
    box_each(s, &(struct box_filter){0}, nudge_box, k, NULL);
    for (size_t i = 0; k->pools && i < TN_COUNT(loops); i++) {
        int sys = tn_thread_start(&k->threads[i], loops[i], k);
        if (sys) {
            tn_fail_errno(err, sys, "a thread of the steward");
            break;
        }
        k->thread_count++;
    }
    if (k->thread_count == TN_COUNT(loops))
        return k;
    steward_end(k, TN_NEVER);
    steward_free(k);
    return NULL;
}

bool steward_end(struct steward *k, int64_t deadline)
{
    if (!k)
        return true;
    pthread_mutex_lock(&k->lock);
    k->stopping = true;
    pthread_cond_broadcast(&k->changed);
    pthread_cond_signal(&k->nudged);
    pthread_mutex_unlock(&k->lock);
    for (; k->thread_count; k->thread_count--)
        pthread_join(k->threads[k->thread_count - 1], NULL);
    return pools_end(k->pools, deadline);
}

void steward_free(struct steward *k)
{
    if (!k)
        return;
    pools_free(k->pools);
    timers_done(&k->times);
    pthread_cond_destroy(&k->nudged);
    pthread_cond_destroy(&k->changed);
    pthread_mutex_destroy(&k->lock);
    free(k->watched);
    free(k);
}
