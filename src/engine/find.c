/* Which engine: from an address as DOCKER_HOST has it, or the usual sockets. */
#include "engine/find.h"

static bool starts(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

void engine_target_done(struct engine_target *t)
{
    free(t->address);
    free(t->base);
    free(t->socket);
    free(t->host);
}

static void set_socket(struct engine_target *t, const char *path)
{
    t->address = tn_asprintf("unix://%s", path);
    t->socket = tn_strdup(path);
    t->base = tn_strdup("http://engine");
    t->host = tn_strdup("localhost");
}

/* What stands between "://" and the port or path. */
static char *host_of(const char *rest)
{
    const char *end = *rest == '[' ? strchr(rest, ']') : NULL;

    return end ? tn_strndup(rest + 1, (size_t)(end - rest - 1))
               : tn_strndup(rest, strcspn(rest, ":/"));
}

static void set_tcp(struct engine_target *t, const char *host, const char *rest, bool tls)
{
    size_t n = strlen(rest);

    while (n > 0 && rest[n - 1] == '/')
        n--;
    t->address = tn_strdup(host);
    t->base = tn_asprintf("%s://%.*s", tls ? "https" : "http", (int)n, rest);
    t->host = host_of(rest);
}

int engine_target_parse(const char *host, bool tls, struct engine_target *out, struct tn_error *err)
{
    static const struct {
        const char *scheme;
        bool tls;
    } schemes[] = {{"tcp://", false}, {"http://", false}, {"https://", true}};

    *out = (struct engine_target){0};
    if (starts(host, "unix://") && host[7] == '/') {
        set_socket(out, host + 7);
        return 0;
    }
    for (size_t i = 0; i < TN_COUNT(schemes); i++) {
        const char *rest = host + strlen(schemes[i].scheme);
        if (starts(host, schemes[i].scheme) && *rest && *rest != '/' && *rest != ':') {
            set_tcp(out, host, rest, schemes[i].tls || tls);
            return 0;
        }
    }
    if (*host == '/') {
        set_socket(out, host);
        return 0;
    }
    return tn_fail(err, TN_E_INVALID,
                   "engine address '%s': expected unix:///PATH, tcp://HOST:PORT or https://...",
                   host);
}

size_t engine_targets_usual(struct engine_target out[ENGINE_USUAL_MAX])
{
    static const char *const below_run[] = {"docker.sock", "podman/podman.sock"};
    const char *run = getenv("XDG_RUNTIME_DIR");
    size_t n = 0;

    memset(out, 0, ENGINE_USUAL_MAX * sizeof *out);
    set_socket(&out[n++], "/var/run/docker.sock");
    for (size_t i = 0; run && *run == '/' && i < TN_COUNT(below_run); i++) {
        tn_autofree char *path = tn_asprintf("%s/%s", run, below_run[i]);
        set_socket(&out[n++], path);
    }
    set_socket(&out[n++], "/run/podman/podman.sock");
    return n;
}
