/* Files, commands, logs, addresses, numbers. */
#include "runtime/docker/docker.h"

/* --- files ---------------------------------------------------------------------------------- */

static bool leads_up(const char *path)
{
    for (const char *at = path; (at = strstr(at, "/..")); at += 3)
        if (at[3] == '/' || !at[3])
            return true;
    return false;
}

int docker_put(void *engine, const struct tn_subject *s, const char *path, const void *bytes,
               size_t n, mode_t mode, int64_t deadline, struct tn_error *err)
{
    const struct docker *d = engine;
    tn_autojson struct tn_json *tree = NULL;
    const char *name = path + strspn(path, "/");

    if (*path != '/' || !*name || name[strlen(name) - 1] == '/' || leads_up(path))
        return tn_fail(err, TN_E_INVALID, "put %s: expected the absolute path of a file", path);
    struct tn_engine_file file = {.name = name, .bytes = bytes, .size = n, .mode = mode, .fd = -1};
    if (docker_must_find(d, s, &tree, deadline, err) < 0 ||
        tn_engine_put_files(d->engine, docker_id(tree), "/", &file, 1, deadline, err) < 0)
        return tn_error_context(err, "docker: sandbox %s: put %s", s->id, path);
    return 0;
}

/* --- commands ------------------------------------------------------------------------------- */

static int keep_output(int stream, const void *bytes, size_t n, void *ctx)
{
    return tn_buf_add(ctx, bytes, n);
}

int docker_exec(void *engine, const struct tn_subject *s, const char *const *argv,
                struct tn_buf *out, int *status, int64_t deadline, struct tn_error *err)
{
    const struct docker *d = engine;
    tn_autojson struct tn_json *tree = NULL;
    struct tn_engine_exec exec = {
        .argv = argv, .cwd = docker_workspace(d, s), .fn = keep_output, .ctx = out};

    if (docker_must_find(d, s, &tree, deadline, err) < 0 ||
        tn_engine_exec(d->engine, docker_id(tree), &exec, status, deadline, err) < 0 ||
        tn_output_fits(out, err) < 0)
        return tn_error_context(err, "docker: sandbox %s: exec", s->id);
    return 0;
}

/* --- logs ----------------------------------------------------------------------------------- */

struct reader {
    tn_log_fn fn;
    void *ctx;
};

static int pass_on(int stream, const void *bytes, size_t n, void *ctx)
{
    const struct reader *reader = ctx;

    return reader->fn(bytes, n, reader->ctx);
}

int docker_logs(void *engine, const struct tn_subject *s, bool follow, tn_log_fn fn, void *ctx,
                int64_t deadline, struct tn_error *err)
{
    const struct docker *d = engine;
    tn_autojson struct tn_json *tree = NULL;
    struct reader reader = {.fn = fn, .ctx = ctx};

    if (docker_must_find(d, s, &tree, deadline, err) < 0 ||
        tn_engine_logs(d->engine, docker_id(tree), follow, -1, pass_on, &reader, deadline, err) < 0)
        return tn_error_context(err, "docker: sandbox %s: logs", s->id);
    return 0;
}

/* --- addresses ------------------------------------------------------------------------------ */

#define URL_SECONDS 10.0

static char *url_of(const char *host, int port)
{
    if (strcmp(host, "127.0.0.1") == 0)
        host = "localhost";
    return tn_asprintf(strchr(host, ':') ? "http://[%s]:%d" : "http://%s:%d", host, port);
}

char *docker_url(void *engine, const struct tn_subject *s, int port, struct tn_error *err)
{
    const struct docker *d = engine;
    tn_autojson struct tn_json *tree = NULL;
    tn_autofree char *host = NULL;

    if (docker_must_find(d, s, &tree, tn_deadline_in(URL_SECONDS), err) < 0)
        return NULL;
    if (docker_has_host_network(tree))
        return url_of(docker_reach(d, ""), port);
    int outside = docker_published(d, tree, port, &host);
    if (outside > 0)
        return url_of(host, outside);
    /* Networks of an engine that runs as root are networks of its machine. */
    if (d->root_is_us && geteuid() == 0 && *docker_container_ip(tree))
        return url_of(docker_container_ip(tree), port);
    tn_fail(err, TN_E_NOT_FOUND,
            "docker: port %d of sandbox %s is not published: %suse `tendon port`", port, s->id,
            *docker_label(tree, DOCKER_LABEL_NETWORK) ? "its network has a gate and nothing else; "
                                                      : "name it when the sandbox is made, or ");
    return NULL;
}

/* --- usage ---------------------------------------------------------------------------------- */

static int64_t number(const struct tn_json *tree, const char *a, const char *b)
{
    return tn_json_int(tn_json_get(tn_json_get(tree, a), b), -1);
}

int docker_usage(void *engine, const struct tn_subject *s, struct tn_usage *out,
                 struct tn_error *err)
{
    const struct docker *d = engine;
    int64_t deadline = tn_deadline_in(URL_SECONDS);
    tn_autojson struct tn_json *tree = NULL, *stats = NULL, *sized = NULL;

    *out = (struct tn_usage){
        .memory = -1, .memory_peak = -1, .disk = -1, .cpu_seconds = -1, .processes = -1};
    if (docker_must_find(d, s, &tree, deadline, err) < 0)
        return -1;
    if (tn_engine_inspect_size(d->engine, docker_id(tree), &sized, deadline, NULL) == 0)
        out->disk = tn_json_int(tn_json_get(sized, "SizeRw"), -1);
    if (strcmp(docker_status(tree), "running") != 0 && strcmp(docker_status(tree), "paused") != 0)
        return 0;
    if (tn_engine_stats(d->engine, docker_id(tree), &stats, deadline, err) < 0)
        return tn_error_context(err, "docker: sandbox %s: usage", s->id);
    const struct tn_json *memory = tn_json_get(stats, "memory_stats");
    int64_t cache = number(memory, "stats", "total_inactive_file");
    if (cache < 0)
        cache = number(memory, "stats", "inactive_file");
    int64_t used = tn_json_int(tn_json_get(memory, "usage"), -1);
    out->memory = used > 0 && cache > 0 && cache < used ? used - cache : used;
    out->memory_peak = tn_json_int(tn_json_get(memory, "max_usage"), -1);
    out->processes = number(stats, "pids_stats", "current");
    int64_t cpu = number(tn_json_get(stats, "cpu_stats"), "cpu_usage", "total_usage");
    out->cpu_seconds = cpu < 0 ? -1 : (double)cpu / 1e9;
    return 0;
}
