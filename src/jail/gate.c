/* The keeper of a jail as one who keeps a gate. */
#include "jail/gate.h"

#include "base/fs.h"
#include "gate/program.h"

bool jail_is_gated(const struct jail *j)
{
    return j->plan.network == TN_JAIL_NET_OPEN || j->plan.network == TN_JAIL_NET_ALLOW;
}

/* What it uses is the sandbox's: nobody else has it to work. */
static int open_group(void *ctx)
{
    const struct jail *j = ctx;

    return tn_cgroup_open_unified(&j->cgroups, j->plan.id);
}

static int join_groups(void *ctx, bool born)
{
    const struct jail *j = ctx;

    return tn_cgroup_join(&j->cgroups, j->plan.id, 0, !born, NULL);
}

static const struct tn_gate_groups groups = {.open = open_group, .join = join_groups};

int jail_gate_begin(struct jail *j, struct tn_error *err)
{
    tn_autobuf struct tn_buf rules = TN_BUF_INIT(TN_GATE_SETTINGS_MAX);

    j->gate.program = j->plan.gate;
    j->gate.network = tn_jail_networks[j->plan.network];
    j->gate.groups = &groups;
    j->gate.ctx = j;
    j->gate.ask_seconds = j->plan.network == TN_JAIL_NET_ALLOW ? j->plan.ask_seconds : 0;
    if (!jail_is_gated(j))
        return 0;
    tn_buf_printf(&rules, "%s\n", j->gate.network);
    for (size_t i = 0; i < j->plan.allow.count; i++)
        tn_buf_printf(&rules, "%s\n", j->plan.allow.items[i]);
    if (!tn_buf_ok(&rules))
        return tn_fail(err, TN_E_TOO_LARGE, "network: too many rules");
    return tn_gate_keeper_begin(&j->gate, tn_buf_str(&rules), err);
}

void jail_gate_do_without(struct jail *j)
{
    j->plan.network = TN_JAIL_NET_NONE;
    j->gate.network = tn_jail_networks[j->plan.network];
}

int jail_gate_reload(struct jail *j, struct tn_error *err)
{
    tn_autobuf struct tn_buf rules = TN_BUF_INIT(TN_GATE_SETTINGS_MAX);

    if (!jail_is_gated(j))
        return tn_fail(err, TN_E_CONFLICT, "its network has no gate");
    if (tn_fs_read(j->directory, TN_JAIL_RULES, &rules, err) < 0)
        return -1;
    return tn_gate_keeper_reload(&j->gate, tn_buf_str(&rules), err);
}
