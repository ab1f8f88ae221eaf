/* Containers: making them, and their life. */
#include "engine/engine-impl.h"

static char *join(const struct tn_json *list)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(16 << 10);

    for (size_t i = 0; i < tn_json_count(list); i++) {
        const char *line = tn_json_str(tn_json_at(list, i), NULL);
        if (line && *line)
            tn_buf_printf(&text, "%s%s", text.len ? "; " : "", line);
    }
    return text.len ? tn_buf_take(&text) : NULL;
}

int tn_engine_create(struct tn_engine *e, const char *name, const char *platform,
                     const struct tn_buf *body, char **id, char **warnings, int64_t deadline,
                     struct tn_error *err)
{
    tn_autobuf struct tn_buf target = TN_BUF_INIT(4096), query = TN_BUF_INIT(4096);
    tn_autojson struct tn_json *answer = NULL;

    engine_query(&query, "name", name);
    engine_query(&query, "platform", platform);
    tn_buf_printf(&target, "/containers/create?%s", tn_buf_str(&query));
    struct tn_engine_call call = {.method = "POST",
                                  .target = tn_buf_str(&target),
                                  .body = tn_buf_str(body),
                                  .body_len = body->len,
                                  .deadline = deadline};
    if (tn_engine_call(e, &call, NULL, &answer, err) < 0)
        return -1;
    const char *made = tn_json_get_str(answer, "Id", NULL);
    if (!made)
        return tn_fail(err, TN_E_PEER, "the engine did not say which container it made");
    *id = tn_strdup(made);
    if (warnings)
        *warnings = join(tn_json_get(answer, "Warnings"));
    return 0;
}

int tn_engine_inspect(struct tn_engine *e, const char *id, struct tn_json **out, int64_t deadline,
                      struct tn_error *err)
{
    tn_autofree char *path = engine_path("containers", id, "json", NULL);

    return engine_get(e, path, out, deadline, err);
}

int tn_engine_inspect_size(struct tn_engine *e, const char *id, struct tn_json **out,
                           int64_t deadline, struct tn_error *err)
{
    tn_autofree char *path = engine_path("containers", id, "json", "size=1");

    return engine_get(e, path, out, deadline, err);
}

static int post(struct tn_engine *e, const char *id, const char *verb, const char *query,
                const int *fine, int64_t deadline, struct tn_error *err)
{
    tn_autofree char *path = engine_path("containers", id, verb, query);

    return engine_do(e, "POST", path, fine, deadline, err);
}

/* Is it in that state already?  Engines answer alike to "already" and to "impossible". */
static bool has_state(struct tn_engine *e, const char *id, const char *status, int64_t deadline)
{
    tn_autojson struct tn_json *tree = NULL;

    return tn_engine_inspect(e, id, &tree, deadline, NULL) == 0 &&
           strcmp(tn_json_get_str(tn_json_get(tree, "State"), "Status", ""), status) == 0;
}

int tn_engine_start(struct tn_engine *e, const char *id, int64_t deadline, struct tn_error *err)
{
    return post(e, id, "start", NULL, NULL, deadline, err);
}

int tn_engine_stop(struct tn_engine *e, const char *id, int grace_seconds, int64_t deadline,
                   struct tn_error *err)
{
    char query[32];

    snprintf(query, sizeof query, "t=%d", grace_seconds);
    return post(e, id, "stop", query, NULL, deadline, err);
}

int tn_engine_pause(struct tn_engine *e, const char *id, int64_t deadline, struct tn_error *err)
{
    if (post(e, id, "pause", NULL, NULL, deadline, err) == 0)
        return 0;
    return has_state(e, id, "paused", deadline) ? 0 : -1;
}

int tn_engine_unpause(struct tn_engine *e, const char *id, int64_t deadline, struct tn_error *err)
{
    if (post(e, id, "unpause", NULL, NULL, deadline, err) == 0)
        return 0;
    return has_state(e, id, "running", deadline) ? 0 : -1;
}

int tn_engine_remove(struct tn_engine *e, const char *id, int64_t deadline, struct tn_error *err)
{
    static const int gone[] = {404, 0};
    tn_autofree char *path = engine_path("containers", id, NULL, "force=1&v=1");

    return engine_do(e, "DELETE", path, gone, deadline, err);
}

int tn_engine_containers(struct tn_engine *e, const char *const *filters, struct tn_json **out,
                         int64_t deadline, struct tn_error *err)
{
    tn_autofree char *encoded = tn_engine_filters(filters);
    tn_autofree char *path = tn_asprintf("/containers/json?all=1&filters=%s", encoded);

    return engine_get(e, path, out, deadline, err);
}

int tn_engine_wait_removed(struct tn_engine *e, const char *id, int64_t deadline,
                           struct tn_error *err)
{
    static const int gone[] = {404, 0};
    tn_autofree char *path = engine_path("containers", id, "wait", "condition=removed");

    return engine_do(e, "POST", path, gone, deadline, err);
}

int tn_engine_stats(struct tn_engine *e, const char *id, struct tn_json **out, int64_t deadline,
                    struct tn_error *err)
{
    tn_autofree char *path = engine_path("containers", id, "stats", "stream=false&one-shot=true");

    return engine_get(e, path, out, deadline, err);
}
