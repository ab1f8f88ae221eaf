/* The table of the modal backend. */
#include "base/clock.h"
#include "runtime/cloud/modal/modal.h"

#define URL_SECONDS 30.0
#define CALL_SECONDS 90.0
#define USUAL_API "https://api.modal.com"
#define CLIENT_TYPE "7" /* a client library that is not the vendor's own for Python */
#define ADVICE                                                                                    \
    "set MODAL_TOKEN_ID and MODAL_TOKEN_SECRET, or modal.token_id and modal.token_secret, to a "  \
    "token of https://modal.com/settings/tokens, or run: modal token new (or, for a Tendon that " \
    "serves this API, a key of: tendon key create NAME)"

static const char *const limits[] = {"memory", "cpus", "disk", "wall_time", NULL};
static const struct cloud_vendor vendor = {
    .name = "modal",
    .limits = limits,
    .make = modal_make,
    .look = modal_look,
    .each = modal_each,
    .order = modal_order,
    .address = modal_address,
    .put = modal_put,
    .run = modal_run,
};

static void close_engine(void *engine)
{
    struct modal *m = engine;

    if (!m)
        return;
    cloud_done(&m->cloud);
    modal_login_done(&m->login);
    pthread_mutex_destroy(&m->lock);
    free(m->api);
    free(m->tunnels);
    free(m->app);
    free(m);
}

/* Tunnels have names of their own with TLS; anybody who has none has one address for everything. */
static int read_addresses(struct modal *m, struct tn_error *err)
{
    const char *tunnels = m->cloud.host->config->modal.tunnel_url;

    m->api = cloud_base("modal.server_url", m->login.url ? m->login.url : USUAL_API, err);
    if (!m->api)
        return -1;
    bool clear = strncmp(m->api, "https:", 6) != 0;
    if (tunnels && *tunnels)
        m->tunnels = cloud_base("modal.tunnel_url", tunnels, err);
    else if (clear)
        m->tunnels = tn_strdup(m->api);
    return m->tunnels || !(tunnels && *tunnels) ? 0 : -1;
}

static int make_line(struct modal *m, struct tn_error *err)
{
    const struct {
        const char *name, *value;
    } headers[] = {
        {"x-modal-token-id", m->login.id},
        {"x-modal-token-secret", m->login.secret},
        {"x-modal-client-type", CLIENT_TYPE},
        {"x-modal-client-version", "1.0.0"},
    };

    m->cloud.line = (struct cloud_line){.web = modal_web(m->api, err),
                                        .who = "Modal",
                                        .url = m->api,
                                        .secrets = {m->login.id, m->login.secret},
                                        .key_advice = ADVICE,
                                        .seconds = CALL_SECONDS,
                                        .status = modal_status};
    for (size_t i = 0; m->cloud.line.web && i < TN_COUNT(headers); i++)
        if (tn_web_header(m->cloud.line.web, headers[i].name, headers[i].value, err) < 0)
            return -1;
    return m->cloud.line.web ? 0 : -1;
}

/* Asks nobody: that the token is good is seen by the first call. */
static struct modal *make_engine(const struct tn_host *host, struct tn_error *err)
{
    struct modal *m = tn_calloc(1, sizeof *m);

    pthread_mutex_init(&m->lock, NULL);
    m->old = !host->config->modal.v2;
    cloud_init(&m->cloud, host, &vendor, host->config->modal.timeout);
    if (modal_login(host->config, &m->login, err) == 0) {
        if (!m->login.id || !m->login.secret)
            tn_fail(err, TN_E_DENIED, "there is no key for Modal: " ADVICE);
        else if (read_addresses(m, err) == 0 && make_line(m, err) == 0)
            return m;
    }
    close_engine(m);
    return NULL;
}

static int open_engine(const struct tn_host *host, void **engine, struct tn_error *err)
{
    *engine = make_engine(host, err);
    return *engine ? 0 : tn_error_context(err, "modal");
}

static int check_spec(const struct tn_host *host, const struct tn_spec *spec, struct tn_error *err)
{
    if (spec->network == TN_NETWORK_NONE)
        return tn_fail(err, TN_E_UNSUPPORTED,
                       "network none: a sandbox of Modal without a network has no tunnel, either");
    if (spec->user)
        return tn_fail(err, TN_E_UNSUPPORTED,
                       "user: everything in a sandbox of Modal runs as the user of its image");
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
    if (goal != TN_GOAL_RUNNING && goal != TN_GOAL_GONE)
        return tn_fail(err, TN_E_UNSUPPORTED,
                       "%s: a sandbox of Modal runs until it ends, and nothing of it is kept then",
                       tn_goal_words[goal]);
    return cloud_drive(engine, s, goal, place, deadline, err);
}

static char *url(void *engine, const struct tn_subject *s, int port, struct tn_error *err)
{
    const struct cloud *c = engine;
    int64_t deadline = tn_deadline_in(URL_SECONDS);
    autocloudview struct cloud_view view = {0};

    if (cloud_must_run(c, s, &view, deadline, err) < 0)
        return NULL;
    return modal_port_url(c, view.id, port, deadline, err);
}

static int doctor(const struct tn_host *host, tn_symptom_fn fn, void *ctx, struct tn_error *err)
{
    struct tn_error why = {0};
    struct modal *m = make_engine(host, &why);

    if (m)
        cloud_examine(&m->cloud, &modal_harmless, fn, ctx);
    else
        fn(&(struct tn_symptom){.what = "Modal", .needed = true, .detail = why.text}, ctx);
    close_engine(m);
    return 0;
}

const struct tn_backend tn_backend_modal = {
    .name = "modal",
    .summary = "sandboxes of Modal, or of whoever serves its API",
    .abilities = TN_CAN_ISOLATE | TN_CAN_IMAGE,
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
    .doctor = doctor,
};
