/* Networks, events. */
#include "engine/engine-impl.h"
#include "engine/stream.h"

/* --- networks --------------------------------------------------------------------------------- */

int tn_engine_network_connect(struct tn_engine *e, const char *name, const char *container,
                              int64_t deadline, struct tn_error *err)
{
    tn_autofree char *path = engine_path("networks", name, "connect", NULL);
    tn_autobuf struct tn_buf body = TN_BUF_INIT(4096);
    struct tn_jw w = tn_jw(&body);

    tn_jw_object(&w);
    tn_jw_kstr(&w, "Container", container);
    tn_jw_object_end(&w);
    struct tn_engine_call call = {.method = "POST",
                                  .target = path,
                                  .body = tn_buf_str(&body),
                                  .body_len = body.len,
                                  .deadline = deadline};
    return tn_engine_call(e, &call, NULL, NULL, err);
}

/* --- events ----------------------------------------------------------------------------------- */

struct listener {
    tn_engine_event_fn fn;
    void *ctx;
};

static int take_event(const struct tn_json *object, void *ctx, struct tn_error *err)
{
    struct listener *l = ctx;

    return l->fn(object, l->ctx) ? 1 : 0;
}

int tn_engine_past_events(struct tn_engine *e, const char *const *filters, double since,
                          tn_engine_event_fn fn, void *ctx, int64_t deadline, struct tn_error *err)
{
    struct listener listener = {.fn = fn, .ctx = ctx};
    struct engine_lines lines = {
        .line = TN_BUF_INIT(ENGINE_LINE_MAX), .fn = take_event, .ctx = &listener};
    tn_autofree char *encoded = tn_engine_filters(filters);
    struct timespec now;
    struct tn_error why = {0};

    clock_gettime(CLOCK_REALTIME, &now);
    tn_autofree char *target = tn_asprintf("/events?filters=%s&since=%.9f&until=%lld.%09ld",
                                           encoded, since, (long long)now.tv_sec, now.tv_nsec);
    struct tn_engine_call call = {
        .target = target, .sink = engine_lines_take, .sink_ctx = &lines, .deadline = deadline};
    int r = tn_engine_call(e, &call, NULL, NULL, &why);

    if (lines.failed) {
        why = lines.err;
        r = -1;
    }
    tn_buf_done(&lines.line);
    if (r < 0 && err)
        *err = why;
    return r;
}
