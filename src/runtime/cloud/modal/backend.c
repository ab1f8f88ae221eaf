/* The table of the modal backend. */
#include "runtime/cloud/modal/modal.h"

#define USUAL_API "https://api.modal.com"
#define CLIENT_TYPE "7" /* a client library that is not the vendor's own for Python */
#define ADVICE                                                                                    \
    "set MODAL_TOKEN_ID and MODAL_TOKEN_SECRET, or modal.token_id and modal.token_secret, to a "  \
    "token of https://modal.com/settings/tokens, or run: modal token new (or, for a Tendon that " \
    "serves this API, a key of: tendon key create NAME)"

static void close_rest(struct cloud *c)
{
    struct modal *m = modal_of(c);

    modal_login_done(&m->login);
    pthread_mutex_destroy(&m->lock);
    free(m->tunnels);
    free(m->app);
}

/* Tunnels have names of their own with TLS; anybody who has none has one address for everything. */
static int read_addresses(struct modal *m, struct tn_error *err)
{
    struct cloud_line *line = &m->cloud.line;
    const char *tunnels = cloud_first(m->cloud.host->config->modal.tunnel_url, NULL, NULL);

    line->url = cloud_base("modal.server_url", m->login.url ? m->login.url : USUAL_API, err);
    if (!line->url)
        return -1;
    if (tunnels)
        m->tunnels = cloud_base("modal.tunnel_url", tunnels, err);
    else if (strncmp(line->url, "https:", 6) != 0)
        m->tunnels = tn_strdup(line->url);
    return m->tunnels || !tunnels ? 0 : -1;
}

static int make_line(struct modal *m, struct tn_error *err)
{
    struct cloud_line *line = &m->cloud.line;
    const struct {
        const char *name, *value;
    } headers[] = {
        {"x-modal-token-id", m->login.id},
        {"x-modal-token-secret", m->login.secret},
        {"x-modal-client-type", CLIENT_TYPE},
        {"x-modal-client-version", "1.0.0"},
    };

    line->secrets[0] = m->login.id;
    line->secrets[1] = m->login.secret;
    line->status = modal_status;
    line->web = modal_web(line->url, err);
    for (size_t i = 0; line->web && i < TN_COUNT(headers); i++)
        if (tn_web_header(line->web, headers[i].name, headers[i].value, err) < 0)
            return -1;
    return line->web ? 0 : -1;
}

static int open_rest(struct cloud *c, struct tn_error *err)
{
    struct modal *m = modal_of(c);

    pthread_mutex_init(&m->lock, NULL);
    m->old = !c->host->config->modal.v2;
    c->open_ports = true;
    c->timeout = c->host->config->modal.timeout;
    c->usual = c->host->config->modal.image;
    if (modal_login(c->host->config, &m->login, err) < 0)
        return -1;
    if (!m->login.id || !m->login.secret)
        return cloud_no_key(c, err);
    return read_addresses(m, err) < 0 ? -1 : make_line(m, err);
}

static int check_rest(const struct tn_spec *spec, struct tn_error *err)
{
    if (spec->network == TN_NETWORK_NONE)
        return tn_fail(err, TN_E_UNSUPPORTED,
                       "network none: a sandbox of Modal without a network has no tunnel, either");
    if (spec->user)
        return tn_fail(err, TN_E_UNSUPPORTED,
                       "user: everything in a sandbox of Modal runs as the user of its image");
    return 0;
}

#define ENDS "a sandbox of Modal runs until it ends, and nothing of it is kept then"
static const char *const cannot[TN_GOAL_GONE + 1] = {
    [TN_GOAL_PAUSED] = ENDS, [TN_GOAL_STOPPED] = ENDS};
static const char *const keeps[] = {"volumes", "allow",     "memory", "cpus",
                                    "disk",    "wall_time", NULL};
static const struct cloud_vendor vendor = {
    .name = "modal",
    .who = "Modal",
    .advice = ADVICE,
    .size = sizeof(struct modal),
    .open = open_rest,
    .close = close_rest,
    .harmless = &modal_harmless,
    .keeps = keeps,
    .fences = true,
    .disks = &modal_disks,
    .check = check_rest,
    .cannot = cannot,
    .make = modal_make,
    .look = modal_look,
    .each = modal_each,
    .order = modal_order,
    .address = modal_address,
    .port = modal_port,
    .put = modal_put,
    .run = modal_run,
    .take = modal_image_take,
    .drop = modal_image_drop,
};

CLOUD_DOORS
const struct tn_backend tn_backend_modal = {
    .name = "modal",
    .summary = "sandboxes of Modal, or of whoever serves its API",
    .abilities = TN_CAN_ISOLATE | TN_CAN_IMAGE,
    CLOUD_FUNCTIONS,
};
