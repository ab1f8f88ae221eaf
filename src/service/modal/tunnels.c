/* Tunnels: the ports of a sandbox, and what comes by them. */
#include "base/secret.h"
#include "service/modal/modal.h"
#include "service/preview-host.h"
#include "service/proxy.h"
#include "service/tcp-ports.h"

static void tunnel_key(const struct tn_service *s, const char *id, char out[SURFACE_TUNNEL])
{
    snprintf(out, SURFACE_TUNNEL, "%s", id);
    surface_token(s, "modal-tunnel", id, out + strlen(id));
}

/* By which the client has reached this service: its ports are there, too.  The caller's. */
static char *host_of(const char *url)
{
    const char *at = strstr(url, "://");

    at = at ? at + 3 : url;
    return *at == '[' ? tn_strndup(at + 1, strcspn(at + 1, "]"))
                      : tn_strndup(at, strcspn(at, ":/"));
}

/* Those that the client wants without TLS are bytes both ways. */
int modal_open_ports(struct modal_call *c, struct box *b, const Modal__Sandbox *d,
                     struct tn_error *err)
{
    for (size_t i = 0; d->open_ports && i < d->open_ports->n_ports; i++)
        if (d->open_ports->ports[i]->unencrypted &&
            tcp_ports_open(c->s->tcp, b, (int)d->open_ports->ports[i]->port, err) < 0)
            return -1;
    return 0;
}

/* Clients make "https://HOST:PORT" of it themselves. */
static int sandbox_tunnels(struct modal_call *c, const void *request, struct tn_error *err)
{
    const Modal__Who *in = request;
    Modal__SandboxGetTunnelsResponse out = MODAL__SANDBOX_GET_TUNNELS_RESPONSE__INIT;
    Modal__TunnelData rows[MODAL_PORTS_MAX], *all[MODAL_PORTS_MAX];
    Modal__Result result = MODAL__RESULT__INIT;
    char *hosts[MODAL_PORTS_MAX], key[SURFACE_TUNNEL];
    autoview struct box_view v = {0};
    autobox struct box *b = modal_running(c, in->id, err);

    if (!b)
        return -1;
    box_look(b, &v);
    const struct tn_json *ports = tn_json_get(modal_record(&v), "ports");
    tn_autofree char *base = base_url(c->x);
    tn_autofree char *address = host_of(base);
    bool failed = false;
    tunnel_key(c->s, v.id, key);
    for (size_t i = 0; i < tn_json_count(ports) && i < MODAL_PORTS_MAX; i++) {
        const struct tn_json *one = tn_json_at(ports, i);
        int64_t port = tn_json_int(tn_json_get(one, "port"), 0);
        char *url = preview_origin(base, c->s->options->preview_domain, key, (int)port);
        char *host = strstr(url, "://"), *colon;
        host = tn_strdup(host ? host + 3 : url);
        colon = strrchr(host, ':');
        Modal__TunnelData *row = all[i] = &rows[i];
        modal__tunnel_data__init(row);
        row->has_port = row->has_container_port = true;
        row->port = colon                            ? (uint32_t)strtoul(colon + 1, NULL, 10)
                    : strncmp(url, "https:", 6) == 0 ? 443
                                                     : 80;
        row->container_port = (uint32_t)port;
        if (colon)
            *colon = '\0';
        row->host = hosts[i] = host;
        free(url);
        out.n_tunnels++;
        int plain = 0;
        if (tn_json_bool(tn_json_get(one, "plain"), false) &&
            (plain = tcp_ports_open(c->s->tcp, b, (int)port, err)) < 0) {
            failed = true;
            break;
        }
        row->unencrypted_host = plain ? address : NULL;
        row->has_unencrypted_port = plain;
        row->unencrypted_port = (uint32_t)plain;
    }
    out.tunnels = all;
    result.has_status = true;
    result.status = MODAL_SUCCESS;
    out.result = &result;
    int sent = failed ? -1 : modal_send(c, &out, err);
    for (size_t i = 0; i < out.n_tunnels; i++)
        free(hosts[i]);
    return sent;
}

/* Whether that port of the sandbox was opened. */
static bool is_open(const struct box_view *v, int port)
{
    const struct tn_json *ports = tn_json_get(modal_record(v), "ports");

    for (size_t i = 0; i < tn_json_count(ports); i++)
        if (tn_json_int(tn_json_get(tn_json_at(ports, i), "port"), 0) == port)
            return true;
    return false;
}

bool modal_take_tunnel(struct tn_service *s, struct tn_http_exchange *x)
{
    char key[SURFACE_TUNNEL], wanted[SURFACE_TUNNEL];
    Modal__Result end = MODAL__RESULT__INIT;
    autoview struct box_view v = {0};
    int port;

    if (!surface_tunnel_host(x, &port, key))
        return false;
    autobox struct box *b = surface_tunnel_box(s, key);
    if (!b)
        return false;
    box_look(b, &v);
    tunnel_key(s, v.id, wanted);
    if (!modal_is_sandbox(&v) || !is_open(&v, port) || *tn_http_target(x) != '/' ||
        !tn_same_secret(key, wanted))
        return false; /* of somebody else, who says so */
    if (modal_result(&v, &end) && end.status == MODAL_TIMEOUT)
        return false; /* whoever comes late does not wake it */
    if (surface_enter(x, b, v.key_id))
        proxy_to_port(x, b, port, tn_http_target(x), NULL);
    return true;
}

const struct modal_method modal_tunnels[] = {
    {"SandboxGetTunnels", MODAL_MESSAGE(who), sandbox_tunnels, SCOPE_USE},
    {0},
};
