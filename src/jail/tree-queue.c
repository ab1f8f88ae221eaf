#include <pthread.h>

#include "base/clock.h"
#include "base/thread.h"
#include "jail/tree-file.h"

/* The thread is worth its start only when there is something to do for it. */
#define START_AT 24
#define ROOM 64
#define BATCH 8

struct tree_queue {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct tree_job jobs[ROOM];
    size_t first, count;
    bool closed;           /* no more will come */
    bool failed;           /* then `why` */
    bool started, refused; /* the thread */
    pthread_t thread;
    int64_t deadline;
    struct tn_error why;
};

struct tree_queue *tree_queue_new(int64_t deadline)
{
    struct tree_queue *q = tn_calloc(1, sizeof *q);

    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->changed, NULL);
    q->deadline = deadline;
    return q;
}

static size_t take(struct tree_queue *q, struct tree_job *out, size_t most)
{
    size_t n = 0;

    while (n < most && q->count > 0) {
        out[n++] = q->jobs[q->first];
        q->first = (q->first + 1) % ROOM;
        q->count--;
    }
    return n;
}

/* Does the jobs and leaves the lock as it found it: held. */
static void work(struct tree_queue *q, struct tree_job *jobs, size_t n)
{
    pthread_mutex_unlock(&q->lock);
    struct tn_error why = {0};
    for (size_t i = 0; i < n; i++) {
        struct tn_error mine = {0};
        if (tree_fill(&jobs[i], &mine) < 0 && why.code == TN_OK)
            why = mine;
    }
    pthread_mutex_lock(&q->lock);
    if (why.code != TN_OK && !q->failed) {
        q->failed = true;
        q->why = why;
    }
}

static void *run(void *arg)
{
    struct tree_queue *q = arg;
    struct tree_job mine[BATCH];

    pthread_mutex_lock(&q->lock);
    for (;;) {
        size_t n = take(q, mine, BATCH);
        if (n > 0)
            work(q, mine, n);
        else if (q->closed)
            break;
        else
            pthread_cond_wait(&q->changed, &q->lock);
    }
    pthread_mutex_unlock(&q->lock);
    return NULL;
}

int tree_queue_add(struct tree_queue *q, struct tree_job *job, struct tn_error *err)
{
    struct tree_job mine;

    pthread_mutex_lock(&q->lock);
    if (!q->failed && tn_now() > q->deadline) {
        q->failed = true;
        tn_fail(&q->why, TN_E_TIMEOUT, "the time for copying is over");
    }
    if (q->count == ROOM && take(q, &mine, 1))
        work(q, &mine, 1);
    q->jobs[(q->first + q->count++) % ROOM] = *job;
    if (q->started && q->count % BATCH == 0)
        pthread_cond_signal(&q->changed);
    if (!q->started && !q->refused && q->count == START_AT) {
        q->started = tn_thread_start(&q->thread, run, q) == 0;
        q->refused = !q->started;
    }
    bool failed = q->failed;
    if (failed && err)
        *err = q->why;
    pthread_mutex_unlock(&q->lock);
    return failed ? -1 : 0;
}

int tree_queue_end(struct tree_queue *q, struct tn_error *err)
{
    struct tree_job mine;

    pthread_mutex_lock(&q->lock);
    q->closed = true;
    pthread_cond_signal(&q->changed);
    while (take(q, &mine, 1))
        work(q, &mine, 1);
    pthread_mutex_unlock(&q->lock);
    if (q->started)
        pthread_join(q->thread, NULL);
    bool failed = q->failed;
    if (failed && err)
        *err = q->why;
    pthread_mutex_destroy(&q->lock);
    pthread_cond_destroy(&q->changed);
    free(q);
    return failed ? -1 : 0;
}
