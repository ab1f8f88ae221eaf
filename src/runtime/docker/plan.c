/* What a spec means for this engine, before anything is asked of it. */
#include <arpa/inet.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "runtime/docker/docker.h"
#include "runtime/gated.h"

#define PORT_LOOKS 256u

static const char *choose_image(const struct docker *d, const struct tn_subject *s)
{
    const struct tn_config *c = docker_config(d);
    const char *const given[] = {s->spec->image, c->docker.image,
                                 c->sandbox.runtime_container_image,
                                 c->sandbox.base_container_image};

    for (size_t i = 0; i < TN_COUNT(given); i++)
        if (given[i] && *given[i])
            return given[i];
    return NULL;
}

/* --- limits --------------------------------------------------------------------------------- */

/* The spec's own, else the configured ones.  A limit that docker_runtime_kwargs sets is theirs,
 * unless the spec names it. */
static int take_limits(struct docker_plan *p, struct tn_error *err)
{
    const struct tn_spec *spec = p->subject->spec;
    const struct tn_config_docker *c = &docker_config(p->docker)->docker;

    if (tn_spec_limits(spec, &p->limits, err) < 0)
        return -1;
    if (p->limits.wall_time > 0)
        return tn_fail(err, TN_E_UNSUPPORTED, "wall_time: container engines do not limit it");
    if (!spec->memory && !docker_kwargs_sets(p->kwargs, "Memory") && c->memory && *c->memory &&
        tn_size_parse(c->memory, &p->limits.memory, err) < 0)
        return tn_error_context(err, "docker.memory");
    if (!spec->cpus.set && !docker_kwargs_sets(p->kwargs, "NanoCpus") &&
        !docker_kwargs_sets(p->kwargs, "CpuQuota"))
        p->limits.cpus = c->cpus;
    if (!spec->pids.set && !docker_kwargs_sets(p->kwargs, "PidsLimit"))
        p->limits.pids = c->pids > 0 ? (uint64_t)c->pids : 0;
    return 0;
}

/* --- network and ports ---------------------------------------------------------------------- */

void docker_plan_network(struct docker_plan *p, int network)
{
    p->network = network;
    p->gated = tn_gated(network);
    p->host_network = network == TN_NETWORK_HOST;
    p->no_network = p->gated || network == TN_NETWORK_NONE;
    p->ends_tls = docker_ends_tls(p->docker, network, p->subject->spec);
}

static bool has_plugin(const struct tn_spec *spec, const char *name)
{
    for (size_t i = 0; i < spec->plugins.count; i++)
        if (strcmp(spec->plugins.items[i], name) == 0)
            return true;
    return false;
}

static int add_port(struct docker_plan *p, int64_t inside, int outside, struct tn_error *err)
{
    for (size_t i = 0; i < p->port_count; i++)
        if (p->ports[i].inside == inside)
            return 0;
    if (p->port_count == DOCKER_PORTS_MAX)
        return tn_fail(err, TN_E_INVALID, "ports: more than %d", DOCKER_PORTS_MAX);
    p->ports[p->port_count++] =
        (struct docker_port){.inside = (int)inside, .outside = outside, .fixed = outside != 0};
    return 0;
}

/* In the network of the host a port is taken where it is; nothing is published. */
static int take_ports(struct docker_plan *p, struct tn_error *err)
{
    const struct tn_spec *spec = p->subject->spec;
    const struct tn_opt_int *vscode = &docker_config(p->docker)->sandbox.vscode_port;

    p->port_count = 0;
    if (p->host_network)
        return 0;
    if (p->no_network && !p->gated && spec->ports.count)
        return tn_fail(err, TN_E_INVALID,
                       "ports: a sandbox without network cannot publish any (its ports are still "
                       "reached through the hand)");
    if (p->no_network)
        return 0;
    for (size_t i = 0; i < spec->ports.count; i++)
        if (add_port(p, spec->ports.items[i], 0, err) < 0)
            return -1;
    if (has_plugin(spec, "vscode") &&
        add_port(p, p->own[DOCKER_PORT_VSCODE], vscode->set ? (int)vscode->value : 0, err) < 0)
        return -1;
    return p->hand_port ? add_port(p, p->hand_port, 0, err) : 0;
}

/* "30000-39999"; 0 when there is none, -1 when it makes no sense. */
static int read_range(const struct docker_plan *p, unsigned *first, unsigned *last,
                      struct tn_error *err)
{
    const char *text = docker_config(p->docker)->docker.port_range;
    int end = 0;

    if (!text || !*text)
        return 0;
    if (sscanf(text, "%5u-%5u%n", first, last, &end) != 2 || text[end] || *first < 1 ||
        *first > *last || *last > 65535)
        return tn_fail(err, TN_E_INVALID, "docker.port_range: expected FIRST-LAST, found '%s'",
                       text);
    return 1;
}

bool docker_plan_next_ports(struct docker_plan *p, int attempt)
{
    unsigned first, last, start = 0;
    bool changed = false;

    if (read_range(p, &first, &last, NULL) <= 0)
        return false;
    if (attempt == 0 && getrandom(&start, sizeof start, 0) == sizeof start)
        p->range_start = start;
    for (size_t i = 0; i < p->port_count; i++) {
        unsigned step = (unsigned)attempt * (unsigned)p->port_count + (unsigned)i;
        if (p->ports[i].fixed)
            continue;
        p->ports[i].outside = (int)(first + (p->range_start + step) % (last - first + 1));
        changed = true;
    }
    return changed && (unsigned)attempt * (unsigned)p->port_count <= last - first;
}

/* --- the sandbox's own ports ---------------------------------------------------------------- */

struct range {
    unsigned first, last;
};

static const struct range ranges[DOCKER_PORT_COUNT] = {
    [DOCKER_PORT_HAND] = {30000, 39999},
    [DOCKER_PORT_VSCODE] = {40000, 49999},
    [DOCKER_PORT_APP_1] = {50000, 54999},
    [DOCKER_PORT_APP_2] = {55000, 59999},
};

/* What the user has said it is, or 0. */
static int said_port(const struct docker_plan *p, enum docker_own_port which)
{
    const struct tn_spec *spec = p->subject->spec;
    const struct tn_opt_int *vscode = &docker_config(p->docker)->sandbox.vscode_port;
    size_t app = which == DOCKER_PORT_APP_2;

    if (which == DOCKER_PORT_VSCODE)
        return vscode->set ? (int)vscode->value : 0;
    return which != DOCKER_PORT_HAND && app < spec->ports.count ? (int)spec->ports.items[app] : 0;
}

/* Whether nobody on this machine listens there; elsewhere, and before there is an engine, it cannot
 * be known. */
static bool is_free(const struct docker_plan *p, unsigned port)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    tn_autofd int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int on = 1;

    if (!p->docker->engine || !tn_engine_info(p->docker->engine)->local || fd < 0)
        return true;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    return bind(fd, (struct sockaddr *)&any, sizeof any) == 0;
}

static bool is_others(const struct docker_plan *p, unsigned port)
{
    return p->taken[port / 8] & 1 << port % 8;
}

static bool is_taken(const struct docker_plan *p, unsigned port)
{
    if (is_others(p, port))
        return true;
    for (size_t i = 0; i < DOCKER_PORT_COUNT; i++)
        if ((unsigned)p->own[i] == port)
            return true;
    return false;
}

/* In the host's network all sandboxes share one set of ports and nobody gives them out: the first
 * free one from a random place on. */
static int random_port(struct docker_plan *p, struct range r, int *out, struct tn_error *err)
{
    unsigned start;

    if (read_range(p, &r.first, &r.last, err) < 0)
        return -1;
    if (getrandom(&start, sizeof start, 0) != sizeof start)
        return tn_fail_errno(err, errno, "no random bytes for a port");
    unsigned count = r.last - r.first + 1;
    for (unsigned i = 0; i < count && i < PORT_LOOKS; i++) {
        unsigned port = r.first + (start % count + i) % count;
        if (!is_taken(p, port) && is_free(p, port)) {
            *out = (int)port;
            return 0;
        }
    }
    return tn_fail(err, TN_E_CONFLICT, "no port from %u to %u is free", r.first, r.last);
}

static int take_own_ports(struct docker_plan *p, struct tn_error *err)
{
    for (size_t i = 0; i < DOCKER_PORT_COUNT; i++)
        p->own[i] = said_port(p, (enum docker_own_port)i);
    for (size_t i = 0; i < DOCKER_PORT_COUNT; i++) {
        if (p->own[i])
            continue;
        if (!p->host_network)
            p->own[i] = (int)ranges[i].first;
        else if (random_port(p, ranges[i], &p->own[i], err) < 0)
            return -1;
    }
    return 0;
}

bool docker_plan_clashes(const struct docker_plan *p)
{
    for (size_t i = 0; i < DOCKER_PORT_COUNT; i++)
        if (!said_port(p, (enum docker_own_port)i) && is_others(p, (unsigned)p->own[i]))
            return true;
    return false;
}

int docker_plan_way(struct docker_plan *p, enum docker_way way, struct tn_error *err)
{
    p->way = way;
    bool by_socket = docker_config(p->docker)->docker.runsc_gate;
    if (p->gvisor && ((p->no_network && !by_socket) || p->host_network))
        return tn_fail(err, TN_E_UNSUPPORTED,
                       "isolation gvisor: a container's hand is reached over a network of its own, "
                       "so it cannot have network %s%s; a jail can",
                       p->no_network ? "none" : "host",
                       p->no_network ? " without docker.runsc_gate" : "");
    if (way == DOCKER_BY_PORT && p->no_network)
        return tn_fail(err, TN_E_UNSUPPORTED,
                       "network %s: without a network of the engine's the hand is reached through "
                       "a socket, which needs an engine on this machine that runs as this user",
                       tn_networks[p->network]);
    if (take_own_ports(p, err) < 0)
        return -1;
    p->hand_port = way == DOCKER_BY_PORT ? p->own[DOCKER_PORT_HAND] : 0;
    return take_ports(p, err);
}

/* --- all of it ------------------------------------------------------------------------------ */

static int refuse_label(const char *name, struct tn_json *value, void *err)
{
    if (strncmp(name, DOCKER_LABEL_PREFIX, strlen(DOCKER_LABEL_PREFIX)) != 0)
        return 0;
    return tn_fail(err, TN_E_INVALID, "labels: %s: names that begin with tendon. are ours", name);
}

int docker_plan_init(struct docker_plan *p, const struct docker *d, const struct tn_subject *s,
                     struct tn_error *err)
{
    const char *image = choose_image(d, s);
    unsigned first, last;
    bool said;

    *p = (struct docker_plan){
        .docker = d, .subject = s, .kwargs = docker_config(d)->sandbox.docker_runtime_kwargs};
    if (docker_kwargs_check(p->kwargs, err) < 0 || take_limits(p, err) < 0 ||
        read_range(p, &first, &last, err) < 0 ||
        tn_json_each(s->spec->labels, refuse_label, err) < 0)
        return -1;
    if (!image)
        return tn_fail(err, TN_E_INVALID,
                       "no image: give one, or set docker.image or sandbox.base_container_image");
    p->image = tn_strdup(image);
    p->name = docker_name(s);
    docker_plan_network(p, docker_choose_network(d, s->spec, &said));
    p->gate_optional = !said && !p->ends_tls;
    p->gvisor = tn_config_wants_gvisor(docker_config(d), s->spec);
    return docker_check_network(d, p->network, s->spec, err);
}

int docker_check(const struct tn_host *host, const struct tn_spec *spec, struct tn_error *err)
{
    const struct docker d = {.host = host, .root_is_us = docker_expects_root(host)};
    const struct tn_subject s = {.id = "", .spec = spec};
    struct docker_plan p;
    int r = docker_plan_init(&p, &d, &s, err);

    if (r == 0 && !tn_spec_may_be_image(p.image))
        r = tn_fail(err, TN_E_INVALID, "image: '%.120s' is no name of an image", p.image);
    if (r == 0)
        r = docker_plan_way(&p, DOCKER_BY_SOCKET, err);
    if (r == 0)
        r = docker_check_offer(host, spec, err);
    docker_plan_done(&p);
    return r;
}

void docker_plan_done(struct docker_plan *p)
{
    free(p->name);
    free(p->image);
}
