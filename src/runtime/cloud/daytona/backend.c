/* The table of the daytona backend. */
#include "runtime/cloud/daytona/daytona.h"

#define NEVER 86400.0 /* seconds between two signs of life where nothing is stopped */
#define USUAL_API "https://app.daytona.io/api"
#define ADVICE                                                                                  \
    "set DAYTONA_API_KEY, or daytona.api_key, to a key of "                                     \
    "https://app.daytona.io/dashboard/keys (or, for a Tendon that serves this API, of: tendon " \
    "key create NAME)"

static void close_rest(struct cloud *c)
{
    free(((struct daytona *)c)->toolbox_url);
}

struct tn_web *daytona_web(const struct cloud *c, const char *url, struct tn_error *err)
{
    struct tn_web *web = tn_web_new(&(struct tn_web_options){.base = url}, err);
    const char *organization = cloud_first(c->host->config->daytona.organization_id, NULL, NULL);

    if (cloud_bearer(web, c->line.secrets[0], err) == 0 &&
        (!organization || tn_web_header(web, "X-Daytona-Organization-ID", organization, err) == 0))
        return web;
    tn_web_free(web);
    return NULL;
}

static int open_rest(struct cloud *c, struct tn_error *err)
{
    const struct tn_config_core *core = &c->host->config->core;
    const struct tn_config_daytona *config = &c->host->config->daytona;
    const char *toolbox = cloud_first(config->toolbox_url, NULL, NULL);
    struct daytona *d = (struct daytona *)c;

    c->usual = cloud_first(config->snapshot, "usual", NULL);
    c->open_ports = true; /* a link has its token in it */
    c->timeout = config->disable_auto_stop ? NEVER : 60.0 * (double)config->auto_stop;
    c->line.secrets[0] = cloud_first(config->api_key, config->jwt_token, core->daytona_api_key);
    if (!c->line.secrets[0])
        return cloud_no_key(c, err);
    c->line.url = cloud_base("daytona.api_url",
                             cloud_first(config->api_url, core->daytona_api_url, USUAL_API), err);
    if (c->line.url && toolbox)
        d->toolbox_url = cloud_base("daytona.toolbox_url", toolbox, err);
    if (!c->line.url || (toolbox && !d->toolbox_url))
        return -1;
    c->line.web = daytona_web(c, c->line.url, err);
    return c->line.web ? 0 : -1;
}

static const struct cloud_shelf shelf = {
    .sandbox = "/sandbox/",
    .take = "/snapshot",
    .sized = true,
    .before_id = "",
    .list = "/snapshots?limit=100",
    .items = "items",
    .method = "DELETE",
    .one = "/snapshots/",
    .after = "",
};

static const char *const cannot[TN_GOAL_GONE + 1] = {[TN_GOAL_PAUSED] =
                                                         "a stop is all that Daytona has"};
static const char *const keeps[] = {"volumes", "allow", "memory", "cpus", "disk", NULL};
static const struct cloud_vendor vendor = {
    .name = "daytona",
    .who = "Daytona",
    .advice = ADVICE,
    .size = sizeof(struct daytona),
    .open = open_rest,
    .close = close_rest,
    .harmless = &(const struct tn_web_call){.target = "/sandbox?limit=1"},
    .keeps = keeps,
    .fences = true,
    .tells_fence = true,
    .disks = &daytona_disks,
    .cannot = cannot,
    .make = daytona_make,
    .look = daytona_look,
    .each = daytona_each,
    .order = daytona_order,
    .extend = daytona_extend,
    .address = daytona_address,
    .port = daytona_port,
    .put = daytona_put_file,
    .run = daytona_run_program,
    .take = cloud_take,
    .drop = cloud_drop,
    .shelf = &shelf,
};

CLOUD_DOORS
const struct tn_backend tn_backend_daytona = {
    .name = "daytona",
    .summary = "sandboxes of Daytona, or of whoever serves its API",
    .abilities = TN_CAN_STOP | TN_CAN_ISOLATE | TN_CAN_IMAGE | TN_CAN_NETWORK_NONE,
    .elsewhere = true,
    CLOUD_FUNCTIONS,
    .attend = cloud_attend,
};
