/* The table of the daytona backend. */
#include "base/clock.h"
#include "runtime/cloud/daytona/daytona.h"

#define URL_SECONDS 30.0
#define CALL_SECONDS 90.0 /* a create may have to wait for its turn */
#define NEVER 86400.0     /* seconds between two signs of life where nothing is stopped */
#define USUAL_API "https://app.daytona.io/api"
#define ADVICE                                                                                  \
    "set DAYTONA_API_KEY, or daytona.api_key, to a key of "                                     \
    "https://app.daytona.io/dashboard/keys (or, for a Tendon that serves this API, of: tendon " \
    "key create NAME)"

static const char *const limits[] = {"memory", "cpus", "disk", NULL};
static const struct cloud_vendor vendor = {
    .name = "daytona",
    .limits = limits,
    .make = daytona_make,
    .look = daytona_look,
    .each = daytona_each,
    .order = daytona_order,
    .extend = daytona_extend,
    .address = daytona_address,
    .put = daytona_put_file,
    .run = daytona_run_program,
};

/* The first that says anything. */
static const char *first_of(const char *a, const char *b, const char *c)
{
    return a && *a ? a : b && *b ? b : c && *c ? c : NULL;
}

static void close_engine(void *engine)
{
    struct daytona *d = engine;

    if (!d)
        return;
    cloud_done(&d->cloud);
    if (d->bearer)
        explicit_bzero(d->bearer, strlen(d->bearer));
    free(d->bearer);
    free(d->organization);
    free(d->toolbox_url);
    free(d->api);
    free(d);
}

struct tn_web *daytona_web(const struct daytona *d, const char *url, struct tn_error *err)
{
    const struct tn_web_options options = {.base = url};
    struct tn_web *web = tn_web_new(&options, err);

    if (web && (tn_web_header(web, "Authorization", d->bearer, err) < 0 ||
                (d->organization &&
                 tn_web_header(web, "X-Daytona-Organization-ID", d->organization, err) < 0))) {
        tn_web_free(web);
        return NULL;
    }
    return web;
}

static int read_addresses(struct daytona *d, struct tn_error *err)
{
    const struct tn_config *c = d->cloud.host->config;
    const char *toolbox = first_of(c->daytona.toolbox_url, NULL, NULL);

    d->api = cloud_base("daytona.api_url",
                        first_of(c->daytona.api_url, c->core.daytona_api_url, USUAL_API), err);
    if (d->api && toolbox)
        d->toolbox_url = cloud_base("daytona.toolbox_url", toolbox, err);
    return d->api && (!toolbox || d->toolbox_url) ? 0 : -1;
}

/* Asks nobody: that the key is good is seen by the first call. */
static struct daytona *make_engine(const struct tn_host *host, struct tn_error *err)
{
    static const char *const words[] = {"message", "error", NULL};
    const struct tn_config *config = host->config;
    struct daytona *d = tn_calloc(1, sizeof *d);
    const char *key =
        first_of(config->daytona.api_key, config->daytona.jwt_token, config->core.daytona_api_key);

    cloud_init(&d->cloud, host, &vendor,
               config->daytona.disable_auto_stop ? NEVER
                                                 : 60.0 * (double)config->daytona.auto_stop);
    if (!key)
        tn_fail(err, TN_E_DENIED, "there is no key for Daytona: " ADVICE);
    else if (read_addresses(d, err) == 0) {
        d->bearer = tn_asprintf("Bearer %s", key);
        d->organization = tn_strdup_or_null(first_of(config->daytona.organization_id, NULL, NULL));
        d->cloud.line = (struct cloud_line){.web = daytona_web(d, d->api, err),
                                            .who = "Daytona",
                                            .url = d->api,
                                            .secrets = {key},
                                            .key_advice = ADVICE,
                                            .errors = words,
                                            .seconds = CALL_SECONDS};
        if (d->cloud.line.web)
            return d;
    }
    close_engine(d);
    return NULL;
}

static int open_engine(const struct tn_host *host, void **engine, struct tn_error *err)
{
    *engine = make_engine(host, err);
    return *engine ? 0 : tn_error_context(err, "daytona");
}

static int check_spec(const struct tn_host *host, const struct tn_spec *spec, struct tn_error *err)
{
    return cloud_check(&vendor, spec, err);
}

static char *url(void *engine, const struct tn_subject *s, int port, struct tn_error *err)
{
    const struct cloud *c = engine;
    int64_t deadline = tn_deadline_in(URL_SECONDS);
    autocloudview struct cloud_view view = {0};

    if (cloud_must_run(c, s, &view, deadline, err) < 0)
        return NULL;
    return daytona_port_url(c, view.id, port, deadline, err);
}

static int doctor(const struct tn_host *host, tn_symptom_fn fn, void *ctx, struct tn_error *err)
{
    struct tn_error why = {0};
    struct daytona *d = make_engine(host, &why);

    if (d)
        cloud_examine(&d->cloud, &(struct tn_web_call){.target = "/sandbox?limit=1"}, fn, ctx);
    else
        fn(&(struct tn_symptom){.what = "Daytona", .needed = true, .detail = why.text}, ctx);
    close_engine(d);
    return 0;
}

const struct tn_backend tn_backend_daytona = {
    .name = "daytona",
    .summary = "sandboxes of Daytona, or of whoever serves its API",
    .abilities = TN_CAN_STOP | TN_CAN_ISOLATE | TN_CAN_IMAGE | TN_CAN_NETWORK_NONE,
    .elsewhere = true,
    .open = open_engine,
    .close = close_engine,
    .check = check_spec,
    .create = cloud_create,
    .inspect = cloud_inspect,
    .drive = cloud_drive,
    .list = cloud_list,
    .put = cloud_put,
    .exec = cloud_exec,
    .url = url,
    .logs = cloud_logs,
    .attend = cloud_attend,
    .doctor = doctor,
};
