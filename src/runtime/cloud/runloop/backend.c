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
    c->standard = config->runloop.blueprint;
    /* One that is made of a snapshot has the size of that, and was set up. */
    if (!cloud_first(config->runloop.size, config->runloop.setup, NULL))
        c->usual = cloud_first(config->runloop.blueprint, "usual", NULL);
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

static const struct cloud_shelf shelf = {
    .sandbox = "/v1/devboxes/",
    .take = "/snapshot_disk",
    .id = "id",
    .before_id = DEVBOX_SNAPSHOT,
    .list = "/v1/devboxes/disk_snapshots?limit=500",
    .items = "snapshots",
    .method = "POST",
    .one = "/v1/devboxes/disk_snapshots/",
    .after = "/delete",
};

static const char *const cannot[TN_GOAL_GONE + 1] = {
    [TN_GOAL_PAUSED] = "Runloop keeps the disk of a devbox alone: stop it instead",
};

static const struct cloud_vendor vendor = {
    .name = "runloop",
    .who = "Runloop",
    .advice = ADVICE,
    .size = sizeof(struct runloop),
    .open = open_rest,
    .close = close_rest,
    .harmless = &(const struct tn_web_call){.target = "/v1/devboxes?limit=1"},
    .check = check_rest,
    .cannot = cannot,
    .make = devbox_make,
    .look = devbox_look,
    .each = devbox_each,
    .order = devbox_order,
    .extend = devbox_extend,
    .address = devbox_address,
    .port = devbox_port,
    .put = devbox_put,
    .run = devbox_run,
    .take = cloud_take,
    .drop = cloud_drop,
    .shelf = &shelf,
    .works = &devbox_works,
};

CLOUD_DOORS
const struct tn_backend tn_backend_runloop = {
    .name = "runloop",
    .summary = "devboxes of Runloop, or of whoever serves its API",
    .abilities = TN_CAN_STOP | TN_CAN_ISOLATE | TN_CAN_IMAGE,
    .elsewhere = true,
    CLOUD_FUNCTIONS,
    .attend = cloud_attend,
};
