/* How many jails one process starts at once. */
#include <sched.h>

#include "base/clock.h"
#include "base/thread.h"
#include "runtime/jail/jail.h"

/* More than the processors can work on only take them from each other, and the kernel's locks
 * (networks, control groups, mounts) with them: a hundred started at once are ready no sooner, but
 * each of them only with the last. */
#define PER_CPU 2

/* Who waited so long goes on all the same: those before may hang on something that is not ours. */
#define WAIT_SECONDS 1.0

void jail_turns_init(struct jail_turns *g)
{
    cpu_set_t cpus;

    pthread_mutex_init(&g->lock, NULL);
    tn_cond_init(&g->left);
    g->most = PER_CPU * (sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? CPU_COUNT(&cpus) : 1);
    g->inside = 0;
}

void jail_turns_done(struct jail_turns *g)
{
    pthread_cond_destroy(&g->left);
    pthread_mutex_destroy(&g->lock);
}

void jail_turns_enter(struct jail_turns *g, int64_t deadline)
{
    int64_t patience = tn_deadline_in(WAIT_SECONDS);
    struct timespec until = tn_timespec(patience < deadline ? patience : deadline);

    pthread_mutex_lock(&g->lock);
    while (g->inside >= g->most && pthread_cond_timedwait(&g->left, &g->lock, &until) == 0)
        ;
    g->inside++;
    pthread_mutex_unlock(&g->lock);
}

void jail_turns_leave(struct jail_turns *g)
{
    pthread_mutex_lock(&g->lock);
    g->inside--;
    pthread_cond_signal(&g->left);
    pthread_mutex_unlock(&g->lock);
}
