/* Devboxes that exist. */
#include "service/clock.h"
#include "service/runloop/runloop.h"

/* --- looking --------------------------------------------------------------------------------- */

static bool has_status(struct tn_http_exchange *x, const struct box_view *v)
{
    const char *wanted = tn_http_query(x, "status");

    return !wanted || !*wanted || strcmp(wanted, runloop_status(v)) == 0;
}

static void get_devboxes(struct tn_http_exchange *x, void *ctx)
{
    runloop_list(x, ctx, RUNLOOP_DEVBOX, "devboxes", runloop_put_devbox, has_status);
}

static void get_devbox(struct tn_http_exchange *x, void *ctx)
{
    autobox struct box *b = runloop_box(x, ctx, SCOPE_READ, RUNLOOP_DEVBOX, NULL);

    if (b)
        runloop_reply_devbox(x, b);
}

/* What it has cost, where somebody counted it so. */
static void get_usage(struct tn_http_exchange *x, void *ctx)
{
    autobox struct box *b = runloop_box(x, ctx, SCOPE_READ, RUNLOOP_DEVBOX, NULL);
    tn_autobuf struct tn_buf json = TN_BUF_INIT(4096);
    struct tn_jw w = tn_jw(&json);
    autoview struct box_view v = {0};

    if (!b)
        return;
    box_look(b, &v);
    struct surface_size size = surface_size_of(&v);
    double now = service_time(), all = now - v.created,
           active = v.state == BOX_RUNNING && v.started > 0 ? now - v.started : 0;
    tn_jw_object(&w);
    tn_jw_kstr(&w, "id", v.id);
    tn_jw_kstr(&w, "status", runloop_status(&v));
    runloop_put_ms(&w, "start_time_ms", v.created);
    tn_jw_kint(&w, "total_elapsed_seconds", (int64_t)all);
    tn_jw_kint(&w, "total_active_seconds", (int64_t)active);
    tn_jw_kint(&w, "vcpu_seconds", (int64_t)(active * (double)size.cpus));
    tn_jw_kint(&w, "memory_gb_seconds", (int64_t)(active * (double)(size.memory >> 30)));
    tn_jw_kint(&w, "disk_gb_seconds", (int64_t)(all * (double)(size.disk >> 30)));
    tn_jw_object_end(&w);
    tn_http_reply_json(x, 200, &json);
}

/* --- changing -------------------------------------------------------------------------------- */

static void post_devbox(struct tn_http_exchange *x, void *ctx)
{
    autobox struct box *b = runloop_box(x, ctx, SCOPE_MANAGE, RUNLOOP_DEVBOX, NULL);
    tn_autojson struct tn_json *body = NULL, *metadata = NULL;
    autoview struct box_view v = {0};
    struct tn_error err = {0};

    if (!b || surface_body(x, RUNLOOP_BODY_MAX, &body))
        return;
    box_look(b, &v);
    const struct tn_json *words = tn_json_get(body, "metadata");
    const char *name = tn_json_get_str(body, "name", NULL);
    int failed = runloop_check_words(words, &err) || native_check_names(name, NULL, NULL, &err);
    if (!failed && words)
        failed = !(metadata = runloop_metadata(words, runloop_record(&v), NULL, NULL, &err));
    if (!failed)
        failed = box_change(b, caller_of(x),
                            &(struct box_change){.name = name, .metadata = metadata}, &err);
    if (native_audit(x, ctx, "sandbox.change", box_id(b), failed ? &err : NULL))
        return;
    if (failed)
        reply_error(x, &err);
    else
        runloop_reply_devbox(x, b);
}

/* Its time begins anew. */
static void post_keep_alive(struct tn_http_exchange *x, void *ctx)
{
    autobox struct box *b = runloop_box(x, ctx, SCOPE_MANAGE, RUNLOOP_DEVBOX, NULL);
    autoview struct box_view v = {0};
    struct tn_error err = {0};

    if (!b)
        return;
    box_look(b, &v);
    box_enter_use(b); /* of one that rests when it is idle */
    box_leave_use(b);
    double seconds =
        tn_json_double(tn_json_get(tn_json_get(runloop_record(&v), "launch_parameters"),
                                   "keep_alive_time_seconds"),
                       RUNLOOP_KEEP_ALIVE);
    if (v.timeout > 0 &&
        box_change(b, caller_of(x), &(struct box_change){.timeout = &seconds}, &err))
        reply_error(x, &err);
    else
        runloop_reply_nothing(x);
}

/* Its disk stays, its processes end. */
static void post_suspend(struct tn_http_exchange *x, void *ctx)
{
    autobox struct box *b = runloop_box(x, ctx, SCOPE_MANAGE, RUNLOOP_DEVBOX, NULL);

    if (b && runloop_order(x, b, ORDER_STOP) == 0)
        runloop_reply_devbox(x, b);
}

static void post_resume(struct tn_http_exchange *x, void *ctx)
{
    autobox struct box *b = runloop_box(x, ctx, SCOPE_MANAGE, RUNLOOP_DEVBOX, NULL);

    if (b && runloop_order(x, b, ORDER_RESUME) == 0)
        runloop_reply_devbox(x, b);
}

static void post_shutdown(struct tn_http_exchange *x, void *ctx)
{
    autobox struct box *b = runloop_box(x, ctx, SCOPE_MANAGE, RUNLOOP_DEVBOX, NULL);

    if (b && runloop_order(x, b, ORDER_DELETE) == 0)
        runloop_reply_devbox(x, b);
}

/* --- waiting --------------------------------------------------------------------------------- */

/* 0 once it has one of these, or -1. */
static int await_status(struct box *b, const struct tn_json *statuses, int64_t deadline,
                        struct tn_error *err)
{
    for (;;) {
        autoview struct box_view v;
        box_look(b, &v);
        if (tn_json_lists(statuses, runloop_status(&v)))
            return 0;
        if (box_wait_change(b, v.version, deadline, err))
            return -1;
    }
}

static void post_wait(struct tn_http_exchange *x, void *ctx)
{
    autobox struct box *b = runloop_box(x, ctx, SCOPE_READ, RUNLOOP_DEVBOX, NULL);
    tn_autojson struct tn_json *body = NULL;
    struct tn_error err = {0};

    if (!b || surface_body(x, RUNLOOP_BODY_MAX, &body))
        return;
    double most = RUNLOOP_POLL_SECONDS,
           wanted = tn_json_double(tn_json_get(body, "timeout_seconds"), most);
    if (await_status(b, tn_json_get(body, "statuses"),
                     tn_deadline_in(wanted >= 0 && wanted < most ? wanted : most), &err) == 0)
        runloop_reply_devbox(x, b);
    else if (err.code == TN_E_TIMEOUT)
        reply_status(x, 408, tn_code_row(TN_E_TIMEOUT)->name, "It has none of these statuses yet");
    else
        reply_error(x, &err);
}

/* --- what there is not ----------------------------------------------------------------------- */

static void not_served(struct tn_http_exchange *x, void *ctx)
{
    native_refuse(x, TN_E_DENIED, "%.60s is not served here: see docs/clouds/runloop.md",
                  tn_http_path(x));
}

#define BOX "/v1/devboxes/{id}"
const struct tn_route routes_runloop_devboxes[] = {
    {"GET", "/v1/devboxes", get_devboxes, "Runloop: devboxes, in pages", 0},
    {"GET", BOX "", get_devbox, "Runloop: one", 0},
    {"POST", BOX "", post_devbox, "Runloop: another name, other metadata", 0},
    {"POST", BOX "/keep_alive", post_keep_alive, "Runloop: its time begins anew", 0},
    {"POST", BOX "/suspend", post_suspend, "Runloop: stops it, its files stay", 0},
    {"POST", BOX "/resume", post_resume, "Runloop: starts it again", 0},
    {"POST", BOX "/shutdown", post_shutdown, "Runloop: removes it", 0},
    {"POST", BOX "/wait_for_status", post_wait, "Runloop: waits until it is so", 0},
    {"GET", BOX "/usage", get_usage, "Runloop: what it has used", 0},
    {"POST", BOX "/create_ssh_key", not_served, "Runloop: not served", 0},
    {"POST", "/v1/blueprints/preview", not_served, "Runloop: not served", 0},
    {0},
};
