/* What a configuration asks for and nobody here fulfils: said, never dropped silently. */
#include "runtime/config-sections.h"

static const struct {
    const char *key, *runtime;
} platform_keys[] = {
    {"e2b_api_key", "e2b"},
    {"modal_api_token_id", "modal"},
    {"modal_api_token_secret", "modal"},
    {"runloop_api_key", "runloop"},
    {"daytona_api_key", "daytona"},
    {"daytona_api_url", "daytona"},
    {"daytona_target", "daytona"},
};

const char *tn_config_platform_of(const char *core_key)
{
    for (size_t i = 0; i < TN_COUNT(platform_keys); i++)
        if (strcmp(platform_keys[i].key, core_key) == 0)
            return platform_keys[i].runtime;
    return NULL;
}

/* One warning for a section, however much is set in it. */
static void warn_of_section(struct tn_config *c, const struct tn_config_section *s)
{
    tn_autobuf struct tn_buf keys = TN_BUF_INIT(4096);

    for (size_t i = 0; i < s->fields->count; i++) {
        const char *key = s->fields->rows[i].name;
        if (tn_config_source(c, s->name, key)->origin != TN_FROM_DEFAULT)
            tn_buf_printf(&keys, "%s%s", keys.len ? ", " : "", key);
    }
    if (keys.len)
        tn_config_warn(c, "[%s] has no effect: %s (%s)", s->name, s->idle, tn_buf_str(&keys));
}

/* A name that is nobody's would be no analyzer anywhere. */
static int check_analyzer(struct tn_config *c, struct tn_error *err)
{
    static const char *const analyzers[] = {"llm", "invariant", "grayswan"};
    const char *name = c->security.security_analyzer;

    if (!name || !*name)
        return 0;
    for (size_t i = 0; i < TN_COUNT(analyzers); i++)
        if (strcmp(name, analyzers[i]) == 0) {
            tn_config_warn(c,
                           "security.security_analyzer has no effect: there is no analyzer %s "
                           "here, and no action is judged",
                           name);
            return 0;
        }
    return tn_fail(err, TN_E_INVALID,
                   "security.security_analyzer: expected llm, invariant or grayswan, found '%.40s'",
                   name);
}

int tn_config_finalise_idle(struct tn_config *c, struct tn_error *err)
{
    for (const struct tn_config_section *s = tn_config_sections; s->name; s++)
        if (s->idle)
            warn_of_section(c, s);
    if (c->security.confirmation_mode)
        tn_config_warn(c, "security.confirmation_mode has no effect: nobody is asked here; whoever "
                          "drives the agent asks, and marks actions that are to wait");
    return check_analyzer(c, err);
}
