#include "base/thread.h"

#include <signal.h>
#include <time.h>

enum { STACK_BYTES = 256 << 10 };

int tn_thread_start(pthread_t *thread, void *(*run)(void *), void *arg)
{
    pthread_attr_t attr;
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    int r = pthread_create(thread, &attr, run, arg);
    pthread_attr_destroy(&attr);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return r;
}

struct share {
    size_t count, next; /* next: atomic */
    void (*work)(size_t i, void *ctx);
    void *ctx;
};

static void *take_shares(void *arg)
{
    struct share *s = arg;

    for (size_t i; (i = __atomic_fetch_add(&s->next, 1, __ATOMIC_RELAXED)) < s->count;)
        s->work(i, s->ctx);
    return NULL;
}

void tn_thread_share(size_t count, void (*work)(size_t i, void *ctx), void *ctx)
{
    struct share s = {.count = count, .work = work, .ctx = ctx};
    pthread_t threads[TN_SHARE_AT_ONCE - 1];
    size_t started = 0;

    while (started < TN_SHARE_AT_ONCE - 1 && started + 1 < count &&
           tn_thread_start(&threads[started], take_shares, &s) == 0)
        started++;
    take_shares(&s);
    while (started)
        pthread_join(threads[--started], NULL);
}

void tn_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
}
