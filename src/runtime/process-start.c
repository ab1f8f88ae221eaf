/* Starting a hand as a plain process. */
#include <fcntl.h>
#include <sys/stat.h>

#include "base/account.h"
#include "base/child.h"
#include "base/fs.h"
#include "net/listen.h"
#include "net/pair.h"
#include "runtime/hand-plugins.h"
#include "runtime/owner.h"
#include "runtime/process.h"

#define PROGRAM "tendon-hand"

/* The number of its socket in the hand. */
#define LISTEN_FD 3

/* --- what cannot be kept ------------------------------------------------------------------- */

static bool wants_image(const struct tn_spec *s)
{
    return s->image;
}

static bool wants_volumes(const struct tn_spec *s)
{
    return s->volumes.count > 0;
}

static bool wants_network(const struct tn_spec *s)
{
    return s->network != TN_NETWORK_DEFAULT && s->network != TN_NETWORK_HOST;
}

static bool wants_rules(const struct tn_spec *s)
{
    return s->allow.count > 0;
}

static bool wants_ask(const struct tn_spec *s)
{
    return s->ask;
}

static bool wants_secrets(const struct tn_spec *s)
{
    return s->secrets.count > 0;
}

static bool wants_devices(const struct tn_spec *s)
{
    return s->devices.count > 0;
}

static bool wants_gpus(const struct tn_spec *s)
{
    return s->gpus;
}

static bool wants_memory(const struct tn_spec *s)
{
    return s->memory;
}

static bool wants_cpus(const struct tn_spec *s)
{
    return s->cpus.set;
}

static bool wants_pids(const struct tn_spec *s)
{
    return s->pids.set;
}

static bool wants_file_size(const struct tn_spec *s)
{
    return s->file_size;
}

static bool wants_open_files(const struct tn_spec *s)
{
    return s->open_files.set;
}

static bool wants_disk(const struct tn_spec *s)
{
    return s->disk;
}

static bool wants_wall_time(const struct tn_spec *s)
{
    return s->wall_time.set;
}

/* Somebody else than the user who asks. */
static bool wants_user(const struct tn_spec *s)
{
    tn_autouser struct tn_user me = {0};
    char *end;

    if (!s->user)
        return false;
    unsigned long long uid = strtoull(s->user, &end, 10);
    if (!*end)
        return uid != geteuid();
    return tn_user_by_uid(TN_FS_ANYWHERE, geteuid(), &me, NULL) < 0 || strcmp(me.name, s->user);
}

static const struct {
    const char *field;
    bool (*wanted)(const struct tn_spec *spec);
    const char *why;
} refusals[] = {
    {"image", wants_image, "it uses the file system of this machine as it is"},
    {"volumes", wants_volumes, "it sees the directories of this machine where they are"},
    {"network", wants_network, "it shares the network of this machine"},
    {"allow", wants_rules, "it shares the network of this machine"},
    {"ask", wants_ask, "it shares the network of this machine"},
    {"secrets", wants_secrets, "it has no gate that could put them in"},
    {"user", wants_user, "it runs as the user who starts it"},
    {"devices", wants_devices, "it sees the devices of this machine as they are"},
    {"gpus", wants_gpus, "it sees the devices of this machine as they are"},
    {"memory", wants_memory, "it cannot enforce limits"},
    {"cpus", wants_cpus, "it cannot enforce limits"},
    {"pids", wants_pids, "it cannot enforce limits"},
    {"file_size", wants_file_size, "it cannot enforce limits"},
    {"open_files", wants_open_files, "it cannot enforce limits"},
    {"disk", wants_disk, "it cannot enforce limits"},
    {"wall_time", wants_wall_time, "it cannot enforce limits"},
};

int tn_process_check(const char *runtime, const struct tn_spec *spec, struct tn_error *err)
{
    for (size_t i = 0; i < TN_COUNT(refusals); i++)
        if (refusals[i].wanted(spec))
            return tn_fail(err, TN_E_UNSUPPORTED,
                           "%s: the runtime %s has no such thing: %s (jail and docker do)",
                           refusals[i].field, runtime, refusals[i].why);
    return tn_plugins_check(spec, err);
}

/* --- its environment ----------------------------------------------------------------------- */

struct env {
    char **items;
    size_t count, cap;
};

/* Takes the entry; a later one of the same name replaces an earlier one. */
static void set(struct env *env, char *entry)
{
    size_t n = strcspn(entry, "=") + 1;

    for (size_t i = 0; i < env->count; i++) {
        if (strncmp(env->items[i], entry, n) == 0) {
            free(env->items[i]);
            env->items[i] = entry;
            return;
        }
    }
    if (env->count + 1 >= env->cap) {
        env->cap = env->cap ? env->cap * 2 : 64;
        env->items = tn_realloc(env->items, env->cap * sizeof *env->items);
    }
    env->items[env->count++] = entry;
    env->items[env->count] = NULL;
}

/* The environment as it is: no shell looks at it. */
static int set_variable(const char *name, struct tn_json *value, void *ctx)
{
    const char *text = tn_json_str(value, NULL);

    if (text)
        set(ctx, tn_asprintf("%s=%s", name, text));
    return 0;
}

char **tn_process_env(const struct tn_subject *subject, const char *key)
{
    static const char *const ours[] = {"SESSION_API_KEY=", TN_PROCESS_MARK "=", NULL};
    struct env env = {0};

    for (char **entry = environ; *entry; entry++) {
        bool dropped = !strchr(*entry, '=');
        for (const char *const *name = ours; *name; name++)
            dropped = dropped || strncmp(*entry, *name, strlen(*name)) == 0;
        if (!dropped)
            set(&env, tn_strdup(*entry));
    }
    set(&env, tn_asprintf("TMPDIR=%s/tmp", subject->directory));
    tn_json_each(subject->spec->env, set_variable, &env);
    set(&env, tn_asprintf(TN_PROCESS_MARK "=%s", subject->directory));
    if (key) {
        set(&env, tn_asprintf("SESSION_API_KEY=%s", key));
        set(&env, tn_strdup("SU_TO_USER=false")); /* it works for whoever starts it */
    }
    return env.items;
}

void tn_process_env_free(char **env)
{
    for (char **entry = env; entry && *entry; entry++)
        free(*entry);
    free(env);
}

static void guard_env(char ***env)
{
    tn_process_env_free(*env);
}

/* --- its arguments ------------------------------------------------------------------------- */

struct arguments {
    const char **items;
    size_t count;
    char owner[64], listen[32];
};

static void add(struct arguments *a, const char *item)
{
    a->items = tn_realloc(a->items, (a->count + 2) * sizeof *a->items);
    a->items[a->count++] = item;
    a->items[a->count] = NULL;
}

static void fill_arguments(struct arguments *a, const struct tn_process_engine *e,
                           const struct tn_subject *subject, const char *workspace, bool pair)
{
    const struct tn_spec *spec = subject->spec;

    snprintf(a->listen, sizeof a->listen, "%s:%d", pair ? "pair" : "fd", LISTEN_FD);
    add(a, PROGRAM);
    add(a, "--listen");
    add(a, a->listen);
    add(a, "--working-dir");
    add(a, workspace);
    if (!e->host->config->core.enable_browser)
        add(a, "--no-enable-browser");
    if (e->kind->confined)
        add(a, "--confine");
    if (subject->owner.pid) {
        snprintf(a->owner, sizeof a->owner, "%d:%llu", (int)subject->owner.pid,
                 (unsigned long long)subject->owner.start);
        add(a, "--exit-with");
        add(a, a->owner);
    }
    for (size_t i = 0; i < spec->plugins.count; i++) {
        add(a, "--plugins");
        add(a, spec->plugins.items[i]);
    }
    for (size_t i = 0; i < spec->hand_args.count; i++)
        add(a, spec->hand_args.items[i]);
}

/* --- starting ------------------------------------------------------------------------------ */

static int make_directory(const char *path, struct tn_error *err)
{
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return tn_fail_errno(err, errno, "%s", path);
    return 0;
}

/* Both ends of how to talk to it: what the hand inherits, and for a pair ours. */
struct line {
    int theirs, ours;
    char *address;
};

static void line_done(struct line *l)
{
    tn_close(l->theirs);
    tn_close(l->ours);
    free(l->address);
}

/* It can be connected to before the hand exists; the connection waits until that is ready. */
static int open_line(struct line *l, const struct tn_subject *subject, bool pair,
                     struct tn_error *err)
{
    struct tn_listen_address where;
    int ends[2];

    if (pair) {
        if (tn_pair_open(ends, err) < 0)
            return -1;
        l->ours = ends[0];
        l->theirs = ends[1];
        l->address = tn_pair_address(l->ours, err);
        return l->address ? 0 : -1;
    }
    l->address = tn_asprintf("unix:%s/hand.sock", subject->directory);
    if (tn_listen_parse(l->address, &where, err) < 0)
        return -1;
    /* The hand before is dead, but its last thread may not have let go of this yet. */
    if (unlink(where.path) < 0 && errno != ENOENT)
        return tn_fail_errno(err, errno, "%s", where.path);
    l->theirs = tn_listen_open(&where, err);
    return l->theirs < 0 ? -1 : 0;
}

static struct tn_child *spawn(const struct tn_process_engine *e, const struct tn_subject *subject,
                              const char *workspace, int socket, bool pair, int64_t deadline,
                              struct tn_error *err)
{
    tn_autofd int log = tn_fs_open_shared(subject->directory, TN_PROCESS_LOG,
                                          O_WRONLY | O_CREAT | O_APPEND, 0600, err);
    TN_CLEANUP(guard_env) char **env = tn_process_env(subject, subject->key);
    struct arguments a = {0};

    if (log < 0)
        return NULL;
    struct tn_child_fd fds[] = {{log, 1}, {log, 2}, {socket, LISTEN_FD}};
    fill_arguments(&a, e, subject, workspace, pair);
    struct tn_child *child = tn_child_start(&(struct tn_child_spec){.argv = a.items,
                                                                    .file = e->host->hand,
                                                                    .env = (const char *const *)env,
                                                                    .cwd = "/",
                                                                    .fds = fds,
                                                                    .fd_count = TN_COUNT(fds),
                                                                    .session = true,
                                                                    .deadline = deadline},
                                            err);
    free(a.items);
    return child;
}

/* Keeps handle and pair for as long as this process and the sandbox live. */
static void remember(struct tn_process_engine *e, const char *id, struct tn_child *child, int pair)
{
    struct tn_process_child *c = tn_calloc(1, sizeof *c);

    *c = (struct tn_process_child){.id = tn_strdup(id), .child = child, .pair = pair};
    pthread_mutex_lock(&e->lock);
    c->next = e->children;
    e->children = c;
    pthread_mutex_unlock(&e->lock);
}

void tn_process_forget(struct tn_process_engine *e, const char *id)
{
    struct tn_process_child *found = NULL;

    pthread_mutex_lock(&e->lock);
    for (struct tn_process_child **at = &e->children; *at; at = &(*at)->next) {
        if (strcmp((*at)->id, id) == 0) {
            found = *at;
            *at = found->next;
            break;
        }
    }
    pthread_mutex_unlock(&e->lock);
    if (!found)
        return;
    tn_child_wait(found->child, 0, NULL, NULL); /* buries it if it has ended */
    tn_child_free(found->child);
    tn_close(found->pair);
    free(found->id);
    free(found);
}

int tn_process_start(struct tn_process_engine *e, const struct tn_subject *subject,
                     struct tn_process_ref *ref, int64_t deadline, struct tn_error *err)
{
    tn_autofree char *stopped = tn_asprintf("%s/stopped", subject->directory);
    tn_autofree char *tmp = tn_asprintf("%s/tmp", subject->directory);
    TN_CLEANUP(line_done) struct line line = {.theirs = -1, .ours = -1};
    struct tn_owner me = tn_owner_self();
    bool pair = e->kind->pair && subject->owner.pid == me.pid && subject->owner.start == me.start;

    if (!e->host->hand)
        return tn_fail(err, TN_E_NOT_FOUND, "there is no " PROGRAM " to start");
    tn_process_forget(e, subject->id);
    if (make_directory(tmp, err) < 0 || open_line(&line, subject, pair, err) < 0)
        return -1;
    if (unlink(stopped) < 0 && errno != ENOENT)
        return tn_fail_errno(err, errno, "%s", stopped);
    struct tn_child *child = spawn(e, subject, ref->workspace, line.theirs, pair, deadline, err);
    if (!child)
        return -1;
    if (tn_proc_get(tn_child_pid(child), &ref->hand) < 0)
        ref->hand = (struct tn_proc){.pid = tn_child_pid(child)};
    free(ref->address);
    ref->address = TN_TAKE_PTR(line.address);
    remember(e, subject->id, child, TN_TAKE_FD(line.ours));
    return 0;
}
