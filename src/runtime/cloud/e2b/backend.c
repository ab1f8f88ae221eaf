/* The table of the e2b backend. */
#include "runtime/cloud/e2b/e2b.h"

#define DEBUG_API "http://localhost:3000"
#define ADVICE                                                                                    \
    "set E2B_API_KEY, or e2b.api_key, to a key of https://e2b.dev/dashboard?tab=keys (or, for a " \
    "Tendon that serves this API, of: tendon key create NAME --e2b)"

static void close_rest(struct cloud *c)
{
    struct e2b *e = (struct e2b *)c;

    tn_web_free(e->agents);
    free(e->sandbox_url);
    free(e->domain);
}

static struct tn_web *web_at(const char *url, struct tn_error *err)
{
    return url ? tn_web_new(&(struct tn_web_options){.base = url}, err) : NULL;
}

/* The addresses that the configuration names, each of them one. */
static int read_addresses(struct e2b *e, struct tn_error *err)
{
    const struct tn_config_e2b *config = &e->cloud.host->config->e2b;
    tn_autofree char *usual = tn_asprintf("https://api.%s", config->domain);

    if (!cloud_is_host(config->domain))
        return tn_fail(err, TN_E_INVALID, "e2b.domain: expected the name of a host");
    e->domain = tn_strdup(config->domain);
    e->cloud.line.url = cloud_base(
        "e2b.api_url", cloud_first(config->api_url, config->debug ? DEBUG_API : NULL, usual), err);
    if (!e->cloud.line.url || !cloud_first(config->sandbox_url, NULL, NULL))
        return e->cloud.line.url ? 0 : -1;
    e->sandbox_url = cloud_base("e2b.sandbox_url", config->sandbox_url, err);
    e->agents = web_at(e->sandbox_url, err);
    return e->agents ? 0 : -1;
}

static int open_rest(struct cloud *c, struct tn_error *err)
{
    const struct tn_config *config = c->host->config;
    const char *key = cloud_first(config->e2b.api_key, config->core.e2b_api_key, NULL);

    c->unmarked = config->e2b.debug;
    c->open_ports = config->e2b.public_ports || c->unmarked;
    c->timeout = config->e2b.timeout;
    c->usual = c->standard = config->e2b.template;
    c->line.secrets[0] = key;
    if (!key && !c->unmarked)
        return cloud_no_key(c, err);
    if (read_addresses((struct e2b *)c, err) < 0)
        return -1;
    c->line.web = web_at(c->line.url, err);
    return c->line.web && (!key || tn_web_header(c->line.web, "X-API-Key", key, err) == 0) ? 0 : -1;
}

/* A snapshot is a template. */
static const struct cloud_shelf shelf = {
    .sandbox = "/sandboxes/",
    .take = "/snapshots",
    .id = "snapshotID",
    .before_id = "",
    .list = "/snapshots?limit=100",
    .method = "DELETE",
    .one = "/templates/",
    .after = "",
};

static const struct cloud_disks disks = {.list = "volumeMounts", .which = "name", .inside = "path"};
static const char *const keeps[] = {"volumes", "allow", NULL};
static const struct cloud_vendor vendor = {
    .name = "e2b",
    .who = "E2B",
    .advice = ADVICE,
    .size = sizeof(struct e2b),
    .open = open_rest,
    .close = close_rest,
    .harmless = &(const struct tn_web_call){.target = "/v2/sandboxes?limit=1"},
    .keeps = keeps,
    .fences = true,
    .disks = &disks,
    .make = e2b_make,
    .look = e2b_look,
    .each = e2b_each,
    .order = e2b_order,
    .extend = e2b_extend,
    .address = e2b_address,
    .port = e2b_port,
    .put = e2b_put,
    .run = e2b_run,
    .usage = e2b_usage,
    .take = cloud_take,
    .drop = cloud_drop,
    .shelf = &shelf,
    .works = &e2b_works,
};

CLOUD_DOORS
const struct tn_backend tn_backend_e2b = {
    .name = "e2b",
    .summary = "sandboxes of E2B, or of whoever serves its API",
    .abilities = TN_CAN_PAUSE | TN_CAN_STOP | TN_CAN_ISOLATE | TN_CAN_IMAGE | TN_CAN_NETWORK_NONE,
    .elsewhere = true,
    CLOUD_FUNCTIONS,
    .attend = cloud_attend,
    .usage = cloud_usage,
};
