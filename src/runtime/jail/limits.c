#include <inttypes.h>

#include "runtime/jail/jail.h"

void jail_size_text(char out[32], uint64_t bytes)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    size_t unit = 0;

    while (bytes && bytes % 1024 == 0 && unit + 1 < TN_COUNT(units)) {
        bytes /= 1024;
        unit++;
    }
    snprintf(out, 32, "%" PRIu64 " %s", bytes, units[unit]);
}

static const struct {
    const char *key;
    unsigned bit;
    enum tn_cgroup_kind kind;
} rows[] = {
    {"memory", JAIL_LIMIT_MEMORY, TN_CGROUP_MEMORY},
    {"cpus", JAIL_LIMIT_CPUS, TN_CGROUP_CPU},
    {"pids", JAIL_LIMIT_PIDS, TN_CGROUP_PIDS},
};

static void look(const char *section, const struct tn_field *row, const char *value,
                 enum tn_origin origin, const char *where, void *ctx)
{
    unsigned *bits = ctx;

    if (strcmp(section, "jail") != 0 || origin != TN_FROM_DEFAULT)
        return;
    for (size_t i = 0; i < TN_COUNT(rows); i++)
        if (strcmp(row->name, rows[i].key) == 0)
            *bits |= rows[i].bit;
}

unsigned jail_limits_built_in(const struct tn_config *config)
{
    unsigned bits = 0;

    tn_config_each(config, look, &bits);
    return bits;
}

/* An ordinary user is root of its jail and alone there: the launcher limits its processes without a
 * control group too, but not gVisor's. */
static bool can_limit(const struct jail_engine *e, const struct tn_spec *spec,
                      enum tn_cgroup_kind kind)
{
    return tn_cgroups_can_limit(&e->cgroups, kind) ||
           (kind == TN_CGROUP_PIDS && geteuid() != 0 && tn_nproc_is_per_namespace() &&
            !tn_config_wants_gvisor(e->host->config, spec));
}

/* The configured limit counts where the spec is silent; `dropped` says that nobody asked for it and
 * that it cannot be had. */
static bool dropped(const struct jail_engine *e, const struct tn_spec *spec, size_t row)
{
    return (e->built_in & rows[row].bit) && !can_limit(e, spec, rows[row].kind);
}

int jail_limits(const struct jail_engine *e, const struct tn_spec *spec, struct tn_limits *out,
                struct tn_error *err)
{
    const struct tn_config_jail *c = &e->host->config->jail;

    if (tn_spec_limits(spec, out, err) < 0)
        return -1;
    if (!spec->memory && c->memory && !dropped(e, spec, 0) &&
        tn_size_parse(c->memory, &out->memory, err) < 0)
        return tn_error_context(err, "jail.memory");
    if (!spec->disk && c->disk && tn_size_parse(c->disk, &out->disk, err) < 0)
        return tn_error_context(err, "jail.disk");
    if (!spec->cpus.set && !dropped(e, spec, 1))
        out->cpus = c->cpus;
    if (!spec->pids.set && !dropped(e, spec, 2))
        out->pids = (uint64_t)c->pids;
    if (!spec->open_files.set)
        out->open_files = (uint64_t)c->open_files;
    return 0;
}
