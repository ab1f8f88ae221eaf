/* /healthz, /readyz and /metrics: for who watches over the service. */
#include "service/health.h"

#include <pthread.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "service/box.h"
#include "service/caller.h"
#include "service/metrics.h"

/* What a check may take. */
#define CHECK_SECONDS 3.0
enum { CHECKS_MAX = 3 };

static void reply_health(struct tn_http_exchange *x, int status, const char *word,
                         const struct tn_buf *reasons)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(16 * 1024);
    struct tn_jw w = tn_jw(&json);

    tn_jw_object(&w);
    tn_jw_kstr(&w, "status", word);
    if (reasons) {
        tn_jw_key(&w, "reasons");
        tn_jw_raw(&w, tn_buf_str(reasons), reasons->len);
    }
    tn_jw_object_end(&w);
    tn_http_set_header(x, "Cache-Control", "no-store");
    tn_http_reply_json(x, status, &json);
}

/* That it answers is all it says. */
static void handle_healthz(struct tn_http_exchange *x, void *ctx)
{
    reply_health(x, 200, "ok", NULL);
}

static int store_writes(struct tn_service *s, struct tn_error *err)
{
    return tn_db_run(s->db, err,
                     "INSERT INTO setting (name, value) VALUES ('ready', '') "
                     "ON CONFLICT (name) DO UPDATE SET value = ''",
                     "");
}

/* That it can be opened, and that it answers. */
static int backend_works(struct tn_service *s, struct tn_error *err)
{
    return tn_runtime_ready(s->rt, tn_runtime_host(s->rt)->config->tendon.runtime,
                            tn_deadline_in(CHECK_SECONDS), err);
}

static int boxes_known(struct tn_service *s, struct tn_error *err)
{
    int unknown = boxes_unknown(s->boxes);

    return unknown ? tn_fail(err, TN_E_BUSY, "%d sandboxes were not looked at yet", unknown) : 0;
}

static const struct {
    const char *what;
    int (*check)(struct tn_service *s, struct tn_error *err);
} checks[CHECKS_MAX] = {
    {"store", store_writes},
    {"backend", backend_works},
    {"recovery", boxes_known},
};

/* --- one examination at a time ------------------------------------------------------------- */

struct health {
    struct tn_service *s;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool busy;            /* a thread is at it, */
    size_t at;            /* at this check, */
    int64_t until;        /* and should have ended by then */
    int64_t known;        /* when the newest result was had; 0: never */
    bool bad[CHECKS_MAX]; /* what it was */
};

struct health *health_new(struct tn_service *s)
{
    struct health *h = tn_calloc(1, sizeof *h);

    h->s = s;
    pthread_mutex_init(&h->lock, NULL);
    tn_cond_init(&h->changed);
    return h;
}

bool health_end(struct health *h, int64_t deadline)
{
    struct timespec until = tn_timespec(deadline);
    int late = 0;

    if (!h)
        return true;
    pthread_mutex_lock(&h->lock);
    while (h->busy && !late)
        late = pthread_cond_timedwait(&h->changed, &h->lock, &until);
    bool rests = !h->busy;
    pthread_mutex_unlock(&h->lock);
    return rests;
}

void health_free(struct health *h)
{
    if (!h)
        return;
    pthread_cond_destroy(&h->changed);
    pthread_mutex_destroy(&h->lock);
    free(h);
}

static void *examine(void *arg)
{
    struct health *h = arg;
    bool bad[CHECKS_MAX] = {0};

    for (size_t i = 0; i < TN_COUNT(checks); i++) {
        struct tn_error err = {0};
        pthread_mutex_lock(&h->lock);
        h->at = i;
        h->until = tn_deadline_in(CHECK_SECONDS);
        pthread_mutex_unlock(&h->lock);
        bad[i] = checks[i].check(h->s, &err) < 0;
        if (bad[i])
            tn_log(TN_LOG_WARN, "not ready", tn_log_str("what", checks[i].what),
                   tn_log_str("reason", err.text));
    }
    pthread_mutex_lock(&h->lock);
    memcpy(h->bad, bad, sizeof bad);
    h->known = tn_now();
    h->busy = false;
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->lock);
    return NULL;
}

/* Under the lock: fills in what is bad.  Anybody may ask, and asking writes: what was seen within
 * the last second is told again, and who comes during an examination waits for that one; a check
 * that takes too long is a bad one. */
static void be_examined(struct health *h, bool bad[CHECKS_MAX])
{
    pthread_t thread;

    if (!h->busy && (!h->known || tn_now() - h->known >= TN_SECOND)) {
        h->busy = true;
        h->at = 0;
        h->until = tn_deadline_in(CHECK_SECONDS);
        if (tn_thread_start(&thread, examine, h)) {
            h->busy = false;
            memset(bad, true, CHECKS_MAX);
            return;
        }
        pthread_detach(thread);
    }
    while (h->busy && tn_now() < h->until) {
        struct timespec until = tn_timespec(h->until);
        pthread_cond_timedwait(&h->changed, &h->lock, &until);
    }
    memcpy(bad, h->bad, sizeof h->bad);
    if (h->busy)
        bad[h->at] = true;
}

/* No key is asked for: what is wrong is told in a word, the rest is in the log. */
static void handle_readyz(struct tn_http_exchange *x, void *ctx)
{
    struct tn_service *s = ctx;
    tn_autobuf struct tn_buf reasons = TN_BUF_INIT(8 * 1024);
    struct tn_jw w = tn_jw(&reasons);
    bool bad[CHECKS_MAX] = {0}, ready = true;

    pthread_mutex_lock(&s->health->lock);
    be_examined(s->health, bad);
    pthread_mutex_unlock(&s->health->lock);
    tn_jw_array(&w);
    for (size_t i = 0; i < TN_COUNT(checks); i++)
        if (bad[i]) {
            ready = false;
            tn_jw_str(&w, checks[i].what);
        }
    tn_jw_array_end(&w);
    reply_health(x, ready ? 200 : 503, ready ? "ready" : "not ready", &reasons);
}

/* Numbers of all tenants together: for keys of that scope alone, unless they are open to all. */
static void handle_metrics(struct tn_http_exchange *x, void *ctx)
{
    struct tn_service *s = ctx;
    tn_autobuf struct tn_buf page = TN_BUF_INIT(4u << 20);

    if (!s->options->open_metrics && !(caller_present(x) && caller_may(x, SCOPE_METRICS)))
        return;
    metrics_write(s, &page);
    tn_http_reply(x, 200, "text/plain; version=0.0.4; charset=utf-8", page.data,
                  tn_buf_ok(&page) ? page.len : 0);
}

const struct tn_route routes_health[] = {
    {"GET", "/healthz", handle_healthz, "the process works", TN_ROUTE_OPEN},
    {"GET", "/readyz", handle_readyz, "it can do its work; else 503 and what is missing",
     TN_ROUTE_OPEN},
    {"GET", "/metrics", handle_metrics, "numbers for Prometheus", TN_ROUTE_OPEN},
    {0},
};
