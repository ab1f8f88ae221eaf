/* What a configuration asks for and nobody here fulfils: said, never dropped silently. */
#include "runtime/config-sections.h"

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

void tn_config_finalise_idle(struct tn_config *c)
{
    for (const struct tn_config_section *s = tn_config_sections; s->name; s++)
        if (s->idle)
            warn_of_section(c, s);
}
