/* Threads with the small stack and the signal mask that all of ours have. */
#ifndef TN_BASE_THREAD_H
#define TN_BASE_THREAD_H

#include <pthread.h>
#include <stddef.h>

/* Starts a thread (every signal blocked, 256 KiB of stack).  0 or an errno value. */
int tn_thread_start(pthread_t *thread, void *(*run)(void *), void *arg);

/* Calls work(0, ctx) to work(count - 1, ctx), at most TN_SHARE_AT_ONCE at the same time, this
 * thread's among them; returns when all have returned.  The order is not defined. */
enum { TN_SHARE_AT_ONCE = 16 };
void tn_thread_share(size_t count, void (*work)(size_t i, void *ctx), void *ctx);

/* A condition whose timed waits take the deadlines of clock.h. */
void tn_cond_init(pthread_cond_t *cond);

#endif
