/* The table of the backend. */
#include <stdatomic.h>

#include "base/log.h"
#include "runtime/kubernetes/pods.h"

/* Said once by every program that works with such a cluster; the doctor has its own words. */
static int open_loudly(const struct tn_host *host, void **engine, struct tn_error *err)
{
    static atomic_bool said;

    if (pods_open(host, engine, err) < 0)
        return -1;
    const struct kube *kube = ((const struct pods *)*engine)->kube;
    if (kube_is_insecure(kube) && !atomic_exchange(&said, true))
        tn_log(TN_LOG_WARN,
               "INSECURE: whoever answers is believed to be the cluster, and is sent credentials",
               tn_log_str("reason", "insecure-skip-tls-verify"),
               tn_log_str("cluster", kube_server(kube)));
    return 0;
}

static int check(const struct tn_host *host, const struct tn_spec *spec, struct tn_error *err)
{
    return pod_check(host->config, spec, err);
}

static int network(const struct tn_host *host, const struct tn_spec *spec, const char *ref,
                   const struct tn_str_list **allow)
{
    return pod_network_of(host->config, spec, allow);
}

static const char *const aliases[] = {"k8s", NULL};

const struct tn_backend tn_backend_kubernetes = {
    .name = "kubernetes",
    .aliases = aliases,
    .summary = "pods of a Kubernetes cluster, of any image, unbuilt",
    .abilities = TN_CAN_STOP | TN_CAN_SNAPSHOT | TN_CAN_ISOLATE | TN_CAN_IMAGE |
                 TN_CAN_NETWORK_NONE | TN_CAN_GVISOR | TN_CAN_KATA | TN_CAN_SECRETS,
    .diskless = true,
    .open = open_loudly,
    .close = pods_close,
    .check = check,
    .create = pods_create,
    .inspect = pods_inspect,
    .drive = pods_drive,
    .list = pods_list,
    .claim = pods_claim,
    .put = pods_put,
    .exec = pods_exec,
    .url = pods_url,
    .look_url = pods_look_url,
    .logs = pods_logs,
    .network = network,
    .refusals = pods_refusals,
    .reload = pods_reload,
    .listen = pods_listen,
    .let = pods_let,
    .usage = pods_usage,
    .snapshot = pods_snapshot,
    .forget = pods_forget,
    .rollback = pods_rollback,
    .fork = pods_fork,
    .doctor = pods_doctor,
};
