#include "runtime/mcp/courier.h"

#include <pthread.h>
#include <stdbool.h>

#include "base/clock.h"
#include "base/thread.h"

/* What waits is answers to pings and the like: whoever wants more of them is up to no good. */
enum { QUEUE_MAX = 64 };

struct letter {
    struct letter *next;
    size_t n;
    char text[];
};

struct mcp_courier {
    mcp_deliver_fn deliver;
    void *ctx;
    pthread_t thread;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t changed;
    struct letter *first, **last;
    size_t count; /* with the one under way */
    bool stop;
};

static void *run(void *arg)
{
    struct mcp_courier *c = arg;

    pthread_mutex_lock(&c->lock);
    for (;;) {
        while (!c->first && !c->stop)
            pthread_cond_wait(&c->changed, &c->lock);
        if (c->stop)
            break;
        struct letter *letter = c->first;
        c->first = letter->next;
        if (!c->first)
            c->last = &c->first;
        pthread_mutex_unlock(&c->lock);
        c->deliver(c->ctx, letter->text, letter->n);
        free(letter);
        pthread_mutex_lock(&c->lock);
        c->count--;
        pthread_cond_broadcast(&c->changed);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

struct mcp_courier *mcp_courier_new(mcp_deliver_fn deliver, void *ctx, struct tn_error *err)
{
    struct mcp_courier *c = tn_calloc(1, sizeof *c);

    c->deliver = deliver;
    c->ctx = ctx;
    c->last = &c->first;
    pthread_mutex_init(&c->lock, NULL);
    tn_cond_init(&c->changed);
    int failed = tn_thread_start(&c->thread, run, c);
    if (!failed)
        return c;
    tn_fail_errno(err, failed, "thread");
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
    free(c);
    return NULL;
}

void mcp_courier_free(struct mcp_courier *c)
{
    if (!c)
        return;
    pthread_mutex_lock(&c->lock);
    c->stop = true;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
    pthread_join(c->thread, NULL);
    for (struct letter *l = c->first, *next; l; l = next) {
        next = l->next;
        free(l);
    }
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

int mcp_courier_put(struct mcp_courier *c, const char *text, size_t n, struct tn_error *err)
{
    struct letter *letter = tn_malloc(sizeof *letter + n);

    letter->next = NULL;
    letter->n = n;
    memcpy(letter->text, text, n);
    pthread_mutex_lock(&c->lock);
    bool full = c->count >= QUEUE_MAX;
    if (!full) {
        *c->last = letter;
        c->last = &letter->next;
        c->count++;
        pthread_cond_broadcast(&c->changed);
    }
    pthread_mutex_unlock(&c->lock);
    if (!full)
        return 0;
    free(letter);
    return tn_fail(err, TN_E_BUSY, "too many messages wait for the server");
}

int mcp_courier_wait(struct mcp_courier *c, int64_t deadline, struct tn_error *err)
{
    struct timespec until = tn_timespec(deadline);
    int late = 0;

    pthread_mutex_lock(&c->lock);
    while (c->count > 0 && !late)
        late = deadline == TN_NEVER ? pthread_cond_wait(&c->changed, &c->lock)
                                    : pthread_cond_timedwait(&c->changed, &c->lock, &until);
    bool done = c->count == 0;
    pthread_mutex_unlock(&c->lock);
    return done ? 0 : tn_fail(err, TN_E_TIMEOUT, "earlier messages are not delivered in time");
}
