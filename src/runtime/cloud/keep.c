/* Time-outs of vendors, kept off while a sandbox is in use. */
#include <pthread.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "runtime/cloud/cloud.h"

/* A time-out is extended after this part of it, so that one failure is not yet the end. */
#define PART 0.4
#define CALL_SECONDS 20.0
/* For what is due when the engine is closed: a command that took no time was a use, too. */
#define LAST_SECONDS 2.0

struct kept {
    struct kept *next;
    char own[11];
    char id[CLOUD_ID_MAX + 1];
    int64_t due;
    bool used; /* else it only remembers when it was extended */
};

struct cloud_keep {
    const struct cloud *cloud;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool started, stopped, over;
    struct kept *all;
};

struct cloud_keep *cloud_keep_new(const struct cloud *c)
{
    struct cloud_keep *k = tn_calloc(1, sizeof *k);

    k->cloud = c;
    pthread_mutex_init(&k->lock, NULL);
    tn_cond_init(&k->changed);
    return k;
}

static struct kept **find(struct cloud_keep *k, const char *own)
{
    struct kept **at = &k->all;

    while (*at && strcmp((*at)->own, own) != 0)
        at = &(*at)->next;
    return at;
}

static struct kept *first_due(const struct cloud_keep *k)
{
    struct kept *best = NULL;

    for (struct kept *one = k->all; one; one = one->next)
        if (one->used && (!best || one->due < best->due))
            best = one;
    return best;
}

/* A failure is not told: whoever uses the sandbox notices if it was the last. */
static void *extend_all(void *arg)
{
    struct cloud_keep *k = arg;
    const struct cloud *c = k->cloud;

    pthread_mutex_lock(&k->lock);
    for (;;) {
        struct kept *one = first_due(k);
        if (!one || one->due > tn_now()) {
            if (k->stopped)
                break;
            struct timespec until = tn_timespec(one ? one->due : tn_deadline_in(3600));
            pthread_cond_timedwait(&k->changed, &k->lock, &until);
            continue;
        }
        char id[sizeof one->id];
        memcpy(id, one->id, sizeof id);
        one->due = tn_deadline_in(c->timeout * PART);
        pthread_mutex_unlock(&k->lock);
        c->vendor->extend(c, id, c->timeout, tn_deadline_in(CALL_SECONDS), NULL);
        pthread_mutex_lock(&k->lock);
    }
    k->over = true;
    pthread_cond_broadcast(&k->changed);
    pthread_mutex_unlock(&k->lock);
    return NULL;
}

void cloud_keep_add(struct cloud_keep *k, const char *own, const char *id, bool due)
{
    if (!k->cloud->vendor->extend)
        return;
    pthread_mutex_lock(&k->lock);
    struct kept **at = find(k, own);
    if (!*at) {
        *at = tn_calloc(1, sizeof **at);
        snprintf((*at)->own, sizeof(*at)->own, "%s", own);
        (*at)->due = due ? tn_now() : tn_deadline_in(k->cloud->timeout * PART);
    }
    snprintf((*at)->id, sizeof(*at)->id, "%s", id);
    (*at)->used = true;
    if (!k->started)
        k->started = tn_thread_start(&k->thread, extend_all, k) == 0;
    pthread_cond_broadcast(&k->changed);
    pthread_mutex_unlock(&k->lock);
}

void cloud_keep_drop(struct cloud_keep *k, const char *own, bool gone)
{
    pthread_mutex_lock(&k->lock);
    struct kept **at = find(k, own), *one = *at;
    if (one)
        one->used = false;
    if (one && gone)
        *at = one->next;
    pthread_mutex_unlock(&k->lock);
    if (gone)
        free(one);
}

void cloud_keep_free(struct cloud_keep *k)
{
    if (!k)
        return;
    struct timespec until = tn_timespec(tn_deadline_in(LAST_SECONDS));
    int late = 0;
    pthread_mutex_lock(&k->lock);
    k->stopped = true;
    pthread_cond_broadcast(&k->changed);
    while (k->started && !k->over && !late)
        late = pthread_cond_timedwait(&k->changed, &k->lock, &until);
    pthread_mutex_unlock(&k->lock);
    eventfd_write(k->cloud->stop, 1);
    if (k->started)
        pthread_join(k->thread, NULL);
    while (k->all) {
        struct kept *next = k->all->next;
        free(k->all);
        k->all = next;
    }
    pthread_cond_destroy(&k->changed);
    pthread_mutex_destroy(&k->lock);
    free(k);
}
