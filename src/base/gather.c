#include "base/gather.h"

#include <errno.h>
#include <sched.h>
#include <stddef.h>

#include "base/clock.h"

#define PATIENCE (TN_MILLI / 4)

void tn_gather_init(struct tn_gather *g)
{
    pthread_mutex_init(&g->lock, NULL);
    g->first = NULL;
    g->last = &g->first;
    g->led = false;
    cpu_set_t processors;
    g->alone =
        sched_getaffinity(0, sizeof processors, &processors) == 0 && CPU_COUNT(&processors) == 1;
}

void tn_gather_done(struct tn_gather *g)
{
    pthread_mutex_destroy(&g->lock);
}

/* Work of the kind is done sooner than a thread falls asleep and wakes up; and one that does not
 * sleep leaves no processor to those who would come to wait here as well. */
static void wait_to_be_told(const struct tn_gather *g, struct tn_waiter *mine)
{
    int64_t patience = g->alone ? 0 : tn_now() + PATIENCE;

    while (sem_trywait(&mine->told) < 0) {
        if (tn_now() < patience)
            continue;
        while (sem_wait(&mine->told) < 0 && errno == EINTR)
            ;
        return;
    }
}

/* Whether it is on us to do the work. */
static bool join(struct tn_gather *g, struct tn_waiter *mine)
{
    pthread_mutex_lock(&g->lock);
    bool leads = !g->led;
    g->led = true;
    *g->last = mine;
    g->last = &mine->next;
    pthread_mutex_unlock(&g->lock);
    if (leads)
        return true;
    wait_to_be_told(g, mine);
    return mine->leads;
}

static struct tn_waiter *take_all(struct tn_gather *g)
{
    pthread_mutex_lock(&g->lock);
    struct tn_waiter *all = g->first;
    g->first = NULL;
    g->last = &g->first;
    pthread_mutex_unlock(&g->lock);
    return all;
}

static void hand_over(struct tn_gather *g)
{
    pthread_mutex_lock(&g->lock);
    struct tn_waiter *next = g->first;
    if (next)
        next->leads = true;
    else
        g->led = false;
    pthread_mutex_unlock(&g->lock);
    if (next)
        sem_post(&next->told);
}

void tn_gather(struct tn_gather *g, struct tn_waiter *mine, tn_gather_fn work, void *ctx)
{
    mine->next = NULL;
    mine->leads = false;
    sem_init(&mine->told, 0, 0);
    if (join(g, mine)) {
        struct tn_waiter *all = take_all(g);
        work(all, ctx);
        hand_over(g);
        for (struct tn_waiter *one = all, *next; one; one = next) {
            next = one->next; /* who was told is gone with all it had */
            if (one != mine)
                sem_post(&one->told);
        }
    }
    sem_destroy(&mine->told);
}
