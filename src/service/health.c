/* /healthz, /readyz and /metrics: for who watches over the service. */
#include <stdatomic.h>

#include "base/clock.h"
#include "base/log.h"
#include "service/box.h"
#include "service/caller.h"
#include "service/metrics.h"

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

static int backend_works(struct tn_service *s, struct tn_error *err)
{
    return tn_runtime_ready(s->rt, tn_runtime_host(s->rt)->config->tendon.runtime, err);
}

static int boxes_known(struct tn_service *s, struct tn_error *err)
{
    int unknown = boxes_unknown(s->boxes);

    return unknown ? tn_fail(err, TN_E_BUSY, "%d sandboxes were not looked at yet", unknown) : 0;
}

static const struct {
    const char *what;
    int (*check)(struct tn_service *s, struct tn_error *err);
} checks[] = {
    {"store", store_writes},
    {"backend", backend_works},
    {"recovery", boxes_known},
};

/* Anybody may ask, and asking writes: what was fine a moment ago still is. */
static atomic_int_least64_t last_fine;

/* No key is asked for: what is wrong is told in a word, the rest is in the log. */
static void handle_readyz(struct tn_http_exchange *x, void *ctx)
{
    tn_autobuf struct tn_buf reasons = TN_BUF_INIT(8 * 1024);
    struct tn_jw w = tn_jw(&reasons);
    struct tn_error err;
    bool ready = true, fresh = last_fine && tn_now() - last_fine < TN_SECOND;

    tn_jw_array(&w);
    for (size_t i = 0; i < TN_COUNT(checks) && !fresh; i++)
        if (checks[i].check(ctx, &err) < 0) {
            ready = false;
            tn_jw_str(&w, checks[i].what);
            tn_log(TN_LOG_WARN, "not ready", tn_log_str("what", checks[i].what),
                   tn_log_str("reason", err.text), tn_log_str("request_id", request_id(x)));
        }
    tn_jw_array_end(&w);
    if (ready && !fresh)
        last_fine = tn_now();
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
