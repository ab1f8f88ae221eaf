/* The table of the docker backend. */
#include <sys/stat.h>

#include "runtime/docker/docker.h"
#include "runtime/gated.h"
#include "runtime/owner.h"

#define OPEN_SECONDS 10.0

/* Whoever owns the engine's socket is who runs it: root, or for a rootless engine its user, who
 * then is root in its containers. */
bool docker_runs_as_us(const struct tn_engine_info *info)
{
    struct stat st;

    return info->local && stat(info->address + strlen("unix://"), &st) == 0 &&
           st.st_uid == geteuid();
}

bool docker_expects_root(const struct tn_host *host)
{
    const struct tn_config_docker *c = &host->config->docker;
    tn_autofree char *path = tn_engine_usual_socket(c->host);
    struct stat st;

    return path && stat(path, &st) == 0 && st.st_uid == geteuid();
}

/* docker.host_addr, or the host of sandbox.local_runtime_url where that says more than "here". */
static char *configured_reach(const struct tn_config *c)
{
    const char *url = c->sandbox.local_runtime_url, *scheme = url ? strstr(url, "://") : NULL;
    const char *host = scheme ? scheme + 3 : url;

    if (c->docker.host_addr && *c->docker.host_addr)
        return tn_strdup(c->docker.host_addr);
    if (!host || !*host)
        return NULL;
    bool v6 = *host == '[';
    host += v6;
    tn_autofree char *name = tn_strndup(host, strcspn(host, v6 ? "]" : ":/"));
    return *name && strcmp(name, "localhost") != 0 ? TN_TAKE_PTR(name) : NULL;
}

static int open_engine(const struct tn_host *host, void **engine, struct tn_error *err)
{
    const struct tn_config_docker *c = &host->config->docker;
    struct tn_engine_options options = {
        .host = c->host, .tls_verify = c->tls_verify, .cert_path = c->cert_path};
    struct tn_engine *e = tn_engine_open(&options, tn_deadline_in(OPEN_SECONDS), err);

    if (!e)
        return -1;
    struct docker *d = tn_calloc(1, sizeof *d);
    d->host = host;
    d->engine = e;
    d->reach = configured_reach(host->config);
    d->root_is_us = docker_runs_as_us(tn_engine_info(e));
    tn_state_mark(host->state, d->mark);
    *engine = d;
    return 0;
}

static void close_engine(void *engine)
{
    struct docker *d = engine;

    if (!d)
        return;
    tn_engine_free(d->engine);
    free(d->reach);
    free(d);
}

static const char *const aliases[] = {"eventstream", NULL};

const struct tn_backend tn_backend_docker = {
    .name = "docker",
    .aliases = aliases,
    .summary = "a container of Docker or Podman, from any image",
    .abilities = TN_CAN_PAUSE | TN_CAN_STOP | TN_CAN_LIMIT | TN_CAN_ISOLATE | TN_CAN_IMAGE |
                 TN_CAN_NETWORK_NONE | TN_CAN_GVISOR | TN_CAN_SECRETS,
    .open = open_engine,
    .close = close_engine,
    .check = docker_check,
    .create = docker_create,
    .inspect = docker_inspect,
    .drive = docker_drive,
    .list = docker_list,
    .put = docker_put,
    .exec = docker_exec,
    .network = docker_network,
    .refusals = tn_gated_refusals,
    .reload = docker_reload,
    .listen = tn_gated_listen,
    .let = tn_gated_let,
    .url = docker_url,
    .logs = docker_logs,
    .usage = docker_usage,
    .process = docker_first_process,
    .doctor = docker_doctor,
};
