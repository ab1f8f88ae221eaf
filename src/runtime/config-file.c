/* The file: where it is, whose it is, and what of it counts. */
#include <sys/stat.h>

#include "base/fs.h"
#include "base/nearest.h"
#include "runtime/config-sections.h"

/* --- finding it --------------------------------------------------------------------------- */

static const char *variable(const char *name)
{
    const char *value = getenv(name);

    return value && *value ? value : NULL;
}

/* $XDG_CONFIG_HOME/tendon/config.toml, or NULL. */
static char *user_file(void)
{
    const char *xdg = variable("XDG_CONFIG_HOME"), *home = variable("HOME");

    if (xdg && xdg[0] == '/')
        return tn_asprintf("%s/tendon/config.toml", xdg);
    return home ? tn_asprintf("%s/.config/tendon/config.toml", home) : NULL;
}

/* The directory one happens to be in may be anybody's. */
static bool is_trusted(struct tn_config *c, int fd, const char *path)
{
    struct stat st;

    if (fstat(fd, &st) == 0 && (st.st_uid == geteuid() || st.st_uid == 0) &&
        !(st.st_mode & S_IWOTH))
        return true;
    tn_config_warn(c,
                   "%s is ignored: others could have written it (name it with --config or "
                   "TENDON_CONFIG to use it)",
                   path);
    return false;
}

static int parse(struct tn_config *c, int fd, const char *path, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(TN_TOML_BYTES_MAX);

    if (tn_fs_read_fd(fd, &text, err) < 0 ||
        !(c->private->file = tn_toml_parse(tn_buf_str(&text), text.len, err)))
        return tn_error_context(err, "%s", path);
    c->private->path = tn_strdup(path);
    return 0;
}

int tn_config_open_file(struct tn_config *c, const char *path, bool *implied, struct tn_error *err)
{
    const char *named = path ? path : variable("TENDON_CONFIG");
    tn_autofree char *user = user_file();
    const char *const places[] = {"config.toml", user};

    *implied = false;
    if (named) {
        tn_autofd int fd = open(named, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        if (fd < 0)
            return tn_fail_errno(err, errno, "configuration %s", named);
        return parse(c, fd, named, err);
    }
    for (size_t i = 0; i < TN_COUNT(places); i++) {
        tn_autofd int fd = places[i] ? open(places[i], O_RDONLY | O_CLOEXEC | O_NOCTTY) : -1;
        struct stat st;
        if (fd < 0 && places[i] && errno != ENOENT && errno != ENOTDIR)
            tn_config_warn(c, "%s is ignored: %s", places[i], tn_strerror(errno));
        if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || !is_trusted(c, fd, places[i]))
            continue;
        *implied = i == 0;
        return parse(c, fd, places[i], err);
    }
    return 0;
}

/* --- values ------------------------------------------------------------------------------- */

/* OpenHands' reader takes numbers and truths in quotes too. */
static bool from_quoted(const struct tn_field *row, void *object, const struct tn_toml *v)
{
    static const char *const truths[] = {"false", "true"};
    bool number = row->type == TN_FIELD_INT || row->type == TN_FIELD_OPT_INT ||
                  row->type == TN_FIELD_DOUBLE || row->type == TN_FIELD_OPT_DOUBLE;
    int64_t truth = tn_toml_int(v, -1);

    if (row->type == TN_FIELD_BOOL && (truth == 0 || truth == 1))
        return tn_field_from_text(row, object, truths[truth], NULL) == 0;
    if ((number || row->type == TN_FIELD_BOOL) && tn_toml_type(v) == TN_TOML_STRING)
        return tn_field_from_text(row, object, tn_toml_str(v, NULL), NULL) == 0;
    return false;
}

static int read_section(struct tn_config *c, const struct tn_config_section *s,
                        const struct tn_toml *table, struct tn_error *err)
{
    for (size_t i = 0; i < s->fields->count; i++) {
        const struct tn_field *row = &s->fields->rows[i];
        const struct tn_fields one = {.rows = row, .count = 1};
        const struct tn_toml *v = tn_toml_get(table, row->name);
        if (!v)
            continue;
        if (!from_quoted(row, tn_config_at(c, s), v) &&
            tn_fields_from_toml(&one, tn_config_at(c, s), table, err) < 0)
            return -1;
        tn_config_note(tn_config_source(c, s->name, row->name), TN_FROM_FILE, "%s:%d",
                       c->private->path, tn_toml_line(v));
    }
    return 0;
}

/* --- what is not known -------------------------------------------------------------------- */

/* Keys of [core] that concern other parts of OpenHands. */
static const char *const other_core_keys[] = {
    "llms",
    "agents",
    "default_agent",
    "security",
    "extended",
    "save_trajectory_path",
    "replay_trajectory_path",
    "save_screenshots_in_trajectory",
    "search_engine",
    "workspace_mount_path_in_sandbox",
    "max_iterations",
    "max_budget_per_task",
    "max_chars_per_turn",
    "disable_color",
    "file_uploads_max_file_size_mb",
    "file_uploads_restrict_file_types",
    "file_uploads_allowed_extensions",
    "file_store_web_hook_url",
    "file_store_web_hook_headers",
    "file_store_web_hook_batch",
    "enable_default_condenser",
    "cli_multiline_input",
    "condenser",
    "microagents_dir",
    "vscode_extension",
    "embedding_model",
    "reasoning_effort",
    NULL,
};

/* Sections that concern other parts of OpenHands. */
static const char *const other_sections[] = {
    "llm", "agent", "condenser", "extended", "model_routing", "cli", "evaluation", NULL,
};

static bool is_among(const char *const *words, const char *word)
{
    for (size_t i = 0; words[i]; i++)
        if (strcmp(words[i], word) == 0)
            return true;
    return false;
}

static void warn_of_keys(struct tn_config *c, const struct tn_config_section *s,
                         const struct tn_toml *table)
{
    for (size_t i = 0, n = tn_toml_count(table); i < n; i++) {
        const char *key = tn_toml_key_at(table, i, NULL);
        struct tn_nearest near = tn_nearest(key);
        if (tn_fields_find(s->fields, key) || is_among(other_core_keys, key))
            continue;
        for (size_t k = 0; k < s->fields->count; k++)
            tn_nearest_offer(&near, s->fields->rows[k].name);
        tn_config_warn(c, "%s:%d: unknown key %.60s in [%s]%s%s%s", c->private->path,
                       tn_toml_line(tn_toml_at(table, i)), key, s->name,
                       near.best ? "; did you mean " : "", near.best ? near.best : "",
                       near.best ? "?" : "");
    }
}

static void warn_of_section(struct tn_config *c, const char *name, const struct tn_toml *v)
{
    struct tn_nearest near = tn_nearest(name);

    if (is_among(other_sections, name))
        return;
    for (const struct tn_config_section *s = tn_config_sections; s->name; s++)
        tn_nearest_offer(&near, s->name);
    tn_nearest_offer(&near, "template");
    tn_nearest_offer(&near, "pool");
    tn_config_warn(c, "%s:%d: unknown %s %.60s%s%s%s", c->private->path, tn_toml_line(v),
                   tn_toml_type(v) == TN_TOML_TABLE ? "section" : "key outside of sections", name,
                   near.best ? "; did you mean [" : "", near.best ? near.best : "",
                   near.best ? "]?" : "");
}

/* --- templates ---------------------------------------------------------------------------- */

static int check_template(const char *name, const struct tn_toml *table, struct tn_error *err)
{
    struct tn_spec spec;

    if (tn_toml_type(table) != TN_TOML_TABLE)
        return tn_fail(err, TN_E_INVALID, "line %d: expected sections [template.NAME], found %s",
                       tn_toml_line(table), tn_toml_type_name(table));
    tn_spec_init(&spec);
    int result = tn_fields_refuse_unknown_toml(&tn_spec_fields, table, err);
    if (result == 0)
        result = tn_fields_from_toml(&tn_spec_fields, &spec, table, err);
    if (result == 0)
        result = tn_spec_check(&spec, err);
    tn_spec_done(&spec);
    return result < 0 ? tn_error_context(err, "[template.%.60s]", name) : 0;
}

static int check_templates(const struct tn_toml *templates, struct tn_error *err)
{
    if (tn_toml_type(templates) != TN_TOML_TABLE)
        return tn_fail(err, TN_E_INVALID, "line %d: template is no section",
                       tn_toml_line(templates));
    for (size_t i = 0, n = tn_toml_count(templates); i < n; i++)
        if (check_template(tn_toml_key_at(templates, i, NULL), tn_toml_at(templates, i), err) < 0)
            return -1;
    return 0;
}

/* --- all of it ---------------------------------------------------------------------------- */

#define JUDGES "decides who judges actions, and who is told of them"

/* A repository that one has just cloned must not choose the programs that run outside, who else may
 * come in, and what its agent may do. */
static const struct {
    const char *section, *key, *what;
} not_implied[] = {
    {"tendon", "hand", "names programs of this machine"},
    {"tendon", "runtime_path", "names programs of this machine"},
    {"service", "listen", "opens the service to others"},
    {"service", "insecure", "opens the service to others"},
    {"service", "hosts", "opens the service to others"},
    {"service", "origins", "opens the service to others"},
    {"service", "open_metrics", "opens the service to others"},
    {"service", "runtimes", "opens the service to others"},
    {"e2b", "api_url", "says who is sent your key"},
    {"e2b", "domain", "says who is sent your key"},
    {"e2b", "sandbox_url", "says who is sent your key"},
    {"runloop", "base_url", "says who is sent your key"},
    {"runloop", "tunnel_url", "says who is sent your key"},
    {"modal", "server_url", "says who is sent your key"},
    {"modal", "config_path", "says who is sent your key"},
    {"modal", "tunnel_url", "says who is sent your key"},
    {"daytona", "api_url", "says who is sent your key"},
    {"daytona", "toolbox_url", "says who is sent your key"},
    {"kubernetes", "*", "decides what happens in your cluster"},
    {"core", "daytona_api_url", "says who is sent your key"},
    {"security", "analyzer_path", "names programs of this machine"},
    {"security", "analyzers", JUDGES},
    {"security", "confirmation", JUDGES},
    {"security", "low", JUDGES},
    {"security", "medium", JUDGES},
    {"security", "high", JUDGES},
    {"security", "unknown", JUDGES},
    {"security", "policies", JUDGES},
    {"security", "default_policy", JUDGES},
    {"security", "llm", JUDGES},
    {"security", "invariant", JUDGES},
    {"security", "grayswan", JUDGES},
};

/* Of sections with a row for all keys ("*"): the rest. */
static const char *const harmless[] = {
    "resource_cpu_request", "resource_memory_request", "resource_memory_limit",
    "resource_cpu_limit",   "pvc_storage_size",        NULL,
};

static const char *why_not_implied(const char *section, const char *key)
{
    for (size_t i = 0; i < TN_COUNT(not_implied); i++)
        if (strcmp(section, not_implied[i].section) == 0 &&
            (strcmp(key, not_implied[i].key) == 0 ||
             (strcmp("*", not_implied[i].key) == 0 && !is_among(harmless, key))))
            return not_implied[i].what;
    return NULL;
}

static int refuse_implied(const char *section, const struct tn_toml *table, struct tn_error *err)
{
    for (size_t i = 0, n = tn_toml_count(table); i < n; i++) {
        const char *key = tn_toml_key_at(table, i, NULL);
        const char *why = why_not_implied(section, key);
        if (why)
            return tn_fail(err, TN_E_DENIED,
                           "line %d: %s %s, which a config.toml that merely lies in the current "
                           "directory may not do; name the file with --config or TENDON_CONFIG, "
                           "or use ~/.config/tendon/config.toml",
                           tn_toml_line(tn_toml_at(table, i)), key, why);
    }
    return 0;
}

/* The section [a.b] of a key b in [a]; NULL: there is none. */
static const struct tn_config_section *part_of(const struct tn_config_section *s, const char *key)
{
    tn_autofree char *name = tn_asprintf("%s.%s", s->name, key);

    return tn_config_find_section(name);
}

static int refuse_unknown(const struct tn_config_section *s, const struct tn_toml *table,
                          struct tn_error *err)
{
    for (size_t i = 0, n = tn_toml_count(table); i < n; i++) {
        const char *key = tn_toml_key_at(table, i, NULL);
        if (!part_of(s, key) &&
            tn_fields_refuse_unknown_key(s->fields, key, tn_toml_at(table, i), err) < 0)
            return -1;
    }
    return 0;
}

static int read_member(struct tn_config *c, const char *name, const struct tn_toml *v, bool implied,
                       struct tn_error *err);

static int read_parts(struct tn_config *c, const struct tn_config_section *s,
                      const struct tn_toml *table, bool implied, struct tn_error *err)
{
    for (size_t i = 0, n = tn_toml_count(table); i < n; i++) {
        const struct tn_config_section *part = part_of(s, tn_toml_key_at(table, i, NULL));
        if (part && read_member(c, part->name, tn_toml_at(table, i), implied, err) < 0)
            return -1;
    }
    return 0;
}

static int read_member(struct tn_config *c, const char *name, const struct tn_toml *v, bool implied,
                       struct tn_error *err)
{
    const struct tn_config_section *s = tn_config_find_section(name);

    if (strcmp(name, "template") == 0)
        return check_templates(v, err);
    if (strcmp(name, "pool") == 0)
        return tn_config_pools(c, NULL, NULL, err);
    if (!s) {
        warn_of_section(c, name, v);
        return 0;
    }
    if (tn_toml_type(v) != TN_TOML_TABLE)
        return tn_fail(err, TN_E_INVALID, "line %d: expected a section [%s], found %s",
                       tn_toml_line(v), name, tn_toml_type_name(v));
    if (s->open)
        warn_of_keys(c, s, v);
    else if (refuse_unknown(s, v, err) < 0)
        return tn_error_context(err, "[%s]", name);
    if (implied && refuse_implied(name, v, err) < 0)
        return -1;
    if (read_section(c, s, v, err) < 0)
        return tn_error_context(err, "[%s]", name);
    return read_parts(c, s, v, implied, err);
}

int tn_config_read_file(struct tn_config *c, bool implied, struct tn_error *err)
{
    const struct tn_toml *file = c->private->file;

    for (size_t i = 0, n = tn_toml_count(file); i < n; i++)
        if (read_member(c, tn_toml_key_at(file, i, NULL), tn_toml_at(file, i), implied, err) < 0)
            return tn_error_context(err, "%s", c->private->path);
    return 0;
}
