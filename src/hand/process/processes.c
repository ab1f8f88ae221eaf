/* All processes of a hand: finding them, and how long the ended ones are kept. */
#include <limits.h>

#include "base/clock.h"
#include "hand/process/process-internal.h"

enum { RUNNING_MAX = 64, ENDED_MAX = 64, ENDED_BYTES = 16 << 20 };
#define ENDED_SECONDS 600.0

struct tn_processes {
    struct tn_process_options options;
    pthread_mutex_t lock;
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
    free(all);
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
    struct tn_process *p = process_new(&all->options, spec, deadline, err);
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
