#include "base/thread.h"

#include <signal.h>

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
