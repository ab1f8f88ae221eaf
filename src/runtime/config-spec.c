/* From the configuration to the spec of a sandbox. */
#include "runtime/config-sections.h"
#include "runtime/volume.h"

#define ENV_PREFIX "SANDBOX_ENV_"
/* They cost nothing before their first use. */
#define DEFAULT_PLUGINS "jupyter,agent_skills"

static bool is_given(const struct tn_config *c, const char *section, const char *key)
{
    return tn_config_source(c, section, key)->origin != TN_FROM_DEFAULT;
}

static int set_text(struct tn_spec *spec, const char *field, const char *text, struct tn_error *err)
{
    return tn_field_from_text(tn_fields_find(&tn_spec_fields, field), spec, text, err);
}

/* --- variables ---------------------------------------------------------------------------- */

struct variables {
    struct tn_jw w;
    const struct tn_json *later; /* what these override */
    struct tn_error *err;
};

static int write_variable(const char *key, struct tn_json *value, void *ctx)
{
    struct variables *v = ctx;

    if (v->later && tn_json_has(v->later, key))
        return 0;
    if (!tn_json_str(value, NULL))
        return tn_fail(v->err, TN_E_INVALID,
                       "sandbox.runtime_startup_env_vars: %.60s: expected text, found %s", key,
                       tn_json_type_name(value));
    tn_jw_kstr(&v->w, key, tn_json_str(value, NULL));
    return 0;
}

/* SANDBOX_ENV_X of this process is X inside; the configuration goes before it. */
static int add_variables(const struct tn_config *c, struct tn_spec *spec, struct tn_error *err)
{
    const struct tn_json *configured = c->sandbox.runtime_startup_env_vars;
    tn_autobuf struct tn_buf text = TN_BUF_INIT(16u << 20);
    tn_autojson struct tn_json *env = NULL;
    struct variables v = {.w = tn_jw(&text), .err = err};
    size_t prefix = sizeof ENV_PREFIX - 1;

    tn_jw_object(&v.w);
    for (char **e = environ; *e; e++) {
        const char *equals = strchr(*e, '=');
        if (strncmp(*e, ENV_PREFIX, prefix) != 0 || !equals || equals == *e + prefix)
            continue;
        tn_autofree char *name = tn_strndup(*e + prefix, (size_t)(equals - *e) - prefix);
        if (!tn_json_has(configured, name))
            tn_jw_kstr(&v.w, name, equals + 1);
    }
    if (c->sandbox.enable_auto_lint && !tn_json_has(configured, "ENABLE_AUTO_LINT"))
        tn_jw_kstr(&v.w, "ENABLE_AUTO_LINT", "true");
    if (tn_json_each(configured, write_variable, &v) != 0)
        return -1;
    tn_jw_object_end(&v.w);
    if (!tn_buf_ok(&text))
        return tn_fail(err, TN_E_TOO_LARGE, "the variables of a sandbox are too large");
    if (tn_json_parse(text.data, text.len, &env, err) < 0)
        return -1;
    if (tn_json_count(env) == 0)
        return 0;
    tn_json_free(spec->env);
    spec->env = TN_TAKE_PTR(env);
    return 0;
}

/* --- volumes ------------------------------------------------------------------------------ */

static int add_volume(const char *volume, void *ctx)
{
    struct tn_str_list *list = ctx;

    list->items = tn_realloc(list->items, (list->count + 2) * sizeof *list->items);
    list->items[list->count++] = tn_strdup(volume);
    list->items[list->count] = NULL;
    return 0;
}

static void add_volumes(const struct tn_config *c, struct tn_spec *spec)
{
    const struct tn_config_core *core = &c->core;

    if (c->sandbox.volumes) {
        tn_volumes_each(c->sandbox.volumes, add_volume, &spec->volumes);
    } else if (core->workspace_mount_path) {
        tn_autofree char *volume = tn_asprintf("%s:%s:rw", core->workspace_mount_path,
                                               core->workspace_mount_path_in_sandbox);
        add_volume(volume, &spec->volumes);
    }
}

/* --- all of it ---------------------------------------------------------------------------- */

const char *tn_config_isolation(const struct tn_config *c, const struct tn_spec *spec)
{
    const char *demanded = c->tendon.isolation;

    return tn_isolation_weaker(demanded, spec->isolation) ? spec->isolation : demanded;
}

/* Also where kata is wanted as well: who cannot give that must not begin with neither. */
bool tn_config_wants_gvisor(const struct tn_config *c, const struct tn_spec *spec)
{
    return (spec->isolation && strcmp(spec->isolation, "gvisor") == 0) ||
           strcmp(c->tendon.isolation, "gvisor") == 0;
}

bool tn_config_network_is_said(const struct tn_config *c, int said)
{
    return said != TN_NETWORK_DEFAULT || c->jail.network != TN_NETWORK_DEFAULT;
}

int tn_config_jail_network(const struct tn_config *c, int said)
{
    if (!tn_config_network_is_said(c, said))
        return TN_NETWORK_OPEN;
    return said == TN_NETWORK_DEFAULT ? c->jail.network : said;
}

static int add_sections(const struct tn_config *c, struct tn_spec *spec, struct tn_error *err)
{
    const struct tn_config_sandbox *sandbox = &c->sandbox;
    const char *gpus = sandbox->cuda_visible_devices;

    if (set_text(spec, "runtime", c->tendon.runtime, err) < 0)
        return -1;
    if (strcmp(c->tendon.isolation, "native") != 0 &&
        set_text(spec, "isolation", c->tendon.isolation, err) < 0)
        return -1;
    if (is_given(c, "core", "workspace_mount_path_in_sandbox") &&
        set_text(spec, "workspace", c->core.workspace_mount_path_in_sandbox, err) < 0)
        return -1;
    if (sandbox->user_id.set) {
        tn_autofree char *uid = tn_asprintf("%lld", (long long)sandbox->user_id.value);
        if (set_text(spec, "user", uid, err) < 0)
            return -1;
    }
    if (sandbox->enable_gpu && set_text(spec, "gpus", gpus && *gpus ? gpus : "all", err) < 0)
        return -1;
    if (sandbox->initialize_plugins && set_text(spec, "plugins", DEFAULT_PLUGINS, err) < 0)
        return -1;
    if (sandbox->use_host_network)
        spec->network = TN_NETWORK_HOST;
    spec->keep |= sandbox->keep_runtime_alive;
    add_volumes(c, spec);
    return add_variables(c, spec, err);
}

int tn_config_spec(const struct tn_config *c, const char *template, struct tn_spec *spec,
                   struct tn_error *err)
{
    const struct tn_toml *table = template ? tn_config_template(c, template) : NULL;

    if (template && !table)
        return tn_fail(err, TN_E_NOT_FOUND, "there is no [template.%.60s] in %s", template,
                       c->private->path ? c->private->path : "the configuration (no file)");
    if (add_sections(c, spec, err) < 0)
        return -1;
    if (tn_fields_from_toml(&tn_spec_fields, spec, table, err) < 0)
        return tn_error_context(err, "%s", c->private->path);
    return 0;
}
