/* Published ports: where they are, and how this machine reaches them. */
#include "runtime/docker/docker.h"

static bool is_any(const char *address)
{
    return !*address || strcmp(address, "0.0.0.0") == 0 || strcmp(address, "::") == 0;
}

const char *docker_reach(const struct docker *d, const char *bound)
{
    const struct tn_engine_info *info = tn_engine_info(d->engine);

    if (d->reach)
        return d->reach;
    if (!info->local)
        return info->host;
    return is_any(bound) ? "127.0.0.1" : bound;
}

int docker_published(const struct docker *d, const struct tn_json *tree, int inside, char **host)
{
    char key[16];

    snprintf(key, sizeof key, "%d/tcp", inside);
    const struct tn_json *bindings =
        tn_json_get(tn_json_get(tn_json_get(tree, "NetworkSettings"), "Ports"), key);
    const struct tn_json *first = tn_json_at(bindings, 0);
    long port = strtol(tn_json_get_str(first, "HostPort", ""), NULL, 10);

    if (port <= 0 || port > 65535)
        return -1;
    if (host)
        *host = tn_strdup(docker_reach(d, tn_json_get_str(first, "HostIp", "")));
    return (int)port;
}

static int first_ip(const char *name, struct tn_json *network, void *ctx)
{
    const char **ip = ctx;

    *ip = tn_json_get_str(network, "IPAddress", "");
    return **ip != '\0';
}

const char *docker_container_ip(const struct tn_json *tree)
{
    const char *ip = "";

    tn_json_each(tn_json_get(tn_json_get(tree, "NetworkSettings"), "Networks"), first_ip, &ip);
    return ip;
}

bool docker_has_host_network(const struct tn_json *tree)
{
    return strcmp(tn_json_get_str(tn_json_get(tree, "HostConfig"), "NetworkMode", ""), "host") == 0;
}
