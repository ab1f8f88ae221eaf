/* The table of the runloop backend. */
#include "runtime/cloud/runloop/runloop.h"

#define ADVICE                                                                                   \
    "set RUNLOOP_API_KEY, or runloop.api_key, to a key of https://platform.runloop.ai (or, for " \
    "a Tendon that serves this API, of: tendon key create NAME)"

static void close_rest(struct cloud *c)
{
    struct runloop *r = (struct runloop *)c;

    free(r->tunnels);
    free(r->tunnel_host);
}

/* The API of the platform is api.HOST, and its tunnels are below tunnel.HOST.  Anybody else has one
 * address for everything. */
static int read_addresses(struct runloop *r, struct tn_error *err)
{
    const struct tn_config_runloop *config = &r->cloud.host->config->runloop;
    const char *tunnels = cloud_first(config->tunnel_url, NULL, NULL),
               *api = r->cloud.line.url = cloud_base("runloop.base_url", config->base_url, err);

    if (!api)
        return -1;
    const char *host = strstr(api, "://") + 3;
    bool platform = strncmp(host, "api.", 4) == 0;
    host += platform ? 4 : 0;
    r->tunnel_host =
        tn_asprintf("tunnel.%.*s", (int)strcspn(host, "/"), *host == '[' ? "localhost" : host);
    if (tunnels || !platform)
        r->tunnels = cloud_base("runloop.tunnel_url", tunnels ? tunnels : api, err);
    return r->tunnels || platform ? 0 : -1;
}

static int open_rest(struct cloud *c, struct tn_error *err)
{
    const struct tn_config *config = c->host->config;
    const char *key = cloud_first(config->runloop.api_key, config->core.runloop_api_key, NULL);

    c->open_ports = config->runloop.public_ports;
    c->timeout = config->runloop.timeout;
    c->line.secrets[0] = key;
    if (!key)
        return cloud_no_key(c, err);
    if (read_addresses((struct runloop *)c, err) < 0)
        return -1;
    c->line.web = tn_web_new(&(struct tn_web_options){.base = c->line.url}, err);
    return cloud_bearer(c->line.web, key, err);
}

static int check_rest(const struct tn_spec *spec, struct tn_error *err)
{
    if (spec->network == TN_NETWORK_NONE)
        return tn_fail(err, TN_E_UNSUPPORTED,
                       "network none: on Runloop that is a network policy of a blueprint");
    return 0;
}

static const struct cloud_vendor vendor = {
    .name = "runloop",
    .who = "Runloop",
    .advice = ADVICE,
    .size = sizeof(struct runloop),
    .open = open_rest,
    .close = close_rest,
    .harmless = &(const struct tn_web_call){.target = "/v1/devboxes?limit=1"},
    .check = check_rest,
    .make = devbox_make,
    .look = devbox_look,
    .each = devbox_each,
    .order = devbox_order,
    .extend = devbox_extend,
    .address = devbox_address,
    .port = devbox_port,
    .put = devbox_put,
    .run = devbox_run,
};

static int drive(void *engine, const struct tn_subject *s, enum tn_goal goal,
                 struct tn_place *place, int64_t deadline, struct tn_error *err)
{
    *place = (struct tn_place){0};
    if (goal == TN_GOAL_PAUSED)
        return tn_fail(err, TN_E_UNSUPPORTED,
                       "pause: Runloop keeps the disk of a devbox alone: stop it instead");
    return cloud_drive(engine, s, goal, place, deadline, err);
}

static int usage(void *engine, const struct tn_subject *s, struct tn_usage *out,
                 struct tn_error *err)
{
    *out = TN_USAGE_UNKNOWN;
    return tn_fail(err, TN_E_UNSUPPORTED,
                   "Runloop tells what a devbox has cost, not what it uses at the moment");
}

static int open_engine(const struct tn_host *host, void **engine, struct tn_error *err)
{
    return cloud_open(&vendor, host, engine, err);
}

static int check_spec(const struct tn_host *host, const struct tn_spec *spec, struct tn_error *err)
{
    return cloud_check(&vendor, spec, err);
}

static int doctor(const struct tn_host *host, tn_symptom_fn fn, void *ctx, struct tn_error *err)
{
    return cloud_doctor(&vendor, host, fn, ctx);
}

const struct tn_backend tn_backend_runloop = {
    .name = "runloop",
    .summary = "devboxes of Runloop, or of whoever serves its API",
    .abilities = TN_CAN_STOP | TN_CAN_ISOLATE | TN_CAN_IMAGE,
    .elsewhere = true,
    .open = open_engine,
    .close = cloud_close,
    .check = check_spec,
    .create = cloud_create,
    .inspect = cloud_inspect,
    .drive = drive,
    .list = cloud_list,
    .put = cloud_put,
    .exec = cloud_exec,
    .url = cloud_url,
    .logs = cloud_logs,
    .attend = cloud_attend,
    .usage = usage,
    .doctor = doctor,
};
