/* The table of the runloop backend. */
#include "base/clock.h"
#include "runtime/cloud/runloop/runloop.h"

#define URL_SECONDS 30.0
#define CALL_SECONDS 90.0 /* a create may have to wait for its turn */
#define ADVICE                                                                                   \
    "set RUNLOOP_API_KEY, or runloop.api_key, to a key of https://platform.runloop.ai (or, for " \
    "a Tendon that serves this API, of: tendon key create NAME)"

static const struct cloud_vendor vendor = {
    .name = "runloop",
    .make = devbox_make,
    .look = devbox_look,
    .each = devbox_each,
    .order = devbox_order,
    .extend = devbox_extend,
    .address = devbox_address,
    .put = devbox_put,
    .run = devbox_run,
};

static const char *key_of(const struct tn_config *c)
{
    const char *key =
        c->runloop.api_key && *c->runloop.api_key ? c->runloop.api_key : c->core.runloop_api_key;

    return key && *key ? key : NULL;
}

static void close_engine(void *engine)
{
    struct runloop *r = engine;

    if (!r)
        return;
    cloud_done(&r->cloud);
    free(r->api);
    free(r->tunnels);
    free(r->tunnel_host);
    free(r);
}

/* The API of the platform is api.HOST, and its tunnels are below tunnel.HOST.  Anybody else has one
 * address for everything. */
static int read_addresses(struct runloop *r, struct tn_error *err)
{
    const struct tn_config_runloop *c = &r->cloud.host->config->runloop;
    const char *tunnels = c->tunnel_url && *c->tunnel_url ? c->tunnel_url : NULL;

    r->api = cloud_base("runloop.base_url", c->base_url, err);
    if (!r->api)
        return -1;
    const char *host = strstr(r->api, "://") + 3;
    bool platform = strncmp(host, "api.", 4) == 0;
    host += platform ? 4 : 0;
    r->tunnel_host =
        tn_asprintf("tunnel.%.*s", (int)strcspn(host, "/"), *host == '[' ? "localhost" : host);
    if (tunnels || !platform)
        r->tunnels = cloud_base("runloop.tunnel_url", tunnels ? tunnels : r->api, err);
    return r->tunnels || platform ? 0 : -1;
}

static int make_line(struct runloop *r, const char *key, struct tn_error *err)
{
    static const char *const words[] = {"message", "error", NULL};
    struct tn_web_options options = {.base = r->api};
    tn_autofree char *bearer = tn_asprintf("Bearer %s", key);

    r->cloud.line = (struct cloud_line){.web = tn_web_new(&options, err),
                                        .who = "Runloop",
                                        .url = r->api,
                                        .secrets = {key},
                                        .key_advice = ADVICE,
                                        .errors = words,
                                        .seconds = CALL_SECONDS};
    int failed =
        !r->cloud.line.web || tn_web_header(r->cloud.line.web, "Authorization", bearer, err) < 0;
    explicit_bzero(bearer, strlen(bearer));
    return failed ? -1 : 0;
}

/* Asks nobody: that the key is good is seen by the first call. */
static struct runloop *make_engine(const struct tn_host *host, struct tn_error *err)
{
    struct runloop *r = tn_calloc(1, sizeof *r);
    const char *key = key_of(host->config);

    r->public_ports = host->config->runloop.public_ports;
    cloud_init(&r->cloud, host, &vendor, host->config->runloop.timeout);
    if (!key)
        tn_fail(err, TN_E_DENIED, "there is no key for Runloop: " ADVICE);
    else if (read_addresses(r, err) == 0 && make_line(r, key, err) == 0)
        return r;
    close_engine(r);
    return NULL;
}

static int open_engine(const struct tn_host *host, void **engine, struct tn_error *err)
{
    *engine = make_engine(host, err);
    return *engine ? 0 : tn_error_context(err, "runloop");
}

static int check_spec(const struct tn_host *host, const struct tn_spec *spec, struct tn_error *err)
{
    if (spec->network == TN_NETWORK_NONE)
        return tn_fail(err, TN_E_UNSUPPORTED,
                       "network none: on Runloop that is a network policy of a blueprint");
    return cloud_check(&vendor, spec, err);
}

static int create(void *engine, const struct tn_subject *s, struct tn_place *place,
                  int64_t deadline, struct tn_error *err)
{
    return check_spec(NULL, s->spec, err) < 0 ? -1 : cloud_create(engine, s, place, deadline, err);
}

static int drive(void *engine, const struct tn_subject *s, enum tn_goal goal,
                 struct tn_place *place, int64_t deadline, struct tn_error *err)
{
    *place = (struct tn_place){0};
    if (goal == TN_GOAL_PAUSED)
        return tn_fail(err, TN_E_UNSUPPORTED,
                       "pause: Runloop keeps the disk of a devbox alone: stop it instead");
    return cloud_drive(engine, s, goal, place, deadline, err);
}

static char *url(void *engine, const struct tn_subject *s, int port, struct tn_error *err)
{
    const struct runloop *r = engine;
    int64_t deadline = tn_deadline_in(URL_SECONDS);
    autocloudview struct cloud_view view = {0};

    if (!r->public_ports) {
        tn_fail(err, TN_E_UNSUPPORTED,
                "ports of this sandbox want a token, which browsers do not send: set "
                "runloop.public_ports before it is made, or use: tendon port");
        return NULL;
    }
    if (cloud_must_run(&r->cloud, s, &view, deadline, err) < 0)
        return NULL;
    return devbox_port_url(&r->cloud, &view, port, deadline, err);
}

static int usage(void *engine, const struct tn_subject *s, struct tn_usage *out,
                 struct tn_error *err)
{
    *out = TN_USAGE_UNKNOWN;
    return tn_fail(err, TN_E_UNSUPPORTED,
                   "Runloop tells what a devbox has cost, not what it uses at the moment");
}

static int doctor(const struct tn_host *host, tn_symptom_fn fn, void *ctx, struct tn_error *err)
{
    struct tn_error why = {0};
    struct runloop *r = make_engine(host, &why);

    if (r)
        cloud_examine(&r->cloud, &(struct tn_web_call){.target = "/v1/devboxes?limit=1"}, fn, ctx);
    else
        fn(&(struct tn_symptom){.what = "Runloop", .needed = true, .detail = why.text}, ctx);
    close_engine(r);
    return 0;
}

const struct tn_backend tn_backend_runloop = {
    .name = "runloop",
    .summary = "devboxes of Runloop, or of whoever serves its API",
    .abilities = TN_CAN_STOP | TN_CAN_ISOLATE | TN_CAN_IMAGE,
    .elsewhere = true,
    .open = open_engine,
    .close = close_engine,
    .check = check_spec,
    .create = create,
    .inspect = cloud_inspect,
    .drive = drive,
    .list = cloud_list,
    .put = cloud_put,
    .exec = cloud_exec,
    .url = url,
    .logs = cloud_logs,
    .attend = cloud_attend,
    .usage = usage,
    .doctor = doctor,
};
