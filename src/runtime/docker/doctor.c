/* What `tendon doctor` says about container engines. */
#include "runtime/docker/docker.h"

#define LOOK_SECONDS 5.0

struct report {
    tn_symptom_fn fn;
    void *ctx;
};

static void tell(const struct report *r, const char *what, bool good, bool needed,
                 const char *detail)
{
    struct tn_symptom finding = {.what = what, .good = good, .needed = needed, .detail = detail};

    r->fn(&finding, r->ctx);
}

static bool has_security(const struct tn_json *info, const char *name)
{
    const struct tn_json *list = tn_json_get(info, "SecurityOptions");
    tn_autofree char *wanted = tn_asprintf("name=%s", name);

    for (size_t i = 0; i < tn_json_count(list); i++) {
        const char *item = tn_json_str(tn_json_at(list, i), NULL);
        if (item && strncmp(item, wanted, strlen(wanted)) == 0)
            return true;
    }
    return false;
}

static void tell_limits(const struct report *r, const struct tn_json *info)
{
    static const struct {
        const char *key, *what;
    } limits[] = {
        {"MemoryLimit", "memory limit"},
        {"CpuCfsQuota", "cpu limit"},
        {"PidsLimit", "pids limit"},
    };

    for (size_t i = 0; i < TN_COUNT(limits); i++) {
        bool good = tn_json_bool(tn_json_get(info, limits[i].key), false);
        tell(r, limits[i].what, good, false,
             good ? "the engine enforces it"
                  : "the engine cannot: the kernel or cgroup delegation lacks it");
    }
}

static void tell_way(const struct report *r, const struct tn_engine_info *engine)
{
    bool ours = docker_runs_as_us(engine);

    tell(r, "socket to the hand", ours, false,
         ours ? "mounted into the container: fastest, and works without network"
              : "the engine does not run as this user: hands are copied in and reached over "
                "published ports, and network none is not possible");
}

/* What a sandbox gets that says nothing. */
static void tell_network(const struct report *r, const struct tn_host *host,
                         const struct tn_engine_info *engine)
{
    const struct docker d = {.host = host, .root_is_us = docker_runs_as_us(engine)};
    const struct tn_spec nothing = {0};
    struct tn_error why = {0};
    bool said;
    int network = docker_choose_network(&d, &nothing, &said);
    bool good = docker_check_network(&d, network, &nothing, &why) == 0;
    tn_autofree char *detail = tn_asprintf("%s%s", good ? "reaches " : "",
                                           good ? docker_reaches(tn_networks[network]) : why.text);

    tell(r, "network of a sandbox", good && (said || network != TN_NETWORK_BRIDGE), false, detail);
}

int docker_doctor(const struct tn_host *host, tn_symptom_fn fn, void *ctx, struct tn_error *err)
{
    const struct tn_config_docker *c = &host->config->docker;
    struct report report = {.fn = fn, .ctx = ctx};
    struct tn_engine_options options = {
        .host = c->host, .tls_verify = c->tls_verify, .cert_path = c->cert_path};
    struct tn_error why = {0};
    int64_t deadline = tn_deadline_in(LOOK_SECONDS);
    tn_autoengine struct tn_engine *e = tn_engine_open(&options, deadline, &why);
    tn_autojson struct tn_json *info = NULL;

    if (!e) {
        tell(&report, "container engine", false, true, why.text);
        return 0;
    }
    const struct tn_engine_info *engine = tn_engine_info(e);
    tn_autofree char *what = tn_asprintf("%s %s at %s, API %s", engine->name, engine->version,
                                         engine->address, engine->api);
    tell(&report, "container engine", true, true, what);
    tell_way(&report, engine);
    tell_network(&report, host, engine);
    struct tn_engine_call call = {.target = "/info", .deadline = deadline};
    if (tn_engine_call(e, &call, NULL, &info, &why) < 0) {
        tell(&report, "engine's own report", false, false, why.text);
        return 0;
    }
    tell_limits(&report, info);
    bool gvisor = docker_offers_gvisor(engine, info, c->runsc);
    tn_autofree char *runsc = tn_asprintf("the engine %s run containers with one called %s",
                                          gvisor ? "can" : "cannot", c->runsc);
    tell(&report, "gVisor", gvisor, false, runsc);
    bool seccomp = has_security(info, "seccomp");
    tell(&report, "seccomp", seccomp, false,
         seccomp ? "system calls are filtered" : "the engine filters no system calls");
    bool rootless = has_security(info, "rootless");
    tell(&report, "rootless", rootless, false,
         rootless ? "root of a container is an ordinary user outside"
                  : "root of a container is root outside, less some capabilities");
    return 0;
}
