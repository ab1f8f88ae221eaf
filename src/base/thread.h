/* Threads with the small stack and the signal mask that all of ours have. */
#ifndef TN_BASE_THREAD_H
#define TN_BASE_THREAD_H

#include <pthread.h>

/* Starts a thread (every signal blocked, 256 KiB of stack).  0 or an errno value. */
int tn_thread_start(pthread_t *thread, void *(*run)(void *), void *arg);

#endif
