/* The native API of a Tendon service: docs/service/openapi-native.yaml. */
#include "base/clock.h"
#include "net/url.h"
#include "runtime/remote/body.h"

/* How long one answer may be waited for; then it is asked for again. */
#define POLL_SECONDS 30.0
#define PAGE "1000"

/* Seconds that the service may take for an answer: no more than are left. */
static double wait_for(int64_t deadline)
{
    double left = deadline == TN_NEVER ? POLL_SECONDS : (double)(deadline - tn_now()) / 1e9 - 0.1;

    return left < 0 ? 0 : left < POLL_SECONDS ? left : POLL_SECONDS;
}

/* --- looking ---------------------------------------------------------------------------------- */

/* One that is not there is fine: out->known says so. */
static int get_one(const struct remote *r, const char *target, double patience, int cancel,
                   struct remote_view *out, int64_t deadline, struct tn_error *err)
{
    const struct remote_call call = {.target = target, .patience = patience, .cancel = cancel};
    tn_autojson struct tn_json *tree = NULL;
    struct tn_error why = {0};

    *out = (struct remote_view){0};
    if (remote_ask(r, &call, &tree, deadline, &why) == 0)
        return remote_read_native(r, tree, out, err);
    if (why.code == TN_E_NOT_FOUND || (why.code == TN_E_GONE && why.sys != ECANCELED))
        return 0;
    if (err)
        *err = why;
    return -1;
}

/* The service's id of a session; NULL when there is none. */
static int find_session(const struct remote *r, const char *id, char **found, int64_t deadline,
                        struct tn_error *err)
{
    tn_autojson struct tn_json *tree = NULL;
    char session[REMOTE_SESSION_MAX];

    *found = NULL;
    remote_session(r, id, session);
    tn_autofree char *target = remote_target("/v1/sandboxes?session=", session, "");
    const struct remote_call call = {.target = target};
    if (remote_ask(r, &call, &tree, deadline, err) < 0)
        return -1;
    const struct tn_json *one = tn_json_at(tn_json_get(tree, "sandboxes"), 0);
    *found = tn_strdup_or_null(tn_json_get_str(one, "id", NULL));
    return 0;
}

static int look(const struct remote *r, const struct tn_subject *s, const char *id,
                struct remote_view *out, int64_t deadline, struct tn_error *err)
{
    tn_autofree char *found = NULL;

    *out = (struct remote_view){0};
    if (!id && find_session(r, s->id, &found, deadline, err) < 0)
        return -1;
    if (!id && !found)
        return 0;
    tn_autofree char *target = remote_target("/v1/sandboxes/", id ? id : found, "");
    return get_one(r, target, 0, 0, out, deadline, err);
}

static int next(const struct remote *r, const struct tn_subject *s, const struct remote_view *now,
                struct remote_view *out, int *ms, int64_t deadline, struct tn_error *err)
{
    double seconds = wait_for(deadline);
    tn_autofree char *query =
        tn_asprintf("?wait=%.3f&version=%lld", seconds, (long long)now->version);
    tn_autofree char *target = remote_target("/v1/sandboxes/", now->id, query);

    return get_one(r, target, seconds, s->cancel, out, deadline, err);
}

/* --- making ----------------------------------------------------------------------------------- */

static int post(const struct remote *r, const char *target, const struct tn_buf *body,
                const struct tn_subject *s, double wait, struct remote_view *out, int64_t deadline,
                struct tn_error *err)
{
    tn_autojson struct tn_json *tree = NULL;
    char session[REMOTE_SESSION_MAX];

    remote_session(r, s->id, session);
    const struct remote_call call = {.method = "POST",
                                     .target = target,
                                     .body = body,
                                     .idempotency = session,
                                     .patience = wait,
                                     .cancel = s->cancel,
                                     .whole = true};
    if (remote_ask(r, &call, &tree, deadline, err) < 0)
        return -1;
    return remote_read_native(r, tree, out, err);
}

static int start(const struct remote *r, const struct tn_subject *s, struct remote_view *out,
                 int64_t deadline, struct tn_error *err)
{
    tn_autobuf struct tn_buf body = TN_BUF_INIT(REMOTE_BODY_MAX);
    /* What may be given up is ordered first, and then waited for: the order itself is not cut off.
     */
    double wait = s->cancel ? 0 : wait_for(deadline);

    if (remote_native_body(r, s, wait, &body, err) < 0)
        return -1;
    return post(r, "/v1/sandboxes", &body, s, wait, out, deadline, err);
}

static int fork_sandbox(const struct remote *r, const char *id, const char *name,
                        const struct tn_subject *child, const struct tn_json *env,
                        struct remote_view *out, int64_t deadline, struct tn_error *err)
{
    tn_autobuf struct tn_buf body = TN_BUF_INIT(REMOTE_BODY_MAX);
    tn_autofree char *target = remote_target("/v1/sandboxes/", id, "/fork");
    double wait = wait_for(deadline);

    if (remote_fork_body(r, child, name, env, wait, &body, err) < 0)
        return -1;
    return post(r, target, &body, child, wait, out, deadline, err);
}

/* --- orders ----------------------------------------------------------------------------------- */

/* Without an answer that matters. */
static int tell(const struct remote *r, const char *method, const char *target, double patience,
                int64_t deadline, struct tn_error *err)
{
    const struct remote_call call = {.method = method,
                                     .target = target,
                                     .ends = !strcmp(method, "DELETE"),
                                     .patience = patience};
    tn_autojson struct tn_json *tree = NULL;

    return remote_ask(r, &call, &tree, deadline, err);
}

static int order(const struct remote *r, const char *id, enum tn_goal goal, int64_t deadline,
                 struct tn_error *err)
{
    static const char *const verbs[] = {
        [TN_GOAL_RUNNING] = "/resume",
        [TN_GOAL_PAUSED] = "/pause",
        [TN_GOAL_STOPPED] = "/stop",
        [TN_GOAL_GONE] = "",
    };
    bool gone = goal == TN_GOAL_GONE;
    double wait = wait_for(deadline);
    tn_autofree char *rest = tn_asprintf("%s?wait=%.3f", verbs[goal], wait);
    tn_autofree char *target = remote_target("/v1/sandboxes/", id, rest);
    struct tn_error why = {0};

    if (tell(r, gone ? "DELETE" : "POST", target, wait, deadline, &why) == 0 ||
        (gone && why.code == TN_E_NOT_FOUND))
        return 0;
    if (err)
        *err = why;
    return -1;
}

/* --- lists ------------------------------------------------------------------------------------ */

static int tell_page(const struct remote *r, const struct tn_json *page, tn_found_fn found,
                     void *ctx)
{
    const struct tn_json *all = tn_json_get(page, "sandboxes");

    for (size_t i = 0; i < tn_json_count(all); i++) {
        const char *session = tn_json_get_str(tn_json_at(all, i), "session", "");
        const char *id = remote_own_id(r, session);
        int stop = id ? found(id, ctx) : 0;
        if (stop)
            return stop;
    }
    return 0;
}

static int list(const struct remote *r, tn_found_fn found, void *ctx, int64_t deadline,
                struct tn_error *err)
{
    tn_autofree char *page = NULL;

    do {
        tn_autofree char *target =
            page ? remote_target("/v1/sandboxes?limit=" PAGE "&page=", page, "")
                 : tn_strdup("/v1/sandboxes?limit=" PAGE);
        const struct remote_call call = {.target = target};
        tn_autojson struct tn_json *tree = NULL;
        if (remote_ask(r, &call, &tree, deadline, err) < 0)
            return -1;
        int stop = tell_page(r, tree, found, ctx);
        if (stop)
            return stop;
        const char *next_page = tn_json_get_str(tree, "next", NULL);
        if (next_page && page && strcmp(next_page, page) == 0)
            return tn_fail(err, TN_E_PEER, "%s lists its sandboxes in circles", r->api);
        free(page);
        page = tn_strdup_or_null(next_page);
    } while (page);
    return 0;
}

/* --- use -------------------------------------------------------------------------------------- */

static char *url(const struct remote *r, const struct tn_subject *s, const char *id, int port,
                 int64_t deadline, struct tn_error *err)
{
    tn_autofree char *rest = tn_asprintf("/ports/%d", port);
    tn_autofree char *target = remote_target("/v1/sandboxes/", id, rest);
    const struct remote_call call = {.method = "POST", .target = target};
    tn_autojson struct tn_json *tree = NULL;

    if (remote_ask(r, &call, &tree, deadline, err) < 0)
        return NULL;
    const char *text = tn_json_get_str(tree, "url", NULL);
    if (text && !tn_url_is_page(text))
        text = NULL;
    if (!text)
        tn_fail(err, TN_E_PEER, "the service does not say how to open port %d", port);
    return tn_strdup_or_null(text);
}

struct log {
    tn_log_fn fn;
    void *ctx;
};

static int pass_log(const void *bytes, size_t n, void *ctx)
{
    const struct log *log = ctx;

    return log->fn(bytes, n, log->ctx);
}

static int logs(const struct remote *r, const char *id, bool follow, tn_log_fn fn, void *ctx,
                int64_t deadline, struct tn_error *err)
{
    tn_autofree char *target =
        remote_target("/v1/sandboxes/", id, follow ? "/logs?follow=1" : "/logs");
    struct log log = {.fn = fn, .ctx = ctx};
    const struct remote_call call = {
        .target = target, .sink = pass_log, .sink_ctx = &log, .unsafe = true};
    tn_autojson struct tn_json *tree = NULL;
    struct tn_error why = {0};

    if (remote_ask(r, &call, &tree, deadline, &why) == 0)
        return 0;
    if (follow && why.code == TN_E_TIMEOUT && tn_now() >= deadline)
        return 0;
    if (err)
        *err = why;
    return -1;
}

static int usage(const struct remote *r, const char *id, struct tn_usage *out, int64_t deadline,
                 struct tn_error *err)
{
    tn_autofree char *target = remote_target("/v1/sandboxes/", id, "/usage");
    const struct remote_call call = {.target = target};
    tn_autojson struct tn_json *tree = NULL;

    if (remote_ask(r, &call, &tree, deadline, err) < 0)
        return -1;
    const struct tn_json *now = tn_json_get(tree, "now");
    *out = (struct tn_usage){
        .memory = tn_json_int(tn_json_get(now, "memory"), -1),
        .memory_peak = tn_json_int(tn_json_get(now, "memory_peak"), -1),
        .disk = tn_json_int(tn_json_get(now, "disk"), -1),
        .cpu_seconds = tn_json_double(tn_json_get(now, "cpu_seconds"), -1),
        .processes = tn_json_int(tn_json_get(now, "processes"), -1),
        .cpus = tn_json_double(tn_json_get(now, "cpus"), 0),
    };
    return 0;
}

/* --- layers ----------------------------------------------------------------------------------- */

static int snapshot(const struct remote *r, const char *id, const char *name, int64_t deadline,
                    struct tn_error *err)
{
    tn_autofree char *target = remote_target("/v1/sandboxes/", id, "/snapshots");
    tn_autobuf struct tn_buf body = TN_BUF_INIT(4096);
    tn_autojson struct tn_json *tree = NULL;
    struct tn_jw w = tn_jw(&body);

    tn_jw_object(&w);
    tn_jw_kstr(&w, "name", name);
    tn_jw_object_end(&w);
    /* A second one would find the name taken: after a failure the caller removes it. */
    const struct remote_call call = {
        .method = "POST", .target = target, .body = &body, .unsafe = true};
    return remote_ask(r, &call, &tree, deadline, err);
}

static char *snapshot_target(const char *id, const char *name, const char *what)
{
    tn_autofree char *before = remote_target("/v1/sandboxes/", id, "/snapshots/");

    return remote_target(before, name, what);
}

static int forget(const struct remote *r, const char *id, const char *name, int64_t deadline,
                  struct tn_error *err)
{
    tn_autofree char *target = snapshot_target(id, name, "");

    return tell(r, "DELETE", target, 0, deadline, err);
}

static int rollback(const struct remote *r, const char *id, const char *name, int64_t deadline,
                    struct tn_error *err)
{
    tn_autofree char *target = snapshot_target(id, name, "/rollback");

    return tell(r, "POST", target, 0, deadline, err);
}

const struct remote_dialect remote_native = {
    .name = "native",
    .start = start,
    .look = look,
    .next = next,
    .order = order,
    .list = list,
    .url = url,
    .logs = logs,
    .usage = usage,
    .snapshot = snapshot,
    .forget = forget,
    .rollback = rollback,
    .fork = fork_sandbox,
};
