/* Networks, volumes, events. */
#include "engine/engine-impl.h"
#include "engine/stream.h"

static const int gone[] = {404, 0};

static int post_json(struct tn_engine *e, const char *target, const struct tn_buf *body,
                     int64_t deadline, struct tn_error *err)
{
    struct tn_engine_call call = {.method = "POST",
                                  .target = target,
                                  .body = tn_buf_str(body),
                                  .body_len = body->len,
                                  .deadline = deadline};

    return tn_engine_call(e, &call, NULL, NULL, err);
}

/* --- networks --------------------------------------------------------------------------------- */

int tn_engine_network(struct tn_engine *e, const char *name, struct tn_json **out, int64_t deadline,
                      struct tn_error *err)
{
    tn_autofree char *path = engine_path("networks", name, NULL, NULL);

    return engine_get(e, path, out, deadline, err);
}

int tn_engine_network_create(struct tn_engine *e, const struct tn_buf *body, int64_t deadline,
                             struct tn_error *err)
{
    return post_json(e, "/networks/create", body, deadline, err);
}

int tn_engine_network_remove(struct tn_engine *e, const char *name, int64_t deadline,
                             struct tn_error *err)
{
    tn_autofree char *path = engine_path("networks", name, NULL, NULL);

    return engine_do(e, "DELETE", path, gone, deadline, err);
}

int tn_engine_network_connect(struct tn_engine *e, const char *name, const char *container,
                              int64_t deadline, struct tn_error *err)
{
    tn_autofree char *path = engine_path("networks", name, "connect", NULL);
    tn_autobuf struct tn_buf body = TN_BUF_INIT(4096);
    struct tn_jw w = tn_jw(&body);

    tn_jw_object(&w);
    tn_jw_kstr(&w, "Container", container);
    tn_jw_object_end(&w);
    return post_json(e, path, &body, deadline, err);
}

/* --- volumes ---------------------------------------------------------------------------------- */

int tn_engine_volume(struct tn_engine *e, const char *name, struct tn_json **out, int64_t deadline,
                     struct tn_error *err)
{
    tn_autofree char *path = engine_path("volumes", name, NULL, NULL);

    return engine_get(e, path, out, deadline, err);
}

int tn_engine_volume_create(struct tn_engine *e, const char *name, const struct tn_buf *body,
                            int64_t deadline, struct tn_error *err)
{
    tn_autobuf struct tn_buf plain = TN_BUF_INIT(4096);
    struct tn_jw w = tn_jw(&plain);

    tn_jw_object(&w);
    tn_jw_kstr(&w, "Name", name);
    tn_jw_object_end(&w);
    return post_json(e, "/volumes/create", body ? body : &plain, deadline, err);
}

int tn_engine_volume_remove(struct tn_engine *e, const char *name, int64_t deadline,
                            struct tn_error *err)
{
    tn_autofree char *path = engine_path("volumes", name, NULL, "force=1");

    return engine_do(e, "DELETE", path, gone, deadline, err);
}

int tn_engine_volumes(struct tn_engine *e, const char *const *filters, struct tn_json **out,
                      int64_t deadline, struct tn_error *err)
{
    tn_autofree char *encoded = tn_engine_filters(filters);
    tn_autofree char *path = tn_asprintf("/volumes?filters=%s", encoded);

    return engine_get(e, path, out, deadline, err);
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

static int listen_to(struct tn_engine *e, const char *const *filters, const char *query,
                     struct listener *listener, int64_t deadline, struct tn_error *err)
{
    struct engine_lines lines = {
        .line = TN_BUF_INIT(ENGINE_LINE_MAX), .fn = take_event, .ctx = listener};
    tn_autofree char *encoded = tn_engine_filters(filters);
    tn_autofree char *target =
        tn_asprintf("/events?filters=%s%s%s", encoded, *query ? "&" : "", query);
    struct tn_error why = {0};
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

int tn_engine_events(struct tn_engine *e, const char *const *filters, double since,
                     tn_engine_event_fn fn, void *ctx, int64_t deadline, struct tn_error *err)
{
    struct listener listener = {.fn = fn, .ctx = ctx};
    char query[64] = "";
    struct tn_error why = {0};

    if (since > 0)
        snprintf(query, sizeof query, "since=%.9f", since);
    if (listen_to(e, filters, query, &listener, deadline, &why) == 0 || why.code == TN_E_TIMEOUT)
        return 0;
    if (err)
        *err = why;
    return -1;
}

int tn_engine_past_events(struct tn_engine *e, const char *const *filters, double since,
                          tn_engine_event_fn fn, void *ctx, int64_t deadline, struct tn_error *err)
{
    struct listener listener = {.fn = fn, .ctx = ctx};
    struct timespec now;
    char query[96];

    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(query, sizeof query, "since=%.9f&until=%lld.%09ld", since, (long long)now.tv_sec,
             now.tv_nsec);
    return listen_to(e, filters, query, &listener, deadline, err);
}
