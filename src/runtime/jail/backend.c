#include "runtime/backend.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/thread.h"
#include "runtime/gated.h"
#include "runtime/jail/jail.h"
#include "runtime/jail/layer.h"

static int open_engine(const struct tn_host *host, void **engine, struct tn_error *err)
{
    char *launcher = tn_gated_program(host, JAIL_PROGRAM, err);

    if (!launcher)
        return -1;
    struct jail_engine *e = tn_calloc(1, sizeof *e);
    e->host = host;
    e->launcher = launcher;
    if (tn_cgroups_find(&e->cgroups, err) < 0) {
        free(launcher);
        free(e);
        return -1;
    }
    e->built_in = jail_limits_built_in(host->config);
    jail_turns_init(&e->turns);
    pthread_mutex_init(&e->early_lock, NULL);
    tn_cond_init(&e->early_came);
    e->early = JAIL_LAUNCHER_NONE;
    jail_nursery_init(&e->nursery);
    jail_walks_init(&e->walks);
    *engine = e;
    return 0;
}

static void close_engine(void *engine)
{
    struct jail_engine *e = engine;

    if (!e)
        return;
    jail_launcher_expect_none(e);
    jail_nursery_done(&e->nursery);
    jail_walks_done(&e->walks);
    pthread_cond_destroy(&e->early_came);
    pthread_mutex_destroy(&e->early_lock);
    jail_turns_done(&e->turns);
    tn_cgroups_done(&e->cgroups);
    free(e->launcher);
    free(e);
}

/* The directories of sandboxes lie far from each other, as those of layers do. */
static void spread_sandboxes(const struct tn_subject *subject)
{
    tn_autofree char *above = tn_asprintf("%s/..", subject->directory);
    tn_autofd int fd = open(above, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd >= 0)
        jail_spread_directories(fd);
}

static void expect(void *engine)
{
    jail_launcher_expect(engine);
}

static int create(void *engine, const struct tn_subject *subject, struct tn_place *place,
                  int64_t deadline, struct tn_error *err)
{
    struct jail_engine *e = engine;
    jail_autostorage struct jail_storage s = {0};

    jail_storage_init(&s);
    spread_sandboxes(subject);
    if (jail_root_find(e, subject, &s, deadline, err) < 0) {
        place->blame = TN_BLAME_IMAGE;
        return -1;
    }
    if (jail_storage_save(subject->directory, &s, err) < 0)
        return -1;
    return jail_launch(e, subject, &s, place, deadline, err);
}

/* --- what there is ---------------------------------------------------------------------------- */

struct listing {
    const char *state;
    tn_found_fn found;
    void *ctx;
};

static bool has_directory(const char *state, const char *id)
{
    tn_autofree char *path = tn_asprintf("%s/sandbox/%s", state, id);
    return access(path, F_OK) == 0;
}

/* Users of layers whose directory the keeper has removed already. */
static int list_user(const char *id, void *ctx)
{
    const struct listing *l = ctx;
    return has_directory(l->state, id) ? 0 : l->found(id, l->ctx);
}

/* Only what has a mark in our own state directory: the cgroups of this machine also hold sandboxes
 * of other users and other state directories. */
static int list(void *engine, tn_found_fn found, void *ctx, int64_t deadline, struct tn_error *err)
{
    const struct jail_engine *e = engine;
    struct listing l = {.state = e->host->state, .found = found, .ctx = ctx};
    tn_autofree char *path = tn_asprintf("%s/sandbox", e->host->state);
    DIR *dir = opendir(path);
    int r = 0;

    for (struct dirent *entry; r == 0 && dir && (entry = readdir(dir));) {
        tn_autofree char *mark = tn_asprintf("%s/%s/" JAIL_STORAGE_FILE, path, entry->d_name);
        if (entry->d_name[0] != '.' && access(mark, F_OK) == 0)
            r = found(entry->d_name, ctx);
    }
    if (dir)
        closedir(dir);
    return r ? r : jail_layer_users(l.state, list_user, &l, err);
}

const struct tn_backend tn_backend_jail = {
    .name = "jail",
    .summary = "a sandbox of this machine's kernel: namespaces, limits, layers; nothing to install",
    .abilities = TN_CAN_PAUSE | TN_CAN_STOP | TN_CAN_SNAPSHOT | TN_CAN_LIMIT | TN_CAN_ISOLATE |
                 TN_CAN_IMAGE | TN_CAN_NETWORK_NONE | TN_CAN_SUSPEND | TN_CAN_GVISOR |
                 TN_CAN_SECRETS | TN_CAN_CHANGE_ENV,
    .open = open_engine,
    .close = close_engine,
    .check = jail_check,
    .expect = expect,
    .create = create,
    .inspect = jail_inspect,
    .drive = jail_drive,
    .list = list,
    .put = jail_put,
    .exec = jail_exec,
    .rename = jail_rename,
    .network = jail_network,
    .refusals = tn_gated_refusals,
    .reload = jail_reload,
    .listen = tn_gated_listen,
    .let = tn_gated_let,
    .logs = jail_logs,
    .usage = jail_usage,
    .process = jail_process,
    .snapshot = jail_snapshot,
    .forget = jail_forget,
    .rollback = jail_rollback,
    .fork = jail_fork,
    .doctor = jail_doctor,
};
