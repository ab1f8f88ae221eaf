#include "base/clock.h"
#include "gate/rules.h"
#include "net/listen.h"
#include "runtime/gated.h"
#include "runtime/hand-plugins.h"
#include "runtime/jail/jail.h"
#include "runtime/jail/layer.h"
#include "runtime/jail/suspend.h"
#include "runtime/secrets.h"

#define WORKSPACE "/workspace"
#define FILES_SECONDS_MOST 86400.0 /* for whoever has no deadline */

/* --- lists ---------------------------------------------------------------------------------- */

static void add(struct tn_str_list *list, char *owned)
{
    list->items = tn_realloc(list->items, (list->count + 2) * sizeof *list->items);
    list->items[list->count++] = owned;
    list->items[list->count] = NULL;
}

static void add_copy(struct tn_str_list *list, const char *text)
{
    add(list, tn_strdup(text));
}

static void set_text(char **to, const char *text)
{
    free(*to);
    *to = tn_strdup(text);
}

/* --- the program and its environment --------------------------------------------------------- */

/* Takes NAME=value over; a later one of the same name replaces an earlier one. */
static void set_variable(struct tn_str_list *env, char *entry)
{
    size_t n = strcspn(entry, "=") + 1;

    for (size_t i = 0; i < env->count; i++) {
        if (strncmp(env->items[i], entry, n) == 0) {
            free(env->items[i]);
            env->items[i] = entry;
            return;
        }
    }
    add(env, entry);
}

static int set_member(const char *name, struct tn_json *value, void *ctx)
{
    const char *text = tn_json_str(value, NULL);

    if (text)
        set_variable(ctx, tn_asprintf("%s=%s", name, text));
    return 0;
}

void jail_environment(const struct tn_subject *subject, const struct jail_storage *s,
                      struct tn_str_list *env)
{
    static const char *const ours[] = {JAIL_PATH_ENTRY, "HOME=/root", "TMPDIR=/tmp"};
    static const char *const locale[] = {"LANG=", "LC_ALL=", "LC_CTYPE="};
    bool localised = false;

    for (size_t i = 0; i < TN_COUNT(ours); i++)
        set_variable(env, tn_strdup(ours[i]));
    for (size_t i = 0; i < s->image.env.count; i++)
        set_variable(env, tn_strdup(s->image.env.items[i]));
    tn_json_each(subject->spec->env, set_member, env);
    for (size_t i = 0; i < subject->spec->secrets.count; i++)
        set_variable(env, tn_secrets_variable(subject, subject->spec->secrets.items[i]));
    /* Only what characters are differs from the locale C: every program that asks for its locale
     * would open a dozen files more for LANG. */
    for (size_t i = 0; i < env->count; i++)
        for (size_t k = 0; k < TN_COUNT(locale); k++)
            localised = localised || strncmp(env->items[i], locale[k], strlen(locale[k])) == 0;
    if (!localised)
        add_copy(env, "LC_CTYPE=C.UTF-8");
}

/* "name", "name:group", "1000" or "1000:1000" as images write it. */
static bool is_root(const char *name)
{
    bool number = *name && strspn(name, "0123456789") == strlen(name);

    return strcmp(name, "root") == 0 || (number && strtoull(name, NULL, 10) == 0);
}

static int check_user(const char *user, struct tn_error *err)
{
    tn_autofree char *name = tn_strndup(user, strcspn(user, ":"));

    if (is_root(name) || geteuid() == 0)
        return 0;
    return tn_fail(err, TN_E_UNSUPPORTED,
                   "user %s: a jail of an ordinary user has no user but root, who is %u outside",
                   user, (unsigned)geteuid());
}

static int plan_user(const char *user, struct tn_jail_plan *plan, struct tn_error *err)
{
    tn_autofree char *name = tn_strndup(user, strcspn(user, ":"));

    if (check_user(user, err) < 0)
        return -1;
    add_copy(&plan->argv, "--username");
    add_copy(&plan->argv, is_root(name) ? "root" : name);
    return 0;
}

static int plan_program(const struct jail_engine *e, const struct tn_subject *subject,
                        const struct jail_storage *s, struct tn_jail_plan *plan,
                        struct tn_error *err)
{
    const struct tn_spec *spec = subject->spec;
    const char *user = spec->user ? spec->user : s->image.user ? s->image.user : "root";

    if (!e->host->hand)
        return tn_fail(err, TN_E_NOT_FOUND, "tendon-hand, the program that runs in a sandbox");
    set_text(&plan->hand, e->host->hand);
    add_copy(&plan->argv, "tendon-hand");
    add_copy(&plan->argv, "--listen");
    add(&plan->argv, tn_asprintf("%s:%d", plan->runsc ? "pair" : "fd", JAIL_LISTEN_FD));
    add_copy(&plan->argv, "--working-dir");
    add_copy(&plan->argv, plan->workspace);
    if (plan_user(user, plan, err) < 0)
        return -1;
    add_copy(&plan->argv,
             e->host->config->core.enable_browser ? "--viewer" : "--no-enable-browser");
    if (plan->network == TN_JAIL_NET_HOST) /* others' loopback too */
        add_copy(&plan->argv, "--viewer-secret");
    if (plan->criu) /* what it restored it could not write down again */
        add_copy(&plan->argv, "--traceable");
    for (size_t i = 0; i < spec->plugins.count; i++) {
        add_copy(&plan->argv, "--plugins");
        add_copy(&plan->argv, spec->plugins.items[i]);
    }
    for (size_t i = 0; i < spec->hand_args.count; i++)
        add_copy(&plan->argv, spec->hand_args.items[i]);
    if (plan->criu || plan->runsc) {
        plan->socket_fd = JAIL_LISTEN_FD;
    } else {
        plan->fds.items = tn_calloc(1, sizeof *plan->fds.items);
        plan->fds.items[0] = JAIL_LISTEN_FD;
        plan->fds.count = 1;
    }
    jail_environment(subject, s, &plan->env);
    set_variable(&plan->env, tn_asprintf("SESSION_API_KEY=%s", subject->key));
    return 0;
}

/* --- storage and limits --------------------------------------------------------------------- */

/* With a disk limit everything lives on a tmpfs; what earlier layers hold counts too. */
static int plan_storage(const struct jail_engine *e, const struct tn_subject *subject,
                        const struct jail_storage *s, uint64_t disk, struct tn_jail_plan *plan,
                        struct tn_error *err)
{
    uint64_t held = 0;

    if (!disk) {
        set_text(&plan->storage, subject->directory);
        return 0;
    }
    for (size_t i = 0; i < s->layers.count; i++)
        held += jail_layer_size(e->host->state, s->layers.items[i]);
    if (held >= disk) {
        char limit[32];
        jail_size_text(limit, disk);
        return tn_fail(err, TN_E_TOO_LARGE,
                       "disk: the files that the sandbox begins with fill its limit of %s", limit);
    }
    plan->tmpfs_bytes = (int64_t)(disk - held);
    tn_autofree char *upper = tn_asprintf("%s/upper", subject->directory);
    if (access(upper, F_OK) == 0)
        plan->seed = TN_TAKE_PTR(upper);
    return 0;
}

static int plan_limits(const struct jail_engine *e, const struct tn_subject *subject,
                       const struct jail_storage *s, struct tn_jail_plan *plan,
                       struct jail_ref *ref, struct tn_error *err)
{
    struct tn_limits limits;

    if (jail_limits(e, subject->spec, &limits, err) < 0 ||
        plan_storage(e, subject, s, limits.disk, plan, err) < 0)
        return -1;
    plan->memory = (int64_t)limits.memory;
    plan->file_size = (int64_t)limits.file_size;
    plan->pids = (int64_t)limits.pids;
    plan->open_files = (int64_t)limits.open_files;
    plan->cpus = limits.cpus;
    if (limits.wall_time > 0) {
        plan->wall_time = limits.wall_time - s->ran;
        if (plan->wall_time <= 0)
            return tn_fail(err, TN_E_CONFLICT, "wall_time: its %g seconds are over",
                           limits.wall_time);
    }
    ref->memory = plan->memory;
    ref->pids = plan->pids;
    ref->disk = (int64_t)limits.disk;
    ref->wall_time = limits.wall_time;
    ref->workspace = tn_strdup(plan->workspace);
    return 0;
}

/* Inside must trust the authority of a gate that looks into TLS, and nobody shows it there. */
static int check_vault(const struct tn_host *host, const struct tn_spec *spec, struct tn_error *err)
{
    bool gvisor = tn_config_wants_gvisor(host->config, spec);

    if ((!spec->secrets.count && !tn_gated_look_inside(&spec->allow)) ||
        (!gvisor && !host->config->jail.suspend))
        return 0;
    return tn_fail(
        err, TN_E_UNSUPPORTED, "%s: %s cannot have %s", spec->secrets.count ? "secrets" : "allow",
        gvisor ? "a jail under gVisor (isolation)" : "a jail that can be suspended (jail.suspend)",
        spec->secrets.count ? "any" : "rules about paths or methods inside TLS");
}

static int check_spec(const struct tn_host *host, const struct tn_spec *spec, struct tn_error *err)
{
    const struct tn_str_list *allow;
    int network = jail_network(host, spec, NULL, &allow);

    if (network == TN_NETWORK_BRIDGE)
        return tn_fail(err, TN_E_UNSUPPORTED,
                       "network: a jail has none, open, allow, or that of the host; bridge is for "
                       "docker");
    if (tn_gated_check(network, spec, err) < 0 || check_vault(host, spec, err) < 0)
        return -1;
    return spec->user ? check_user(spec->user, err) : 0;
}

int jail_check(const struct tn_host *host, const struct tn_spec *spec, struct tn_error *err)
{
    bool of_host = !spec->image && !host->config->jail.rootfs;

    if (check_spec(host, spec, err) < 0 || (of_host && tn_plugins_check(spec, err) < 0))
        return -1;
    return jail_plan_gvisor(host, spec, NULL, err);
}

static int plan_network(const struct jail_engine *e, const struct tn_spec *spec,
                        struct tn_jail_plan *plan, struct tn_error *err)
{
    static const enum tn_jail_network kinds[] = {
        [TN_NETWORK_HOST] = TN_JAIL_NET_HOST,
        [TN_NETWORK_OPEN] = TN_JAIL_NET_OPEN,
        [TN_NETWORK_ALLOW] = TN_JAIL_NET_ALLOW,
    };
    const struct tn_str_list *allow;
    int network = jail_network(e->host, spec, NULL, &allow);

    if (check_spec(e->host, spec, err) < 0)
        return -1;
    plan->network = kinds[network];
    if (!allow)
        return 0;
    plan->ask_seconds = spec->ask ? e->host->config->jail.ask_seconds : 0;
    for (size_t i = 0; i < allow->count; i++)
        add_copy(&plan->allow, allow->items[i]);
    plan->gate_optional =
        !tn_config_network_is_said(e->host->config, spec->network) && !spec->secrets.count;
    plan->gate = tn_gated_program(e->host, TN_GATED_GATE, err);
    return plan->gate ? 0 : -1;
}

/* What only its gate may know, where that has to know anything; else *vault is -1. */
static int plan_vault(const struct jail_engine *e, const struct tn_subject *subject,
                      struct tn_jail_plan *plan, int *vault, struct tn_error *err)
{
    tn_autorules struct tn_rules rules = {0};

    *vault = -1;
    for (size_t i = 0; i < plan->allow.count; i++)
        if (tn_rules_add(&rules, plan->allow.items[i], err) < 0)
            return tn_error_context(err, "allow");
    if (!subject->spec->secrets.count && !tn_rules_look_inside(&rules))
        return 0;
    *vault = tn_secrets_vault(e->host, subject, false, &plan->authority, err);
    plan->vault_fd = *vault < 0 ? 0 : TN_JAIL_VAULT_FD;
    return *vault < 0 ? -1 : 0;
}

/* Whether it may be suspended is decided when it starts. */
static int plan_criu(const struct jail_engine *e, const struct tn_subject *subject,
                     struct tn_jail_plan *plan, int64_t deadline, struct tn_error *err)
{
    plan->restored = jail_has_mark(subject, TN_JAIL_SUSPENDED);
    if (plan->restored && plan->runsc)
        return tn_fail(err, TN_E_CONFLICT,
                       "isolation gvisor: it was suspended without, and cannot go on with it; stop "
                       "it first");
    if (plan->runsc || (!plan->restored && !e->host->config->jail.suspend))
        return 0;
    tn_autofree char *obstacle = jail_suspend_obstacle(e, &plan->criu, deadline);
    return obstacle ? tn_fail(err, TN_E_UNSUPPORTED, "jail.suspend: %s", obstacle) : 0;
}

static int fill_plan(const struct jail_engine *e, const struct tn_subject *subject,
                     const struct jail_storage *s, struct tn_jail_plan *plan, struct jail_ref *ref,
                     int64_t deadline, struct tn_error *err)
{
    const struct tn_spec *spec = subject->spec;
    const char *workdir =
        s->image.workdir && strcmp(s->image.workdir, "/") != 0 ? s->image.workdir : WORKSPACE;

    set_text(&plan->id, subject->id);
    set_text(&plan->directory, subject->directory);
    set_text(&plan->hostname, spec->name ? spec->name : subject->id);
    set_text(&plan->workspace, spec->workspace ? spec->workspace : workdir);
    plan->log = tn_asprintf("%s/" JAIL_LOG, subject->directory);
    plan->mapping =
        geteuid() == 0 && !e->host->config->jail.unprivileged ? TN_JAIL_MAP_NONE : TN_JAIL_MAP_AUTO;
    plan->new_privs = !e->host->config->jail.no_new_privileges;
    plan->owner_pid = subject->owner.pid;
    plan->owner_start = (int64_t)subject->owner.start;
    if (jail_plan_gvisor(e->host, spec, plan, err) < 0 ||
        plan_criu(e, subject, plan, deadline, err) < 0 || plan_network(e, spec, plan, err) < 0 ||
        jail_root_plan(e, s, plan, err) < 0 || jail_mounts_plan(e, spec, plan, err) < 0 ||
        plan_limits(e, subject, s, plan, ref, err) < 0)
        return -1;
    return plan_program(e, subject, s, plan, err);
}

/* --- starting it ----------------------------------------------------------------------------- */

/* The one that the hand will listen on; a jail that may be suspended makes its own.  Whoever had
 * one before is dead, but may be closing its files yet: it would look as if it were in use. */
static int open_socket(const struct tn_subject *subject, struct tn_error *err)
{
    tn_autofree char *address = jail_address(subject);
    struct tn_listen_address where;

    if (jail_set_mark(subject, TN_JAIL_SOCKET, false, err) < 0 ||
        tn_listen_parse(address, &where, err) < 0)
        return -1;
    return tn_listen_open(&where, err);
}

/* That files may take to be copied. */
static double seconds_until(int64_t deadline)
{
    double left = (double)(deadline - tn_now()) / (double)TN_SECOND;

    return left < 0 ? 0 : left > FILES_SECONDS_MOST ? FILES_SECONDS_MOST : left;
}

int jail_launch_begin(struct jail_engine *e, const struct tn_subject *subject,
                      const struct jail_storage *s, int files, struct jail_start *start,
                      int64_t deadline, struct tn_error *err)
{
    tn_autoplan struct tn_jail_plan plan;
    tn_autofd int vault = -1;

    *start = (struct jail_start){.launcher = JAIL_LAUNCHER_NONE};
    tn_jail_plan_init(&plan);
    plan.files_fd = files < 0 ? 0 : JAIL_FILES_FD;
    plan.files_seconds = files < 0 ? 0 : seconds_until(deadline);
    if (fill_plan(e, subject, s, &plan, &start->ref, deadline, err) < 0 ||
        plan_vault(e, subject, &plan, &vault, err) < 0 ||
        jail_set_mark(subject, "end.json", false, err) < 0)
        return -1;
    tn_autofd int socket = plan.criu ? -1 : open_socket(subject, err);
    if (socket < 0 && !plan.criu)
        return -1;
    return jail_launcher_start(e, subject, &plan, socket, files, vault, &start->launcher, deadline,
                               err);
}

int jail_launch_finish(const struct tn_subject *subject, struct jail_start *start,
                       struct tn_place *place, int64_t deadline, struct tn_error *err)
{
    struct jail_ref *ref = &start->ref;

    if (jail_launcher_finish(&start->launcher, ref, place, deadline, err) < 0)
        return -1;
    if (jail_set_mark(subject, JAIL_STOPPED, false, err) < 0)
        return -1;
    place->status = TN_STATUS_RUNNING;
    place->address = jail_address(subject);
    place->ref = jail_ref_write(ref);
    return 0;
}

void jail_start_done(struct jail_start *start)
{
    jail_launcher_done(&start->launcher);
    jail_ref_done(&start->ref);
}

int jail_launch(struct jail_engine *e, const struct tn_subject *subject,
                const struct jail_storage *s, struct tn_place *place, int64_t deadline,
                struct tn_error *err)
{
    TN_CLEANUP(jail_start_done) struct jail_start start;

    if (jail_launch_begin(e, subject, s, -1, &start, deadline, err) < 0)
        return -1;
    return jail_launch_finish(subject, &start, place, deadline, err);
}
