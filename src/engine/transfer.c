/* Bytes in and out of containers: output, commands, files. */
#include "engine/engine-impl.h"
#include "engine/stream.h"
#include "engine/tar.h"

#define TAR_TYPE "application/x-tar"

/* --- output ----------------------------------------------------------------------------------- */

int tn_engine_logs(struct tn_engine *e, const char *id, bool follow, int64_t tail,
                   tn_engine_output_fn fn, void *ctx, int64_t deadline, struct tn_error *err)
{
    struct engine_frames frames = {.fn = fn, .ctx = ctx};
    char query[96];
    struct tn_error why = {0};

    snprintf(query, sizeof query, "stdout=1&stderr=1&follow=%d", follow);
    if (tail >= 0)
        snprintf(query, sizeof query, "stdout=1&stderr=1&follow=%d&tail=%lld", follow,
                 (long long)tail);
    tn_autofree char *path = engine_path("containers", id, "logs", query);
    struct tn_engine_call call = {
        .target = path, .sink = engine_frames_take, .sink_ctx = &frames, .deadline = deadline};
    int r = tn_engine_call(e, &call, NULL, NULL, &why);
    if (frames.broken)
        return tn_fail(err, TN_E_PEER, "container %s has a terminal: its log has no frames", id);
    if (r < 0 && !(follow && why.code == TN_E_TIMEOUT)) {
        if (err)
            *err = why;
        return -1;
    }
    return 0;
}

/* --- commands --------------------------------------------------------------------------------- */

static void put_words(struct tn_jw *w, const char *key, const char *const *words)
{
    if (!words)
        return;
    tn_jw_key(w, key);
    tn_jw_array(w);
    for (; *words; words++)
        tn_jw_str(w, *words);
    tn_jw_array_end(w);
}

static int exec_create(struct tn_engine *e, const char *id, const struct tn_engine_exec *exec,
                       char **exec_id, int64_t deadline, struct tn_error *err)
{
    tn_autobuf struct tn_buf body = TN_BUF_INIT(4 << 20);
    tn_autojson struct tn_json *answer = NULL;
    tn_autofree char *path = engine_path("containers", id, "exec", NULL);
    struct tn_jw w = tn_jw(&body);

    tn_jw_object(&w);
    put_words(&w, "Cmd", exec->argv);
    put_words(&w, "Env", exec->env);
    tn_jw_kbool(&w, "AttachStdout", true);
    tn_jw_kbool(&w, "AttachStderr", true);
    if (exec->user)
        tn_jw_kstr(&w, "User", exec->user);
    if (exec->cwd)
        tn_jw_kstr(&w, "WorkingDir", exec->cwd);
    tn_jw_object_end(&w);
    if (!tn_buf_ok(&body))
        return tn_fail(err, TN_E_TOO_LARGE, "a command of more than 4 MiB");
    struct tn_engine_call call = {.method = "POST",
                                  .target = path,
                                  .body = tn_buf_str(&body),
                                  .body_len = body.len,
                                  .deadline = deadline};
    if (tn_engine_call(e, &call, NULL, &answer, err) < 0)
        return -1;
    *exec_id = tn_strdup(tn_json_get_str(answer, "Id", ""));
    return 0;
}

static int exec_status(struct tn_engine *e, const char *exec_id, int *status, int64_t deadline,
                       struct tn_error *err)
{
    tn_autojson struct tn_json *answer = NULL;
    tn_autofree char *path = engine_path("exec", exec_id, "json", NULL);

    if (engine_get(e, path, &answer, deadline, err) < 0)
        return -1;
    *status = (int)tn_json_int(tn_json_get(answer, "ExitCode"), -1);
    return 0;
}

int tn_engine_exec(struct tn_engine *e, const char *id, const struct tn_engine_exec *exec,
                   int *status, int64_t deadline, struct tn_error *err)
{
    static const char body[] = "{\"Detach\":false,\"Tty\":false}";
    struct engine_frames frames = {.fn = exec->fn, .ctx = exec->ctx};
    tn_autofree char *exec_id = NULL;

    if (exec_create(e, id, exec, &exec_id, deadline, err) < 0)
        return -1;
    tn_autofree char *path = engine_path("exec", exec_id, "start", NULL);
    struct tn_engine_call call = {.method = "POST",
                                  .target = path,
                                  .body = body,
                                  .body_len = sizeof body - 1,
                                  .sink = engine_frames_take,
                                  .sink_ctx = &frames,
                                  .deadline = deadline};
    if (tn_engine_call(e, &call, NULL, NULL, err) < 0)
        return -1;
    if (frames.broken)
        return tn_fail(err, TN_E_PEER, "the engine sent output without frames");
    return exec_status(e, exec_id, status, deadline, err);
}

/* --- files ------------------------------------------------------------------------------------ */

int tn_engine_put_files(struct tn_engine *e, const char *id, const char *directory,
                        const struct tn_engine_file *files, size_t count, int64_t deadline,
                        struct tn_error *err)
{
    tn_autobuf struct tn_buf query = TN_BUF_INIT(16 << 10);
    struct tn_tar tar;

    if (tn_tar_init(&tar, files, count, err) < 0)
        return -1;
    engine_query(&query, "path", directory);
    tn_autofree char *path = engine_path("containers", id, "archive", tn_buf_str(&query));
    struct tn_engine_call call = {.method = "PUT",
                                  .target = path,
                                  .type = TAR_TYPE,
                                  .source = tn_tar_read,
                                  .source_ctx = &tar,
                                  .source_len = tn_tar_length(&tar),
                                  .deadline = deadline};
    return tn_engine_call(e, &call, NULL, NULL, err);
}
