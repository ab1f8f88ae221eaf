/* What a service is asked for: the spec in the words of each dialect. */
#include "runtime/remote/body.h"

#include <stdlib.h>

#define OPENHANDS_PORT 60000

/* --- what cannot be kept ---------------------------------------------------------------------- */

/* Members of the spec that name things of this machine; then those that OpenHands has no words for,
 * while a Tendon service decides about them itself. */
static const struct tn_spec_bar barred[] = {
    {"volumes", "directories of this machine are not there"},
    {"devices", "the service offers none"},
    {"gpus", "the service offers none"},
    {"isolation", "the service decides about it"},
    {"network", "the service decides about it"},
    {"allow", "the service decides about it"},
    {"ask", "the service decides about it"},
    {"secrets", "the service keeps its own"},
    {"ports", "the service decides about them"},
    {"hand_args", "the service starts the hand"},
    {"memory", "use sandbox.remote_runtime_resource_factor"},
    {"cpus", "use sandbox.remote_runtime_resource_factor"},
    {"pids", "the service has no such limit"},
    {"file_size", "the service has no such limit"},
    {"open_files", "the service has no such limit"},
    {"disk", "the service has no such limit"},
    {"wall_time", "the service has no such limit"},
};

static int check_spec(const struct tn_json *spec, bool native, struct tn_error *err)
{
    return tn_spec_refuse(spec, "a remote sandbox", barred, native ? 1 : TN_COUNT(barred), NULL,
                          err);
}

/* --- the spec as a tree ----------------------------------------------------------------------- */

/* Those that are only about this side. */
static bool is_ours(const char *name)
{
    static const char *const names[] = {"runtime", "name", "keep", "lease", NULL};

    for (const char *const *n = names; *n; n++)
        if (strcmp(*n, name) == 0)
            return true;
    return false;
}

static int copy_member(const char *name, struct tn_json *value, void *ctx)
{
    const char *text = tn_json_str(value, NULL);

    if (is_ours(name) || !value ||
        (strcmp(name, "network") == 0 && text && !strcmp(text, "default")))
        return 0;
    tn_jw_key(ctx, name);
    tn_jw_tree(ctx, value);
    return 0;
}

/* What somebody wished for, and nothing else. */
static int wish_of(const struct tn_spec *spec, struct tn_json **out, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(REMOTE_BODY_MAX);
    tn_autojson struct tn_json *tree = NULL;
    struct tn_jw w = tn_jw(&text);

    if (tn_spec_tree(spec, &tree, err) < 0)
        return -1;
    tn_jw_object(&w);
    tn_json_each(tree, copy_member, &w);
    tn_jw_object_end(&w);
    return tn_json_parse(tn_buf_str(&text), text.len, out, err);
}

int remote_check(const struct tn_host *host, const struct tn_spec *spec, struct tn_error *err)
{
    tn_autojson struct tn_json *wish = NULL;

    const char *demanded = tn_config_isolation(host->config, spec);
    if (!spec->isolation && strcmp(demanded, "native") != 0) /* nobody would tell it */
        return tn_fail(err, TN_E_INVALID, "isolation: expected %s, as tendon.isolation says",
                       demanded);
    return wish_of(spec, &wish, err) < 0 || check_spec(wish, true, err) < 0 ? -1 : 0;
}

static int finish(const struct tn_buf *out, struct tn_error *err)
{
    return tn_buf_ok(out) ? 0 : tn_fail(err, TN_E_TOO_LARGE, "the spec is too large");
}

/* --- native ----------------------------------------------------------------------------------- */

static int put_member(const char *name, struct tn_json *value, void *ctx)
{
    tn_jw_key(ctx, name);
    tn_jw_tree(ctx, value);
    return 0;
}

/* A label is for lists of this side; there it tells people whose sandbox it is. */
static void put_metadata(const struct remote *r, const char *id, struct tn_jw *w)
{
    tn_jw_key(w, "metadata");
    tn_jw_object(w);
    tn_jw_kstr(w, "tendon.id", id);
    tn_jw_kstr(w, "tendon.state", r->mark);
    tn_jw_object_end(w);
}

int remote_native_body(const struct remote *r, const struct tn_subject *s, double wait,
                       struct tn_buf *out, struct tn_error *err)
{
    const struct tn_config *config = r->host->config;
    const char *class = config->sandbox.remote_runtime_class;
    tn_autojson struct tn_json *wish = NULL;
    char session[REMOTE_SESSION_MAX];
    struct tn_jw w = tn_jw(out);

    if (wish_of(s->spec, &wish, err) < 0 || check_spec(wish, true, err) < 0)
        return -1;
    remote_session(r, s->id, session);
    tn_jw_object(&w);
    tn_json_each(wish, put_member, &w);
    if (config->remote.runtime)
        tn_jw_kstr(&w, "runtime", config->remote.runtime);
    if (class && *class)
        tn_jw_kstr(&w, "template", class);
    if (config->sandbox.remote_runtime_resource_factor != 1)
        tn_jw_kdouble(&w, "resource_factor", config->sandbox.remote_runtime_resource_factor);
    tn_jw_kstr(&w, "session", session);
    if (s->spec->name)
        tn_jw_kstr(&w, "name", s->spec->name);
    put_metadata(r, s->id, &w);
    tn_jw_kdouble(&w, "wait", wait);
    tn_jw_object_end(&w);
    return finish(out, err);
}

int remote_fork_body(const struct remote *r, const struct tn_subject *child, const char *snapshot,
                     const struct tn_json *env, double wait, struct tn_buf *out,
                     struct tn_error *err)
{
    char session[REMOTE_SESSION_MAX];
    struct tn_jw w = tn_jw(out);

    remote_session(r, child->id, session);
    tn_jw_object(&w);
    if (snapshot)
        tn_jw_kstr(&w, "snapshot", snapshot);
    if (env) {
        tn_jw_key(&w, "env");
        tn_jw_tree(&w, env);
    }
    tn_jw_kstr(&w, "session", session);
    if (child->spec->name)
        tn_jw_kstr(&w, "name", child->spec->name);
    put_metadata(r, child->id, &w);
    tn_jw_kdouble(&w, "wait", wait);
    tn_jw_object_end(&w);
    return finish(out, err);
}

/* --- OpenHands -------------------------------------------------------------------------------- */

static const char *or_env(const char *given, const char *variable, const char *usual)
{
    const char *env = getenv(variable);

    return given ? given : env && *env ? env : usual;
}

static bool is_number(const char *text)
{
    return *text && text[strspn(text, "0123456789")] == '\0';
}

/* The command of the action execution server, as OpenHands starts it everywhere. */
static void put_command(const struct tn_config *c, const struct tn_spec *spec, struct tn_jw *w)
{
    static const char *const before[] = {
        "/openhands/micromamba/bin/micromamba",
        "run",
        "-n",
        "openhands",
        "poetry",
        "run",
        "python",
        "-u",
        "-m",
        "openhands.runtime.action_execution_server",
        NULL,
    };
    bool root = !c->core.run_as_openhands;
    const char *user = spec->user && !is_number(spec->user) ? spec->user : NULL;
    const char *uid = spec->user && is_number(spec->user) ? spec->user : NULL;

    tn_jw_key(w, "command");
    tn_jw_array(w);
    for (const char *const *word = before; *word; word++)
        tn_jw_str(w, *word);
    tn_autofree char *port = tn_asprintf("%d", OPENHANDS_PORT);
    tn_jw_str(w, port);
    tn_jw_str(w, "--working-dir");
    tn_jw_str(w, spec->workspace ? spec->workspace : c->core.workspace_mount_path_in_sandbox);
    if (spec->plugins.count)
        tn_jw_str(w, "--plugins");
    for (size_t i = 0; i < spec->plugins.count; i++)
        tn_jw_str(w, spec->plugins.items[i]);
    tn_jw_str(w, "--username");
    tn_jw_str(w, or_env(user, "RUNTIME_USERNAME", root ? "root" : "openhands"));
    tn_jw_str(w, "--user-id");
    tn_jw_str(w, or_env(uid, "RUNTIME_UID", root ? "0" : "1000"));
    if (c->sandbox.browsergym_eval_env) {
        tn_jw_str(w, "--browsergym-eval-env");
        tn_jw_str(w, c->sandbox.browsergym_eval_env);
    }
    if (!c->core.enable_browser)
        tn_jw_str(w, "--no-enable-browser");
    tn_jw_array_end(w);
}

int remote_openhands_body(const struct remote *r, const struct tn_subject *s, struct tn_buf *out,
                          struct tn_error *err)
{
    const struct tn_config *config = r->host->config;
    const struct tn_config_sandbox *sandbox = &config->sandbox;
    const char *image = s->spec->image ? s->spec->image : sandbox->runtime_container_image;
    const char *class = sandbox->remote_runtime_class;
    tn_autojson struct tn_json *wish = NULL;
    char session[REMOTE_SESSION_MAX];
    struct tn_jw w = tn_jw(out);

    if (wish_of(s->spec, &wish, err) < 0 || check_spec(wish, false, err) < 0)
        return -1;
    remote_session(r, s->id, session);
    tn_jw_object(&w);
    if (image)
        tn_jw_kstr(&w, "image", image);
    put_command(config, s->spec, &w);
    tn_jw_kstr(&w, "working_dir", "/openhands/code/");
    tn_jw_key(&w, "environment");
    tn_jw_object(&w);
    if (config->core.debug && !tn_json_has(s->spec->env, "DEBUG"))
        tn_jw_kstr(&w, "DEBUG", "true");
    tn_json_each(s->spec->env, put_member, &w);
    tn_jw_object_end(&w);
    tn_jw_kstr(&w, "session_id", session);
    tn_jw_kdouble(&w, "resource_factor", sandbox->remote_runtime_resource_factor);
    if (class && strcmp(class, "sysbox") == 0)
        tn_jw_kstr(&w, "runtime_class", "sysbox-runc");
    tn_jw_object_end(&w);
    return finish(out, err);
}
