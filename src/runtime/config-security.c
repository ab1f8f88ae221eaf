/* What [security] asks for: who judges must exist. */
#include "runtime/config-sections.h"
#include "security/judge.h"

int tn_config_finalise_security(struct tn_config *c, struct tn_error *err)
{
    const struct tn_security_settings *s = &c->security;
    const char *openhands = s->security_analyzer;

    for (size_t i = 0; i < s->analyzers.count; i++)
        if (tn_judge_check_name(s, s->analyzers.items[i], err))
            return tn_error_context(err, "security.analyzers");
    if (!openhands || !*openhands)
        return 0;
    if (tn_judge_check_name(s, openhands, err))
        return tn_error_context(err, "security.security_analyzer");
    if (!s->confirmation_mode)
        tn_config_warn(c, "security.security_analyzer counts only with security.confirmation_mode: "
                          "security.analyzers names those that judge either way");
    return 0;
}
