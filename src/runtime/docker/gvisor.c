/* Containers on gVisor's kernel: whether the engine offers it, and whether one has it. */
#include <pthread.h>

#include "base/fs.h"
#include "runtime/docker/docker.h"

#define OPEN_SECONDS 5.0
enum { WORDS_MAX = 1 << 20 };
#define KEPT_SECONDS 10.0 /* what the engine said of itself */

static bool is_podman(const struct tn_engine_info *engine)
{
    return strcmp(engine->name, "podman") == 0;
}

bool docker_offers_gvisor(const struct tn_engine_info *engine, const struct tn_json *info,
                          const char *name)
{
    return is_podman(engine) ? strcmp(tn_json_get_str(info, "DefaultRuntime", ""), name) == 0
                             : tn_json_get(tn_json_get(info, "Runtimes"), name) != NULL;
}

/* Asked before: an engine that takes no such wish (Podman's API takes none) says nothing of it. */
int docker_ask_gvisor(struct tn_engine *e, const struct tn_config *config, int64_t deadline,
                      struct tn_error *err)
{
    const char *name = config->docker.runsc;
    const struct tn_engine_info *engine = tn_engine_info(e);
    struct tn_engine_call call = {.target = "/info", .deadline = deadline};
    tn_autojson struct tn_json *info = NULL;

    if (tn_engine_call(e, &call, NULL, &info, err) < 0)
        return -1;
    if (docker_offers_gvisor(engine, info, name))
        return 0;
    return tn_fail(err, TN_E_UNSUPPORTED, "isolation gvisor: %s has no %s called %s (docker.runsc)",
                   engine->name, is_podman(engine) ? "default runtime" : "runtime", name);
}

/* --- before there is anything -------------------------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    const struct tn_config *config; /* whose engine was asked */
    int64_t until;
    struct tn_error answer; /* code 0: it offers it */
} kept;

/* False: nothing is kept. */
static bool recall(const struct tn_config *config, struct tn_error *answer)
{
    pthread_mutex_lock(&lock);
    bool known = kept.config == config && tn_now() < kept.until;
    *answer = kept.answer;
    pthread_mutex_unlock(&lock);
    return known;
}

static void keep(const struct tn_config *config, const struct tn_error *answer)
{
    pthread_mutex_lock(&lock);
    kept.config = config;
    kept.until = tn_deadline_in(KEPT_SECONDS);
    kept.answer = *answer;
    pthread_mutex_unlock(&lock);
}

int docker_check_offer(const struct tn_host *host, const struct tn_spec *spec, struct tn_error *err)
{
    const struct tn_config_docker *c = &host->config->docker;
    struct tn_engine_options options = {
        .host = c->host, .tls_verify = c->tls_verify, .cert_path = c->cert_path};
    int64_t deadline = tn_deadline_in(OPEN_SECONDS);
    struct tn_error answer = {0};

    if (!tn_config_wants_gvisor(host->config, spec))
        return 0;
    if (!recall(host->config, &answer)) {
        tn_autoengine struct tn_engine *e = tn_engine_open(&options, deadline, NULL);
        /* That it cannot be asked is for the create to tell. */
        if (!e || (docker_ask_gvisor(e, host->config, deadline, &answer) < 0 &&
                   answer.code != TN_E_UNSUPPORTED))
            return 0;
        keep(host->config, &answer);
    }
    return answer.code ? tn_fail(err, answer.code, "%s", answer.text) : 0;
}

/* --- of one that was made ------------------------------------------------------------------ */

bool docker_has_gvisor(const struct docker *d, const struct tn_json *tree)
{
    const char *runtime = tn_json_get_str(tn_json_get(tree, "HostConfig"), "Runtime", "");

    return is_podman(tn_engine_info(d->engine))
               ? *docker_label(tree, DOCKER_LABEL_GVISOR) != '\0'
               : strcmp(runtime, docker_config(d)->docker.runsc) == 0;
}

int docker_check_gvisor(const struct docker *d, const struct tn_subject *s,
                        const struct tn_json *tree, struct tn_error *err)
{
    if (!tn_config_wants_gvisor(docker_config(d), s->spec) || docker_has_gvisor(d, tree))
        return 0;
    return tn_fail(err, TN_E_UNSUPPORTED,
                   "isolation gvisor: the engine does not run the container with %s (docker.runsc)",
                   docker_config(d)->docker.runsc);
}

int docker_check_sockets(const struct docker *d, const struct tn_proc *process,
                         struct tn_error *err)
{
    static const char wanted[] = "\0--network=host"; /* runsc writes out what it was given */
    tn_autofree char *path = tn_asprintf("/proc/%d/cmdline", (int)process->pid);
    tn_autobuf struct tn_buf words = TN_BUF_INIT(WORDS_MAX);

    if (tn_fs_read(TN_FS_ANYWHERE, path, &words, err) < 0)
        return -1;
    if (memmem(tn_buf_str(&words), words.len, wanted, sizeof wanted))
        return 0;
    return tn_fail(err, TN_E_CONFLICT,
                   "docker.runsc_gate: the engine runs %s without --network=host: its own network "
                   "stack would never meet the gate",
                   docker_config(d)->docker.runsc);
}
