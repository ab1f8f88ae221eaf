/* The table of the e2b backend. */
#include "base/clock.h"
#include "runtime/cloud/e2b/e2b.h"

#define URL_SECONDS 30.0
#define CALL_SECONDS 90.0 /* a create may have to wait for its turn */
#define DEBUG_API "http://localhost:3000"
#define ADVICE                                                                                    \
    "set E2B_API_KEY, or e2b.api_key, to a key of https://e2b.dev/dashboard?tab=keys (or, for a " \
    "Tendon that serves this API, of: tendon key create NAME --e2b)"

static const struct cloud_vendor vendor = {
    .name = "e2b",
    .make = e2b_make,
    .look = e2b_look,
    .each = e2b_each,
    .order = e2b_order,
    .extend = e2b_extend,
    .address = e2b_address,
    .put = e2b_put,
    .run = e2b_run,
    .usage = e2b_usage,
};

static const char *key_of(const struct tn_config *c)
{
    const char *key = c->e2b.api_key && *c->e2b.api_key ? c->e2b.api_key : c->core.e2b_api_key;

    return key && *key ? key : NULL;
}

static void close_engine(void *engine)
{
    struct e2b *e = engine;

    if (!e)
        return;
    cloud_done(&e->cloud);
    tn_web_free(e->agents);
    free(e->api);
    free(e->sandbox_url);
    free(e->domain);
    free(e);
}

static struct tn_web *web_at(const char *url, struct tn_error *err)
{
    struct tn_web_options options = {.base = url};

    return tn_web_new(&options, err);
}

/* The addresses that the configuration names, each of them one. */
static int read_addresses(struct e2b *e, struct tn_error *err)
{
    const struct tn_config_e2b *c = &e->cloud.host->config->e2b;
    tn_autofree char *usual = tn_asprintf("https://api.%s", c->domain);

    if (!cloud_is_host(c->domain))
        return tn_fail(err, TN_E_INVALID, "e2b.domain: expected the name of a host");
    e->domain = tn_strdup(c->domain);
    e->api = cloud_base("e2b.api_url",
                        c->api_url && *c->api_url ? c->api_url
                        : c->debug                ? DEBUG_API
                                                  : usual,
                        err);
    if (e->api && c->sandbox_url && *c->sandbox_url) {
        e->sandbox_url = cloud_base("e2b.sandbox_url", c->sandbox_url, err);
        e->agents = e->sandbox_url ? web_at(e->sandbox_url, err) : NULL;
        return e->agents ? 0 : -1;
    }
    return e->api ? 0 : -1;
}

/* Asks nobody: that the key is good is seen by the first call. */
static struct e2b *make_engine(const struct tn_host *host, struct tn_error *err)
{
    static const char *const words[] = {"message", NULL};
    const struct tn_config *config = host->config;
    struct e2b *e = tn_calloc(1, sizeof *e);
    const char *key = key_of(config);

    e->debug = config->e2b.debug;
    e->public_ports = config->e2b.public_ports || e->debug;
    e->cloud.unmarked = e->debug;
    cloud_init(&e->cloud, host, &vendor, config->e2b.timeout);
    if (!key && !e->debug)
        tn_fail(err, TN_E_DENIED, "there is no key for E2B: " ADVICE);
    else if (read_addresses(e, err) == 0) {
        e->cloud.line = (struct cloud_line){.web = web_at(e->api, err),
                                            .who = "E2B",
                                            .url = e->api,
                                            .secrets = {key},
                                            .key_advice = ADVICE,
                                            .errors = words,
                                            .seconds = CALL_SECONDS};
        if (e->cloud.line.web &&
            (!key || tn_web_header(e->cloud.line.web, "X-API-Key", key, err) == 0))
            return e;
    }
    close_engine(e);
    return NULL;
}

static int open_engine(const struct tn_host *host, void **engine, struct tn_error *err)
{
    *engine = make_engine(host, err);
    return *engine ? 0 : tn_error_context(err, "e2b");
}

static int check_spec(const struct tn_host *host, const struct tn_spec *spec, struct tn_error *err)
{
    return cloud_check(&vendor, spec, err);
}

static char *url(void *engine, const struct tn_subject *s, int port, struct tn_error *err)
{
    const struct e2b *e = engine;
    autocloudview struct cloud_view view = {0};

    if (!e->public_ports) {
        tn_fail(err, TN_E_UNSUPPORTED,
                "ports of this sandbox want a token, which browsers do not send: set "
                "e2b.public_ports before it is made, or use: tendon port");
        return NULL;
    }
    if (cloud_must_run(&e->cloud, s, &view, tn_deadline_in(URL_SECONDS), err) < 0)
        return NULL;
    return e2b_port_url(e, &view, port);
}

static int doctor(const struct tn_host *host, tn_symptom_fn fn, void *ctx, struct tn_error *err)
{
    struct tn_error why = {0};
    struct e2b *e = make_engine(host, &why);

    if (!e)
        fn(&(struct tn_symptom){.what = "E2B", .needed = true, .detail = why.text}, ctx);
    else if (e->debug)
        fn(&(struct tn_symptom){.what = "E2B", .good = true, .detail = "E2B_DEBUG: no platform"},
           ctx);
    else
        cloud_examine(&e->cloud, &(struct tn_web_call){.target = "/v2/sandboxes?limit=1"}, fn, ctx);
    close_engine(e);
    return 0;
}

const struct tn_backend tn_backend_e2b = {
    .name = "e2b",
    .summary = "sandboxes of E2B, or of whoever serves its API",
    .abilities = TN_CAN_PAUSE | TN_CAN_STOP | TN_CAN_ISOLATE | TN_CAN_IMAGE | TN_CAN_NETWORK_NONE,
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
    .usage = cloud_usage,
    .doctor = doctor,
};
