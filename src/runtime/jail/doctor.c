#include <fcntl.h>

#include "base/fs.h"
#include "jail/erofs.h"
#include "jail/isolation.h"
#include "runtime/gated.h"
#include "runtime/jail/jail.h"
#include "runtime/jail/suspend.h"
#include "runtime/programs.h"

#define PROBE_SECONDS 10.0
#define PROBE_MAX (256u << 10)

static int run_probe(const char *program, struct tn_buf *out, struct tn_error *err)
{
    const char *const argv[] = {JAIL_PROGRAM, "--probe", NULL};
    int64_t deadline = tn_deadline_in(PROBE_SECONDS);

    return tn_program_ask(program, argv, out, deadline, err) < 0 ? -1 : 0;
}

static void tell_suspend(const struct tn_host *host, tn_symptom_fn fn, void *ctx)
{
    tn_autofree char *criu = NULL;
    struct jail_engine e = {.host = host};

    if (tn_cgroups_find(&e.cgroups, NULL) < 0)
        return;
    tn_autofree char *obstacle = jail_suspend_obstacle(&e, &criu, tn_deadline_in(PROBE_SECONDS));
    fn(&(struct tn_symptom){.what = "suspend to disk",
                            .good = !obstacle,
                            .detail = obstacle ? obstacle : criu},
       ctx);
    tn_cgroups_done(&e.cgroups);
}

/* Where there is no state directory yet nobody can tell. */
static void tell_images(const struct tn_host *host, tn_symptom_fn fn, void *ctx)
{
    tn_autofd int state = open(host->state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool good = state >= 0 && tn_erofs_works(state);

    if (state >= 0)
        fn(&(struct tn_symptom){.what = "layers as images",
                                .good = good,
                                .detail = good ? "EROFS in one file"
                                               : "snapshots and forks copy file by file; images "
                                                 "need root, Linux 6.12 with EROFS, and a state "
                                                 "directory on a disk"},
           ctx);
}

/* What a sandbox gets that says nothing. */
static void tell_network(const struct tn_host *host, bool gate, tn_symptom_fn fn, void *ctx)
{
    static const enum tn_jail_reach reaches[] = {
        [TN_NETWORK_NONE] = TN_JAIL_REACH_NONE,
        [TN_NETWORK_HOST] = TN_JAIL_REACH_HOST,
        [TN_NETWORK_OPEN] = TN_JAIL_REACH_OPEN,
        [TN_NETWORK_ALLOW] = TN_JAIL_REACH_ALLOW,
    };
    const struct tn_config *c = host->config;
    int network = tn_config_jail_network(c, TN_NETWORK_DEFAULT);
    bool gated = network == TN_NETWORK_OPEN || network == TN_NETWORK_ALLOW;
    bool good = network != TN_NETWORK_BRIDGE && (gate || !gated);
    enum tn_jail_reach reach = good ? reaches[network] : TN_JAIL_REACH_NO_GATE;
    tn_autofree char *detail =
        good || !tn_config_network_is_said(c, TN_NETWORK_DEFAULT)
            ? tn_asprintf("reaches %s", tn_jail_reach_sentence(reach))
            : tn_asprintf("jail.network is %s, which no jail can have here", tn_networks[network]);

    fn(&(struct tn_symptom){.what = "network of a sandbox", .good = good, .detail = detail}, ctx);
}

int jail_doctor(const struct tn_host *host, tn_symptom_fn fn, void *ctx, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(PROBE_MAX);
    tn_autojson struct tn_json *json = NULL;
    tn_autofree char *program = tn_gated_program(host, JAIL_PROGRAM, err);

    if (!program || run_probe(program, &text, err) < 0 ||
        tn_json_parse(tn_buf_str(&text), text.len, &json, err) < 0)
        return -1;
    const struct tn_json *list = tn_json_get(json, "findings");
    bool gate = false;
    for (size_t i = 0; i < tn_json_count(list); i++) {
        const struct tn_json *one = tn_json_at(list, i);
        if (strcmp(tn_json_get_str(one, "name", ""), "gate") == 0)
            gate = tn_json_bool(tn_json_get(one, "good"), false);
        fn(&(struct tn_symptom){.what = tn_json_get_str(one, "what", "?"),
                                .good = tn_json_bool(tn_json_get(one, "good"), false),
                                .needed = tn_json_bool(tn_json_get(one, "needed"), false),
                                .detail = tn_json_get_str(one, "detail", "")},
           ctx);
    }
    tell_network(host, gate, fn, ctx);
    tell_suspend(host, fn, ctx);
    tell_images(host, fn, ctx);
    jail_tell_gvisor(host, fn, ctx);
    return 0;
}
