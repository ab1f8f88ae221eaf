/* Images. */
#include "engine/engine-impl.h"
#include "engine/stream.h"

/* A pull or build that tells nothing for so long is stuck. */
#define IDLE_SECONDS 300.0
#define BUILD_IDLE_SECONDS 1800.0 /* a single step may well be silent */

int tn_engine_image(struct tn_engine *e, const char *reference, struct tn_json **out,
                    int64_t deadline, struct tn_error *err)
{
    tn_autofree char *path = engine_path("images", reference, "json", NULL);

    return engine_get(e, path, out, deadline, err);
}

int tn_engine_images(struct tn_engine *e, const char *const *filters, struct tn_json **out,
                     int64_t deadline, struct tn_error *err)
{
    tn_autofree char *encoded = tn_engine_filters(filters);
    tn_autofree char *path = tn_asprintf("/images/json?filters=%s", encoded);

    return engine_get(e, path, out, deadline, err);
}

int tn_engine_tag(struct tn_engine *e, const char *image, const char *repository, const char *tag,
                  int64_t deadline, struct tn_error *err)
{
    tn_autobuf struct tn_buf query = TN_BUF_INIT(4096);

    engine_query(&query, "repo", repository);
    engine_query(&query, "tag", tag);
    tn_autofree char *path = engine_path("images", image, "tag", tn_buf_str(&query));
    return engine_do(e, "POST", path, NULL, deadline, err);
}

int tn_engine_image_remove(struct tn_engine *e, const char *reference, bool force, int64_t deadline,
                           struct tn_error *err)
{
    static const int gone[] = {404, 0};
    tn_autofree char *path = engine_path("images", reference, NULL, force ? "force=1" : NULL);

    return engine_do(e, "DELETE", path, gone, deadline, err);
}

/* --- long work, told line by line ------------------------------------------------------------- */

struct work {
    tn_engine_progress_fn fn;
    void *ctx;
};

/* The engine has answered 200 by then: how it ended is in the stream. */
static int take_progress(const struct tn_json *object, void *ctx, struct tn_error *err)
{
    const struct work *work = ctx;
    const struct tn_json *detail = tn_json_get(object, "progressDetail");
    const char *error = tn_json_get_str(object, "error", NULL);
    struct tn_engine_progress p = {
        .id = tn_json_get_str(object, "id", NULL),
        .status = tn_json_get_str(object, "status", NULL),
        .stream = tn_json_get_str(object, "stream", NULL),
        .current = tn_json_int(tn_json_get(detail, "current"), -1),
        .total = tn_json_int(tn_json_get(detail, "total"), -1),
        .image = tn_json_get_str(tn_json_get(object, "aux"), "ID", NULL),
    };

    if (!error)
        error = tn_json_get_str(tn_json_get(object, "errorDetail"), "message", NULL);
    if (error) {
        bool missing = strcasestr(error, "not found") || strcasestr(error, "manifest unknown") ||
                       strcasestr(error, "does not exist");
        return tn_fail(err, missing ? TN_E_NOT_FOUND : TN_E_PEER, "%s", error);
    }
    if (work->fn)
        work->fn(&p, work->ctx);
    return 0;
}

static int carry_out(struct tn_engine *e, struct tn_engine_call *call, struct work *work,
                     struct tn_error *err)
{
    struct engine_lines lines = {
        .line = TN_BUF_INIT(ENGINE_LINE_MAX), .fn = take_progress, .ctx = work};

    call->sink = engine_lines_take;
    call->sink_ctx = &lines;
    int r = tn_engine_call(e, call, NULL, NULL, err);
    if (r == 0 && engine_lines_end(&lines) < 0) {
        if (err)
            *err = lines.err;
        r = -1;
    }
    tn_buf_done(&lines.line);
    return r;
}

/* Has it a tag or a digest? */
static bool is_exact(const char *reference)
{
    const char *slash = strrchr(reference, '/');

    return strchr(reference, '@') || strchr(slash ? slash : reference, ':');
}

int tn_engine_pull(struct tn_engine *e, const char *reference, const struct tn_engine_pull *given,
                   tn_engine_progress_fn fn, void *ctx, int64_t deadline, struct tn_error *err)
{
    struct tn_engine_pull how = given ? *given : (struct tn_engine_pull){0};
    tn_autobuf struct tn_buf target = TN_BUF_INIT(8192), query = TN_BUF_INIT(4096);
    tn_autofree char *auth = how.anonymous ? NULL : engine_auth_header(reference, deadline);
    const char *const headers[] = {auth, NULL};
    struct work work = {.fn = fn, .ctx = ctx};

    engine_query(&query, "fromImage", reference);
    engine_query(&query, "tag", is_exact(reference) ? NULL : "latest");
    engine_query(&query, "platform", how.platform);
    tn_buf_printf(&target, "/images/create?%s", tn_buf_str(&query));
    struct tn_engine_call call = {.method = "POST",
                                  .target = tn_buf_str(&target),
                                  .headers = headers,
                                  .deadline = deadline,
                                  .idle = IDLE_SECONDS,
                                  .cancel = how.cancel};
    int r = carry_out(e, &call, &work, err);
    if (auth)
        explicit_bzero(auth, strlen(auth));
    return r;
}

int tn_engine_build(struct tn_engine *e, const char *query, tn_web_source_fn source,
                    void *source_ctx, int64_t length, tn_engine_progress_fn fn, void *ctx,
                    int cancel, int64_t deadline, struct tn_error *err)
{
    tn_autofree char *target = tn_asprintf("/build?%s", query);
    struct work work = {.fn = fn, .ctx = ctx};
    struct tn_engine_call call = {.method = "POST",
                                  .target = target,
                                  .type = "application/x-tar",
                                  .source = source,
                                  .source_ctx = source_ctx,
                                  .source_len = length,
                                  .deadline = deadline,
                                  .idle = BUILD_IDLE_SECONDS,
                                  .cancel = cancel};

    return carry_out(e, &call, &work, err);
}
