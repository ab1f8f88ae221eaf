/* The network of a jail, and its gate, which the keeper keeps. */
#include "jail/isolation.h"
#include "runtime/gated.h"
#include "runtime/jail/jail.h"

int jail_network(const struct tn_host *host, const struct tn_spec *spec, const char *ref,
                 const struct tn_str_list **allow)
{
    int network = tn_config_jail_network(host->config, spec->network);

    *allow = tn_gated_rules(network, spec, &host->config->jail.allow);
    return network;
}

void jail_ref_set_reach(const struct tn_subject *subject, struct jail_ref *ref)
{
    int network = subject->spec->network;

    if (jail_ref_is_gated(ref) && tn_gated(network))
        ref->reach = network == TN_NETWORK_ALLOW ? TN_JAIL_REACH_ALLOW : TN_JAIL_REACH_OPEN;
}

int jail_reload(void *engine, const struct tn_subject *subject, int64_t deadline,
                struct tn_error *err)
{
    const struct jail_engine *e = engine;
    const struct tn_str_list *allow;
    int network = jail_network(e->host, subject->spec, subject->ref, &allow);

    return tn_gated_reload(subject->directory, network, allow, deadline, err);
}
