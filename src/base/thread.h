/* Threads with the small stack and the signal mask that all of ours have. */
#ifndef TN_BASE_THREAD_H
#define TN_BASE_THREAD_H

#include <pthread.h>

/* Starts a thread (every signal blocked, 256 KiB of stack).  0 or an errno value. */
int tn_thread_start(pthread_t *thread, void *(*run)(void *), void *arg);

/* A condition whose timed waits take the deadlines of clock.h. */
void tn_cond_init(pthread_cond_t *cond);

#endif
