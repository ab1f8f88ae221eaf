/* All processes of a hand: finding them, and how long the ended ones are kept. */
#include <limits.h>

#include "base/clock.h"
#include "hand/process/process-internal.h"

enum {
    RUNNING_MAX = 64,
    ENDED_MAX = 64,
    ENDED_BYTES = 16 << 20,
    ENV_BYTES = 1 << 20,
    NAMES_MAX = 4096
};
#define ENDED_SECONDS 600.0

struct tn_processes {
    struct tn_process_options options; /* its env: under the lock */
    pthread_mutex_t lock;
    char **env;               /* the options' after a change, or NULL */
    struct tn_process *first; /* the oldest; each is a reference */
    size_t starting;
    bool closing;
};

struct tn_processes *tn_processes_new(const struct tn_process_options *options)
{
    struct tn_processes *all = tn_calloc(1, sizeof *all);

    all->options = *options;
    pthread_mutex_init(&all->lock, NULL);
    return all;
}

void tn_processes_close(struct tn_processes *all)
{
    pthread_mutex_lock(&all->lock);
    all->closing = true;
    pthread_mutex_unlock(&all->lock);
}

/* --- what is kept ----------------------------------------------------------------------------- */

/* It is in no list any more: its thread ends as soon as the process has. */
static void forget(struct tn_process **at)
{
    struct tn_process *p = *at;

    *at = p->next;
    pthread_mutex_lock(&p->lock);
    p->removed = true;
    pthread_mutex_unlock(&p->lock);
    process_wake(p);
    tn_process_unref(p);
}

static bool is_ended(struct tn_process *p, int64_t *when)
{
    pthread_mutex_lock(&p->lock);
    bool ended = p->over;
    *when = p->ended_at;
    pthread_mutex_unlock(&p->lock);
    return ended;
}

/* The oldest of those that have ended go first.  How many run. */
static size_t sweep(struct tn_processes *all)
{
    size_t running = 0, ended = 0, bytes = 0;
    int64_t when;

    for (struct tn_process *p = all->first; p; p = p->next) {
        if (is_ended(p, &when)) {
            ended++;
            bytes += process_bytes(p);
        } else {
            running++;
        }
    }
    for (struct tn_process **at = &all->first; *at;) {
        if (!is_ended(*at, &when) || (ended <= ENDED_MAX && bytes <= ENDED_BYTES &&
                                      tn_now() < when + (int64_t)(ENDED_SECONDS * 1e9))) {
            at = &(*at)->next;
            continue;
        }
        ended--;
        bytes -= process_bytes(*at);
        forget(at);
    }
    return running;
}

void tn_processes_free(struct tn_processes *all)
{
    if (!all)
        return;
    while (all->first)
        forget(&all->first);
    pthread_mutex_destroy(&all->lock);
    tn_agent_env_free(all->env);
    free(all);
}

/* --- their variables -------------------------------------------------------------------------- */

static size_t count_of(char *const *env)
{
    size_t count = 0;

    while (env[count])
        count++;
    return count;
}

static char **copy_env(char *const *env, size_t more)
{
    char **copy = tn_calloc(count_of(env) + more + 1, sizeof *copy);

    for (size_t i = 0; env[i]; i++)
        copy[i] = tn_strdup(env[i]);
    return copy;
}

/* The last one takes its place. */
static void drop(char **env, const char *name)
{
    size_t n = strlen(name), count = count_of(env);

    for (size_t i = 0; i < count;) {
        if (strncmp(env[i], name, n) != 0 || env[i][n] != '=') {
            i++;
            continue;
        }
        free(env[i]);
        env[i] = env[--count];
        env[count] = NULL;
    }
}

static int put(const char *name, struct tn_json *value, void *ctx)
{
    char **env = ctx;

    drop(env, name);
    env[count_of(env)] = tn_asprintf("%s=%s", name, tn_json_str(value, NULL));
    return 0;
}

static int check_env(const struct tn_json *unset, const struct tn_json *set, struct tn_error *err)
{
    if (tn_json_count(unset) > NAMES_MAX || tn_json_count(set) > NAMES_MAX)
        return tn_fail(err, TN_E_TOO_LARGE, "env: expected at most %d names", NAMES_MAX);
    for (size_t i = 0; i < tn_json_count(unset); i++) {
        const char *name = tn_json_str(tn_json_at(unset, i), NULL);
        if (!name)
            return tn_fail(err, TN_E_INVALID, "unset: expected names");
        if (tn_process_check_name(name, err))
            return -1;
    }
    return tn_json_each(set, tn_process_check_variable, err) ? -1 : 0;
}

int tn_processes_change_env(struct tn_processes *all, const struct tn_json *unset,
                            const struct tn_json *set, struct tn_error *err)
{
    size_t bytes = 0;

    if (check_env(unset, set, err))
        return -1;
    pthread_mutex_lock(&all->lock);
    char **env = copy_env(all->options.env, tn_json_count(set));
    for (size_t i = 0; i < tn_json_count(unset); i++)
        drop(env, tn_json_str(tn_json_at(unset, i), NULL));
    tn_json_each(set, put, env);
    for (size_t i = 0; env[i]; i++)
        bytes += strlen(env[i]) + 1;
    if (bytes <= ENV_BYTES) {
        char **old = all->env;
        all->options.env = all->env = env;
        env = old;
    }
    pthread_mutex_unlock(&all->lock);
    tn_agent_env_free(env);
    return bytes <= ENV_BYTES
               ? 0
               : tn_fail(err, TN_E_TOO_LARGE, "env: more than %d KiB in all", ENV_BYTES >> 10);
}

/* --- starting --------------------------------------------------------------------------------- */

static int enter(struct tn_processes *all, struct tn_error *err)
{
    int r = 0;

    pthread_mutex_lock(&all->lock);
    if (all->closing)
        r = tn_fail(err, TN_E_BUSY, "the hand is stopping");
    else if (sweep(all) + all->starting >= RUNNING_MAX)
        r = tn_fail(err, TN_E_BUSY, "%d processes run already; end one first", RUNNING_MAX);
    else
        all->starting++;
    pthread_mutex_unlock(&all->lock);
    return r;
}

struct tn_process *tn_processes_start(struct tn_processes *all, const struct tn_process_spec *spec,
                                      int64_t deadline, struct tn_error *err)
{
    if (enter(all, err))
        return NULL;
    pthread_mutex_lock(&all->lock);
    struct tn_process_options options = all->options;
    char **env = copy_env(options.env, 0); /* somebody may change them meanwhile */
    pthread_mutex_unlock(&all->lock);
    options.env = env;
    struct tn_process *p = process_new(&options, spec, deadline, err);
    tn_agent_env_free(env);
    if (p && process_begin(p, err)) {
        tn_process_unref(p);
        p = NULL;
    }
    pthread_mutex_lock(&all->lock);
    all->starting--;
    if (p) {
        struct tn_process **at = &all->first;
        while (*at)
            at = &(*at)->next;
        *at = process_ref(p);
    }
    pthread_mutex_unlock(&all->lock);
    return p;
}

/* --- finding ---------------------------------------------------------------------------------- */

static bool fits(const struct tn_process *p, const char *which)
{
    static const char tag[] = "tag:";
    char pid[24];

    if (strncmp(which, tag, sizeof tag - 1) == 0)
        return p->tag && strcmp(p->tag, which + sizeof tag - 1) == 0;
    snprintf(pid, sizeof pid, "%d", (int)p->pid);
    return strcmp(which, p->id) == 0 || strcmp(which, pid) == 0;
}

struct tn_process *tn_processes_find(struct tn_processes *all, const char *which,
                                     struct tn_error *err)
{
    struct tn_process *found = NULL;
    bool runs = false;

    pthread_mutex_lock(&all->lock);
    sweep(all);
    for (struct tn_process *p = all->first; p; p = p->next) {
        int64_t unused;
        bool its = !is_ended(p, &unused);
        if (!fits(p, which) || (runs && !its))
            continue;
        found = p;
        runs = its;
    }
    if (found)
        process_ref(found);
    pthread_mutex_unlock(&all->lock);
    if (!found)
        tn_fail(err, TN_E_NOT_FOUND, "no such process, or it ended long ago: %.140s", which);
    return found;
}

void tn_processes_each(struct tn_processes *all, void (*fn)(struct tn_process *p, void *ctx),
                       void *ctx)
{
    pthread_mutex_lock(&all->lock);
    sweep(all);
    for (struct tn_process *p = all->first; p; p = p->next)
        fn(p, ctx);
    pthread_mutex_unlock(&all->lock);
}

void tn_processes_remove(struct tn_processes *all, struct tn_process *p)
{
    process_kill(p);
    pthread_mutex_lock(&all->lock);
    for (struct tn_process **at = &all->first; *at; at = &(*at)->next)
        if (*at == p) {
            forget(at);
            break;
        }
    pthread_mutex_unlock(&all->lock);
}
