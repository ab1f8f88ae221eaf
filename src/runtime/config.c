#include "runtime/config.h"

#include <assert.h>

#include "base/nearest.h"
#include "runtime/config-sections.h"

const char *const tn_origin_words[] = {
    [TN_FROM_DEFAULT] = "default", [TN_FROM_FILE] = "file",   [TN_FROM_ENV] = "environment",
    [TN_FROM_FLAG] = "flag",       [TN_FROM_FLAG + 1] = NULL,
};

#define SECTION(word) \
    .name = #word, .fields = &tn_config_##word##_fields, .offset = offsetof(struct tn_config, word)

const struct tn_config_section tn_config_sections[] = {
    {SECTION(tendon), .ours = true, .summary = "What is Tendon's own and concerns every backend."},
    {SECTION(jail), .ours = true,
     .summary = "The jail: sandboxes made of namespaces of this machine. Limits are defaults for "
                "sandboxes that name none."},
    {SECTION(docker), .ours = true,
     .summary = "A Docker or Podman engine. Limits are defaults for sandboxes that name none."},
    {SECTION(local), .ours = true, .summary = "Hands as child processes, without isolation."},
    {SECTION(remote), .ours = true,
     .summary = "Sandboxes of a service: another Tendon, or an OpenHands runtime API. Address and "
                "key are in `[sandbox]`."},
    {SECTION(e2b), .ours = true,
     .summary = "Sandboxes of [E2B](clouds/e2b.md), or of whoever serves its API."},
    {SECTION(runloop), .ours = true,
     .summary = "Devboxes of [Runloop](clouds/runloop.md), or of whoever serves its API."},
    {SECTION(modal), .ours = true,
     .summary = "Sandboxes of [Modal](clouds/modal.md), or of whoever serves its API."},
    {SECTION(daytona), .ours = true,
     .summary = "Sandboxes of [Daytona](clouds/daytona.md), or of whoever serves its API."},
    {SECTION(service), .ours = true, .summary = "`tendon serve`: sandboxes for many, over HTTP."},
    {SECTION(core), .open = true,
     .summary = "OpenHands' `[core]`, as far as sandboxes are concerned; its other keys are left "
                "alone."},
    {SECTION(sandbox), .summary = "OpenHands' `[sandbox]`."},
    {SECTION(kubernetes), .ours = true,
     .summary = "OpenHands' `[kubernetes]` and more: [sandboxes as pods](kubernetes.md). Without a "
                "namespace it is that of the context; limits are defaults for sandboxes that name "
                "none."},
    {.name = "security",
     .fields = &tn_security_fields,
     .offset = offsetof(struct tn_config, security),
     .ours = true,
     .summary =
         "Who judges actions before they are carried out, and what follows ([security]"
         "(security.md#analyzers)): OpenHands' `[security]` and more. Without an analyzer and "
         "without a mode nothing is judged. Actions that whoever drives the agent marks "
         "`awaiting_confirmation` or `rejected` are never carried out "
         "([events](events.md#confirmation))."},
    {.name = "security.llm",
     .fields = &tn_security_llm_fields,
     .offset = offsetof(struct tn_config, security.llm),
     .ours = true,
     .summary = "The analyzer `llm`."},
    {.name = "security.invariant",
     .fields = &tn_security_invariant_fields,
     .offset = offsetof(struct tn_config, security.invariant),
     .ours = true,
     .summary = "The analyzer `invariant`."},
    {.name = "security.grayswan",
     .fields = &tn_security_grayswan_fields,
     .offset = offsetof(struct tn_config, security.grayswan),
     .ours = true,
     .summary = "The analyzer `grayswan`."},
    {SECTION(mcp), .summary = "OpenHands' `[mcp]`: servers of tools."},
    {.name = NULL},
};

#define SECTION_COUNT (TN_COUNT(tn_config_sections) - 1)

const struct tn_config_section *tn_config_find_section(const char *name)
{
    for (const struct tn_config_section *s = tn_config_sections; s->name; s++)
        if (strcmp(s->name, name) == 0)
            return s;
    return NULL;
}

/* --- sources ------------------------------------------------------------------------------ */

static struct tn_config_source *
source_of(const struct tn_config *c, const struct tn_config_section *s, const struct tn_field *row)
{
    return &c->private->sources[s - tn_config_sections][row - s->fields->rows];
}

struct tn_config_source *tn_config_source(const struct tn_config *c, const char *section,
                                          const char *key)
{
    const struct tn_config_section *s = tn_config_find_section(section);
    const struct tn_field *row = s ? tn_fields_find(s->fields, key) : NULL;

    assert(row && "a name of a table");
    return source_of(c, s, row);
}

enum tn_origin tn_config_origin(const struct tn_config *c, const char *name)
{
    const char *dot = strrchr(name, '.');
    tn_autofree char *section = tn_strndup(name, dot ? (size_t)(dot - name) : 0);

    return tn_config_source(c, section, dot ? dot + 1 : "")->origin;
}

void tn_config_note(struct tn_config_source *source, enum tn_origin origin, const char *fmt, ...)
{
    tn_autobuf struct tn_buf where = TN_BUF_INIT(8192);
    va_list ap;

    va_start(ap, fmt);
    tn_buf_vprintf(&where, fmt, ap);
    va_end(ap);
    free(source->where);
    *source = (struct tn_config_source){.origin = origin, .where = tn_buf_take(&where)};
}

void tn_config_warn(struct tn_config *c, const char *fmt, ...)
{
    struct tn_str_list *list = &c->private->warnings;
    tn_autobuf struct tn_buf text = TN_BUF_INIT(8192);
    va_list ap;

    va_start(ap, fmt);
    tn_buf_vprintf(&text, fmt, ap);
    va_end(ap);
    for (size_t i = 0; i < list->count; i++) /* finalising again says nothing new */
        if (strcmp(list->items[i], tn_buf_str(&text)) == 0)
            return;
    list->items = tn_realloc(list->items, (list->count + 2) * sizeof *list->items);
    list->items[list->count++] = tn_buf_take(&text);
    list->items[list->count] = NULL;
}

void tn_config_warnings(const struct tn_config *c, tn_config_warning_fn fn, void *ctx)
{
    for (size_t i = 0; i < c->private->warnings.count; i++)
        fn(c->private->warnings.items[i], ctx);
}

/* --- the environment ---------------------------------------------------------------------- */

static int read_variable(struct tn_config *c, const struct tn_config_section *s,
                         const struct tn_field *row, struct tn_error *err)
{
    const char *text = row->env ? getenv(row->env) : NULL;
    struct tn_error why;

    if (!text || !*text)
        return 0;
    if (tn_field_from_text(row, tn_config_at(c, s), text, &why) == 0) {
        tn_config_note(source_of(c, s, row), TN_FROM_ENV, "%s", row->env);
        return 0;
    }
    if (s->ours)
        return tn_fail(err, why.code, "%s: %s", row->env, why.text);
    /* OpenHands takes any other word for no. */
    if (row->type == TN_FIELD_BOOL) {
        tn_field_from_text(row, tn_config_at(c, s), "false", NULL);
        tn_config_note(source_of(c, s, row), TN_FROM_ENV, "%s", row->env);
        return 0;
    }
    tn_config_warn(c, "%s is ignored: %s", row->env, why.text);
    return 0;
}

static int read_environment(struct tn_config *c, struct tn_error *err)
{
    for (const struct tn_config_section *s = tn_config_sections; s->name; s++)
        for (size_t i = 0; i < s->fields->count; i++)
            if (read_variable(c, s, &s->fields->rows[i], err) < 0)
                return -1;
    return 0;
}

/* --- the whole ---------------------------------------------------------------------------- */

void tn_config_init(struct tn_config *c)
{
    struct tn_config_private *p = tn_calloc(1, sizeof *p);

    *c = (struct tn_config){.private = p};
    p->sources = tn_calloc(SECTION_COUNT, sizeof *p->sources);
    for (size_t i = 0; i < SECTION_COUNT; i++) {
        const struct tn_config_section *s = &tn_config_sections[i];
        p->sources[i] = tn_calloc(s->fields->count, sizeof *p->sources[i]);
        tn_fields_defaults(s->fields, tn_config_at(c, s));
    }
}

int tn_config_load(struct tn_config *c, const char *path, struct tn_error *err)
{
    bool implied;

    tn_config_init(c);
    if (tn_config_open_file(c, path, &implied, err) == 0 &&
        tn_config_read_file(c, implied, err) == 0 && read_environment(c, err) == 0 &&
        tn_config_finalise(c, err) == 0)
        return 0;
    tn_config_done(c);
    return -1;
}

void tn_config_done(struct tn_config *c)
{
    struct tn_config_private *p = c->private;

    if (!p)
        return;
    for (size_t i = 0; i < SECTION_COUNT; i++) {
        const struct tn_config_section *s = &tn_config_sections[i];
        tn_fields_done(s->fields, tn_config_at(c, s));
        for (size_t k = 0; k < s->fields->count; k++)
            free(p->sources[i][k].where);
        free(p->sources[i]);
    }
    free(p->sources);
    for (size_t i = 0; i < p->warnings.count; i++)
        free(p->warnings.items[i]);
    free(p->warnings.items);
    tn_toml_free(p->file);
    free(p->path);
    free(p);
    c->private = NULL;
}

/* --- one by name -------------------------------------------------------------------------- */

int tn_config_unknown(const char *name, struct tn_error *err)
{
    struct tn_nearest near = tn_nearest(name);
    char best[128] = "";

    for (const struct tn_config_section *s = tn_config_sections; s->name; s++)
        for (size_t i = 0; i < s->fields->count; i++) {
            char full[128];
            snprintf(full, sizeof full, "%s.%s", s->name, s->fields->rows[i].name);
            tn_nearest_offer(&near, full);
            if (near.best == full) {
                snprintf(best, sizeof best, "%s", full);
                near.best = best;
            }
        }
    if (near.best)
        return tn_fail(err, TN_E_INVALID, "there is no setting '%.80s'; did you mean %s?", name,
                       best);
    return tn_fail(err, TN_E_INVALID, "there is no setting '%.80s': see tendon config", name);
}

int tn_config_set(struct tn_config *c, const char *name, const char *text, struct tn_error *err)
{
    const char *dot = strrchr(name, '.');
    tn_autofree char *section = tn_strndup(name, dot ? (size_t)(dot - name) : strlen(name));
    const struct tn_config_section *s = tn_config_find_section(section);
    const struct tn_field *row = s && dot ? tn_fields_find(s->fields, dot + 1) : NULL;

    if (!row)
        return tn_config_unknown(name, err);
    if (tn_field_from_text(row, tn_config_at(c, s), text, err) < 0)
        return tn_error_context(err, "%s", name);
    tn_config_note(source_of(c, s, row), TN_FROM_FLAG, "--set");
    return tn_config_finalise(c, err);
}

void tn_config_each(const struct tn_config *c, tn_config_fn fn, void *ctx)
{
    for (const struct tn_config_section *s = tn_config_sections; s->name; s++)
        for (size_t i = 0; i < s->fields->count; i++) {
            const struct tn_field *row = &s->fields->rows[i];
            const struct tn_config_source *source = source_of(c, s, row);
            tn_autobuf struct tn_buf value = TN_BUF_INIT(16u << 20);
            tn_config_put_value(row, tn_config_at(c, s), &value);
            fn(s->name, row, tn_buf_str(&value), source->origin, source->where, ctx);
        }
}

const struct tn_toml *tn_config_template(const struct tn_config *c, const char *name)
{
    const struct tn_toml *t = tn_toml_get(tn_toml_get(c->private->file, "template"), name);

    return t && tn_toml_type(t) == TN_TOML_TABLE ? t : NULL;
}

const char *tn_config_template_name(const struct tn_config *c, size_t i)
{
    const struct tn_toml *templates = tn_toml_get(c->private->file, "template");

    return i < tn_toml_count(templates) ? tn_toml_key_at(templates, i, NULL) : NULL;
}
