/* The plan as the engine wants to hear it. */
#include "base/sha256.h"
#include "gate/roots.h"
#include "runtime/docker/docker.h"
#include "runtime/owner.h"
#include "runtime/secrets.h"

enum { DONE_MAX = 24 };

/* Members that are written, so that docker_runtime_kwargs does not write them again. */
struct body {
    const struct docker_plan *p;
    struct tn_jw w;
    const char *done[DONE_MAX + 1];
    size_t done_count;
};

static void key(struct body *b, const char *name)
{
    tn_jw_key(&b->w, name);
    if (b->done_count < DONE_MAX)
        b->done[b->done_count++] = name;
}

static void text(struct body *b, const char *name, const char *value)
{
    key(b, name);
    tn_jw_str(&b->w, value);
}

/* --- the hand's command line ---------------------------------------------------------------- */

static void put_digest(struct tn_jw *w, const char *secret)
{
    char digest[2 * TN_SHA256_BYTES + 1];
    struct tn_sha256 hash;

    tn_sha256_init(&hash);
    tn_sha256_add(&hash, secret, strlen(secret));
    tn_sha256_end_hex(&hash, digest);
    tn_jw_str(w, digest);
}

static void put_listen(const struct docker_plan *p, struct tn_jw *w)
{
    bool loopback = p->host_network && tn_engine_info(p->docker->engine)->local;
    tn_autofree char *address =
        p->way == DOCKER_BY_SOCKET
            ? tn_strdup("unix:" DOCKER_SOCKET)
            : tn_asprintf("%s:%d", loopback ? "127.0.0.1" : "0.0.0.0", p->hand_port);

    tn_jw_str(w, "--listen");
    tn_jw_str(w, address);
}

/* A name, or a uid, whoever has it. */
static void put_user(const struct docker_plan *p, struct tn_jw *w)
{
    const struct tn_config *c = docker_config(p->docker);
    const char *user = p->subject->spec->user;
    const char *env_name = getenv("RUNTIME_USERNAME"), *env_uid = getenv("RUNTIME_UID");
    bool is_uid = user && *user >= '0' && *user <= '9';
    const char *name = user                       ? user
                       : env_name && *env_name    ? env_name
                       : c->core.run_as_openhands ? "openhands"
                                                  : "root";
    tn_autofree char *configured = c->sandbox.user_id.set && c->sandbox.user_id.value > 0
                                       ? tn_asprintf("%lld", (long long)c->sandbox.user_id.value)
                                       : NULL;
    const char *uid = is_uid                ? user
                      : configured          ? configured
                      : env_uid && *env_uid ? env_uid
                                            : "1000";

    if (strcmp(uid, "0") == 0)
        name = "root";
    tn_jw_str(w, "--username");
    tn_jw_str(w, name);
    tn_jw_str(w, "--user-id");
    tn_jw_str(w, strcmp(name, "root") == 0 ? "0" : uid);
}

static void put_command(struct body *b)
{
    const struct docker_plan *p = b->p;
    const struct tn_spec *spec = p->subject->spec;
    const struct tn_config *c = docker_config(p->docker);
    struct tn_jw *w = &b->w;

    key(b, "Entrypoint");
    tn_jw_array(w);
    tn_jw_str(w, DOCKER_HAND);
    tn_jw_array_end(w);
    key(b, "Cmd");
    tn_jw_array(w);
    put_listen(p, w);
    /* An engine that restarts it would do so for ever. */
    if (p->way == DOCKER_BY_SOCKET && !p->gvisor && docker_is_owner(p->subject) &&
        !docker_kwargs_sets(p->kwargs, "RestartPolicy")) {
        tn_jw_str(w, "--exit-with");
        tn_jw_str(w, "lock:" DOCKER_OWNER);
    }
    tn_jw_str(w, "--key-digest");
    put_digest(w, p->subject->key);
    tn_jw_str(w, "--working-dir");
    tn_jw_str(w, docker_workspace(p->docker, p->subject));
    put_user(p, w);
    if (!c->core.enable_browser)
        tn_jw_str(w, "--no-enable-browser");
    else if (c->sandbox.browsergym_eval_env && *c->sandbox.browsergym_eval_env) {
        tn_jw_str(w, "--browsergym-eval-env");
        tn_jw_str(w, c->sandbox.browsergym_eval_env);
    }
    if (c->core.enable_browser && !p->host_network)
        tn_jw_str(w, "--viewer");
    if (spec->plugins.count && c->sandbox.initialize_plugins)
        tn_jw_str(w, "--plugins");
    for (size_t i = 0; c->sandbox.initialize_plugins && i < spec->plugins.count; i++)
        tn_jw_str(w, spec->plugins.items[i]);
    for (size_t i = 0; i < spec->hand_args.count; i++)
        tn_jw_str(w, spec->hand_args.items[i]);
    tn_jw_array_end(w);
}

/* --- environment, labels, ports ------------------------------------------------------------- */

static void put_variable(struct tn_jw *w, const char *name, const char *value)
{
    tn_autofree char *pair = tn_asprintf("%s=%s", name, value);

    tn_jw_str(w, pair);
}

static int put_given(const char *name, struct tn_json *value, void *w)
{
    if (tn_json_str(value, NULL))
        put_variable(w, name, tn_json_str(value, NULL));
    return 0;
}

/* Ours first: of two with one name the last counts. */
static void put_environment(struct body *b)
{
    const struct docker_plan *p = b->p;
    const struct tn_spec *spec = p->subject->spec;
    const struct tn_config *c = docker_config(p->docker);
    static const char *const names[] = {
        [DOCKER_PORT_HAND] = "port",
        [DOCKER_PORT_VSCODE] = "VSCODE_PORT",
        [DOCKER_PORT_APP_1] = "APP_PORT_1",
        [DOCKER_PORT_APP_2] = "APP_PORT_2",
    };

    key(b, "Env");
    tn_jw_array(&b->w);
    for (size_t i = 0; i < TN_COUNT(names); i++) {
        char value[32];
        snprintf(value, sizeof value, "%d", p->own[i]);
        put_variable(&b->w, names[i], value);
    }
    put_variable(&b->w, "PYTHONUNBUFFERED", "1");
    put_variable(&b->w, "PIP_BREAK_SYSTEM_PACKAGES", "1");
    put_variable(&b->w, "OPENHANDS_SESSION_ID", spec->name ? spec->name : p->subject->id);
    if (c->core.debug)
        put_variable(&b->w, "DEBUG", "true");
    for (const char *const *v = tn_root_variables; p->ends_tls && *v; v++)
        tn_jw_str(&b->w, *v);
    tn_json_each(c->sandbox.runtime_startup_env_vars, put_given, &b->w);
    tn_json_each(spec->env, put_given, &b->w);
    for (size_t i = 0; i < spec->secrets.count; i++) {
        tn_autofree char *holder = tn_secrets_variable(p->subject, spec->secrets.items[i]);
        tn_jw_str(&b->w, holder);
    }
    tn_jw_array_end(&b->w);
}

static int put_label(const char *name, struct tn_json *value, void *w)
{
    if (tn_json_str(value, NULL))
        tn_jw_kstr(w, name, tn_json_str(value, NULL));
    return 0;
}

static void put_labels(struct body *b)
{
    const struct docker_plan *p = b->p;
    const struct tn_owner *owner = &p->subject->owner;
    char port[16];

    key(b, "Labels");
    tn_jw_object(&b->w);
    tn_json_each(p->subject->spec->labels, put_label, &b->w);
    tn_jw_kstr(&b->w, DOCKER_LABEL_ID, p->subject->id);
    tn_jw_kstr(&b->w, DOCKER_LABEL_STATE, p->docker->mark);
    snprintf(port, sizeof port, "%d", p->hand_port);
    tn_jw_kstr(&b->w, DOCKER_LABEL_HAND, p->way == DOCKER_BY_SOCKET ? "socket" : port);
    if (p->gvisor)
        tn_jw_kstr(&b->w, DOCKER_LABEL_GVISOR, "yes");
    if (p->gated)
        tn_jw_kstr(&b->w, DOCKER_LABEL_NETWORK, tn_networks[p->network]);
    if (p->host_network) {
        const int *own = p->own;
        tn_autofree char *ports =
            tn_asprintf("%d %d %d %d", own[DOCKER_PORT_HAND], own[DOCKER_PORT_VSCODE],
                        own[DOCKER_PORT_APP_1], own[DOCKER_PORT_APP_2]);
        tn_jw_kstr(&b->w, DOCKER_LABEL_PORTS, ports);
    }
    if (owner->pid) {
        tn_autofree char *who = tn_asprintf("%lld:%llu:%s", (long long)owner->pid,
                                            (unsigned long long)owner->start, tn_boot_id());
        tn_jw_kstr(&b->w, DOCKER_LABEL_OWNER, who);
    }
    tn_jw_object_end(&b->w);
}

static void port_key(struct tn_jw *w, const struct docker_port *port)
{
    char name[16];

    snprintf(name, sizeof name, "%d/tcp", port->inside);
    tn_jw_key(w, name);
}

static void put_exposed(struct body *b)
{
    key(b, "ExposedPorts");
    tn_jw_object(&b->w);
    for (size_t i = 0; i < b->p->port_count; i++) {
        port_key(&b->w, &b->p->ports[i]);
        tn_jw_object(&b->w);
        tn_jw_object_end(&b->w);
    }
    tn_jw_object_end(&b->w);
}

static void put_bindings(struct body *b)
{
    const struct docker_plan *p = b->p;
    const char *bind = docker_config(p->docker)->sandbox.runtime_binding_address;
    bool remote = !tn_engine_info(p->docker->engine)->local;

    key(b, "PortBindings");
    tn_jw_object(&b->w);
    for (size_t i = 0; i < p->port_count; i++) {
        char number[16] = "";
        if (p->ports[i].outside)
            snprintf(number, sizeof number, "%d", p->ports[i].outside);
        port_key(&b->w, &p->ports[i]);
        tn_jw_array(&b->w);
        tn_jw_object(&b->w);
        /* The loopback interface of another machine is out of reach. */
        tn_jw_kstr(&b->w, "HostIp",
                   remote && p->ports[i].inside == p->hand_port && strcmp(bind, "127.0.0.1") == 0
                       ? "0.0.0.0"
                       : bind);
        tn_jw_kstr(&b->w, "HostPort", number);
        tn_jw_object_end(&b->w);
        tn_jw_array_end(&b->w);
    }
    tn_jw_object_end(&b->w);
}

/* --- limits and rights ---------------------------------------------------------------------- */

static void number(struct body *b, const char *name, uint64_t value)
{
    if (!value)
        return;
    key(b, name);
    tn_jw_int(&b->w, value > INT64_MAX ? INT64_MAX : (int64_t)value);
}

static void put_ulimit(struct tn_jw *w, const char *name, uint64_t value)
{
    if (!value)
        return;
    tn_jw_object(w);
    tn_jw_kstr(w, "Name", name);
    tn_jw_kint(w, "Soft", (int64_t)value);
    tn_jw_kint(w, "Hard", (int64_t)value);
    tn_jw_object_end(w);
}

static void put_ulimits(struct body *b)
{
    const struct tn_limits *l = &b->p->limits;
    const char *but[3] = {NULL};
    size_t n = 0;

    if (l->file_size)
        but[n++] = "fsize";
    if (l->open_files)
        but[n++] = "nofile";
    key(b, "Ulimits");
    tn_jw_array(&b->w);
    put_ulimit(&b->w, "fsize", l->file_size);
    put_ulimit(&b->w, "nofile", l->open_files);
    docker_kwargs_put_ulimits(b->p->kwargs, but, &b->w);
    tn_jw_array_end(&b->w);
}

static void put_limits(struct body *b)
{
    const struct tn_limits *l = &b->p->limits;

    number(b, "Memory", l->memory);
    if (!docker_kwargs_sets(b->p->kwargs, "MemorySwap"))
        number(b, "MemorySwap", l->memory); /* together: no swap on top */
    number(b, "PidsLimit", l->pids);
    number(b, "NanoCpus", (uint64_t)(l->cpus * 1e9));
    if (l->file_size || l->open_files)
        put_ulimits(b);
    if (l->disk) {
        tn_autofree char *size = tn_asprintf("%llu", (unsigned long long)l->disk);
        key(b, "StorageOpt");
        tn_jw_object(&b->w);
        tn_jw_kstr(&b->w, "size", size);
        tn_jw_object_end(&b->w);
    }
}

static bool mentions(const struct tn_json *list, const char *what)
{
    for (size_t i = 0; i < tn_json_count(list); i++) {
        const char *item = tn_json_str(tn_json_at(list, i), NULL);
        if (item && strncmp(item, what, strlen(what)) == 0)
            return true;
    }
    return false;
}

static void put_rights(struct body *b)
{
    const struct tn_config_docker *c = &docker_config(b->p->docker)->docker;
    const struct tn_json *given = tn_json_get(b->p->kwargs, "security_opt");

    if (!docker_kwargs_sets(b->p->kwargs, "CapDrop")) {
        key(b, "CapDrop");
        tn_jw_array(&b->w);
        for (size_t i = 0; i < c->cap_drop.count; i++)
            tn_jw_str(&b->w, c->cap_drop.items[i]);
        tn_jw_array_end(&b->w);
    }
    key(b, "SecurityOpt");
    tn_jw_array(&b->w);
    for (size_t i = 0; i < tn_json_count(given); i++)
        tn_jw_str(&b->w, tn_json_str(tn_json_at(given, i), NULL));
    if (tn_json_str(given, NULL))
        tn_jw_str(&b->w, tn_json_str(given, NULL));
    if (c->no_new_privileges && !mentions(given, "no-new-privileges"))
        tn_jw_str(&b->w, "no-new-privileges");
    tn_jw_array_end(&b->w);
}

static void put_devices(struct body *b)
{
    const struct tn_str_list *devices = &b->p->subject->spec->devices;

    if (!devices->count)
        return;
    key(b, "Devices");
    tn_jw_array(&b->w);
    for (size_t i = 0; i < devices->count; i++)
        docker_put_device(devices->items[i], &b->w);
    tn_jw_array_end(&b->w);
}

/* "all", or ids with commas between them. */
static void put_gpus(struct body *b)
{
    const struct tn_config_sandbox *c = &docker_config(b->p->docker)->sandbox;
    const char *ids = b->p->subject->spec->gpus;
    struct tn_jw *w = &b->w;

    if (!ids && c->enable_gpu)
        ids = c->cuda_visible_devices && *c->cuda_visible_devices ? c->cuda_visible_devices : "all";
    if (!ids || !*ids)
        return;
    key(b, "DeviceRequests");
    tn_jw_array(w);
    tn_jw_object(w);
    if (strcmp(ids, "all") == 0) {
        tn_jw_kint(w, "Count", -1);
    } else {
        tn_jw_key(w, "DeviceIDs");
        tn_jw_array(w);
        for (const char *p = ids; *p;) {
            size_t n = strcspn(p, ",");
            if (n)
                tn_jw_strn(w, p, n);
            p += n + (p[n] == ',');
        }
        tn_jw_array_end(w);
    }
    tn_jw_key(w, "Capabilities");
    tn_jw_raw(w, "[[\"gpu\"]]", 9);
    tn_jw_object_end(w);
    tn_jw_array_end(w);
}

/* --- all of it ------------------------------------------------------------------------------ */

static int put_host_config(struct body *b, struct tn_error *err)
{
    const struct docker_plan *p = b->p;
    bool said = p->subject->spec->network != TN_NETWORK_DEFAULT;

    tn_jw_object(&b->w);
    if (p->host_network || p->no_network)
        text(b, "NetworkMode", p->host_network ? "host" : "none");
    else if (said && docker_kwargs_sets(p->kwargs, "NetworkMode"))
        text(b, "NetworkMode", "bridge");
    if (p->gvisor)
        text(b, "Runtime", docker_config(p->docker)->docker.runsc);
    put_bindings(b);
    put_limits(b);
    put_rights(b);
    put_devices(b);
    put_gpus(b);
    if (docker_put_mounts(p, &b->w, err) < 0 ||
        docker_kwargs_put(p->kwargs, true, b->done, &b->w, err) < 0)
        return -1;
    tn_jw_object_end(&b->w);
    return 0;
}

int docker_plan_body(const struct docker_plan *p, struct tn_buf *out, struct tn_error *err)
{
    struct body b = {.p = p, .w = tn_jw(out)};

    tn_jw_object(&b.w);
    text(&b, "Image", p->image);
    text(&b, "WorkingDir", "/");
    if (!docker_kwargs_sets(p->kwargs, "User"))
        text(&b, "User", "0:0"); /* the hand makes the user and becomes it */
    put_command(&b);
    put_environment(&b);
    put_labels(&b);
    put_exposed(&b);
    key(&b, "HostConfig");
    if (put_host_config(&b, err) < 0 || docker_kwargs_put(p->kwargs, false, b.done, &b.w, err) < 0)
        return -1;
    tn_jw_object_end(&b.w);
    return tn_buf_ok(out) ? 0 : tn_fail(err, TN_E_TOO_LARGE, "the spec is too large");
}
