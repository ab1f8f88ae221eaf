/* What follows from several values together. */
#include "base/account.h"
#include "runtime/config-sections.h"
#include "runtime/volume.h"

#define WORKSPACE "/workspace"

static void set(char **member, char *value)
{
    free(*member);
    *member = value;
}

/* --- paths -------------------------------------------------------------------------------- */

static char *home_directory(struct tn_error *err)
{
    const char *home = getenv("HOME");
    tn_autouser struct tn_user user = {0};

    if (home && home[0] == '/')
        return tn_strdup(home);
    if (tn_user_by_uid(TN_FS_ANYWHERE, geteuid(), &user, err) < 0) {
        tn_error_context(err, "no home directory: HOME is not set");
        return NULL;
    }
    return TN_TAKE_PTR(user.home);
}

static int expand_home(char **path, struct tn_error *err)
{
    if (!*path || (*path)[0] != '~' || ((*path)[1] && (*path)[1] != '/'))
        return 0;
    tn_autofree char *home = home_directory(err);
    if (!home)
        return -1;
    set(path, tn_asprintf("%s%s", home, *path + 1));
    return 0;
}

static int make_absolute(char **path, struct tn_error *err)
{
    if (!*path || (*path)[0] == '/')
        return 0;
    tn_autofree char *here = getcwd(NULL, 0);
    if (!here)
        return tn_fail_errno(err, errno, "current directory");
    set(path, strcmp(*path, ".") == 0 ? tn_strdup(here) : tn_asprintf("%s/%s", here, *path));
    return 0;
}

static int settle_list(struct tn_str_list *list, struct tn_error *err)
{
    for (size_t i = 0; i < list->count; i++)
        if (expand_home(&list->items[i], err) < 0 || make_absolute(&list->items[i], err) < 0)
            return -1;
    return 0;
}

static int settle_paths(struct tn_config *c, struct tn_error *err)
{
    char **const paths[] = {
        &c->core.workspace_base,  &c->core.workspace_mount_path,
        &c->core.file_store_path, &c->core.cache_dir,
        &c->tendon.state,         &c->tendon.hand,
        &c->jail.rootfs,          &c->docker.cert_path,
        &c->docker.overlays,      &c->service.tls_cert,
        &c->service.tls_key,      &c->security.invariant.policy,
        &c->modal.config_path,
    };

    if (!c->tendon.state || !*c->tendon.state) {
        const char *xdg = getenv("XDG_STATE_HOME");
        bool given = xdg && xdg[0] == '/';
        set(&c->tendon.state,
            given ? tn_asprintf("%s/tendon", xdg) : tn_strdup("~/.local/state/tendon"));
    }
    for (size_t i = 0; i < TN_COUNT(paths); i++)
        if (expand_home(paths[i], err) < 0 || make_absolute(paths[i], err) < 0)
            return -1;
    if (settle_list(&c->security.policies, err) < 0)
        return -1;
    return settle_list(&c->security.analyzer_path, err);
}

/* --- the workspace ------------------------------------------------------------------------ */

struct workspace {
    struct tn_buf volumes; /* as given, with absolute paths */
    char *host;            /* of the volume at /workspace, or NULL */
    struct tn_error *err;
};

static int look_at_volume(const char *text, void *ctx)
{
    struct workspace *w = ctx;
    tn_autovolume struct tn_volume v = {0};
    tn_autofree char *absolute = tn_volume_absolute(text, w->err);

    if (!absolute || tn_volume_parse(absolute, &v, w->err) < 0)
        return -1;
    tn_buf_printf(&w->volumes, "%s%s", w->volumes.len ? "," : "", absolute);
    if (!w->host && strcmp(v.inside, WORKSPACE) == 0 && !v.named)
        w->host = TN_TAKE_PTR(v.host);
    return 0;
}

/* The source of a value that follows from another one. */
static void derive(struct tn_config *c, const char *key, const char *section, const char *from)
{
    const struct tn_config_source *source = tn_config_source(c, section, from);

    tn_config_note(tn_config_source(c, "core", key), source->origin, "%s.%s%s%s", section, from,
                   source->where ? " in " : "", source->where ? source->where : "");
}

/* Volumes go before the older settings: without one at /workspace there is no workspace outside. */
static int settle_volumes(struct tn_config *c, struct tn_error *err)
{
    struct workspace w = {.volumes = TN_BUF_INIT(TN_TOML_BYTES_MAX), .err = err};
    int result = tn_volumes_each(c->sandbox.volumes, look_at_volume, &w);

    if (result == 0 && !tn_buf_ok(&w.volumes))
        result = tn_fail(err, TN_E_TOO_LARGE, "too large");
    if (result != 0) {
        tn_buf_done(&w.volumes);
        free(w.host);
        return tn_error_context(err, "sandbox.volumes");
    }
    set(&c->sandbox.volumes, tn_buf_take(&w.volumes));
    set(&c->core.workspace_base, tn_strdup_or_null(w.host));
    derive(c, "workspace_base", "sandbox", "volumes");
    if (w.host) {
        set(&c->core.workspace_mount_path_in_sandbox, tn_strdup(WORKSPACE));
        derive(c, "workspace_mount_path_in_sandbox", "sandbox", "volumes");
    }
    set(&c->core.workspace_mount_path, w.host);
    derive(c, "workspace_mount_path", "sandbox", "volumes");
    return 0;
}

/* Every occurrence of from in text replaced by to. */
static char *replace_all(const char *text, const char *from, const char *to)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(1 << 20);
    size_t n = strlen(from);

    while (*text) {
        const char *hit = n ? strstr(text, from) : NULL;
        size_t before = hit ? (size_t)(hit - text) : strlen(text);
        tn_buf_add(&out, text, before);
        text += before;
        if (hit) {
            tn_buf_puts(&out, to);
            text += n;
        }
    }
    return tn_buf_take(&out);
}

static int settle_rewrite(struct tn_config *c, struct tn_error *err)
{
    const char *rule = c->core.workspace_mount_rewrite;
    const char *colon = rule ? strchr(rule, ':') : NULL;

    if (!rule || !*rule)
        return 0;
    if (!colon || colon == rule || strchr(colon + 1, ':'))
        return tn_fail(err, TN_E_INVALID,
                       "core.workspace_mount_rewrite: expected FROM:TO, found '%.80s'", rule);
    tn_autofree char *from = tn_strndup(rule, (size_t)(colon - rule));
    set(&c->core.workspace_mount_path,
        replace_all(c->core.workspace_base ? c->core.workspace_base : c->core.workspace_mount_path,
                    from, colon + 1));
    derive(c, "workspace_mount_path", "core", "workspace_mount_rewrite");
    return 0;
}

static int settle_workspace(struct tn_config *c, struct tn_error *err)
{
    if (c->sandbox.volumes && *c->sandbox.volumes)
        return settle_volumes(c, err);
    if (!c->core.workspace_base && !c->core.workspace_mount_path)
        return 0;
    if (!c->core.workspace_mount_path) {
        set(&c->core.workspace_mount_path, tn_strdup(c->core.workspace_base));
        derive(c, "workspace_mount_path", "core", "workspace_base");
    }
    return settle_rewrite(c, err);
}

/* --- the rest ----------------------------------------------------------------------------- */

/* RUNTIME and [core] count where somebody wrote them, and nothing of ours says otherwise. */
static void settle_runtime(struct tn_config *c)
{
    const struct tn_config_source *core = tn_config_source(c, "core", "runtime");
    struct tn_config_source *ours = tn_config_source(c, "tendon", "runtime");
    bool inherited = ours->where && strncmp(ours->where, "core.runtime", 12) == 0;

    if ((ours->origin == TN_FROM_DEFAULT || inherited) && core->origin != TN_FROM_DEFAULT) {
        set(&c->tendon.runtime, tn_strdup(c->core.runtime));
        tn_config_note(ours, core->origin, "core.runtime in %s", core->where);
    }
    if (strcmp(c->tendon.runtime, "cli") == 0 && c->core.enable_browser) {
        c->core.enable_browser = false;
        derive(c, "enable_browser", "tendon", "runtime");
    }
}

static int check_sizes(const struct tn_config *c, struct tn_error *err)
{
    const struct {
        const char *name, *text;
    } sizes[] = {
        {"jail.memory", c->jail.memory},
        {"jail.disk", c->jail.disk},
        {"docker.memory", c->docker.memory},
    };
    uint64_t bytes;

    for (size_t i = 0; i < TN_COUNT(sizes); i++)
        if (sizes[i].text && tn_size_parse(sizes[i].text, &bytes, err) < 0)
            return tn_error_context(err, "%s", sizes[i].name);
    return 0;
}

static int check_port_range(const char *range, struct tn_error *err)
{
    unsigned first, last;
    int used = 0;

    if (!range || !*range)
        return 0;
    if (sscanf(range, "%5u-%5u%n", &first, &last, &used) != 2 || range[used] || first < 1 ||
        first > last || last > 65535)
        return tn_fail(err, TN_E_INVALID,
                       "docker.port_range: expected FIRST-LAST such as 30000-39999, found '%.40s'",
                       range);
    return 0;
}

int tn_config_finalise(struct tn_config *c, struct tn_error *err)
{
    if (settle_paths(c, err) < 0 || settle_workspace(c, err) < 0)
        return -1;
    settle_runtime(c);
    if (check_sizes(c, err) < 0 || check_port_range(c->docker.port_range, err) < 0)
        return -1;
    if (tn_config_finalise_security(c, err) < 0)
        return -1;
    return tn_config_finalise_mcp(c, err);
}
