/* All sandboxes of this state as the cluster tells of them: for who stays and has many (a service),
 * one watch of their pods and one of their Secrets instead of a question for each.
 *
 * What a mirror has is believed while its watch lives; that something is not there is always asked
 * of the server: what was made a moment ago may not have been told yet. */
#include <poll.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "runtime/kubernetes/pods.h"

#define ASK_SECONDS 1.0    /* between two questions about what is not told */
#define RETRY_SECONDS 10.0 /* after a watch that was refused */

/* Somebody who waits for changes of one object. */
struct waiter {
    struct waiter *next;
    const char *name;
    int fd; /* an eventfd */
};

struct mirror {
    struct pods *p;
    const char *kind;
    pthread_t thread;
    bool started;
    int end; /* an eventfd: the thread is to end */
    struct kube_feed *all;
    pthread_mutex_t lock; /* of what follows */
    bool fresh;           /* what was told is how it is */
    struct waiter *waiters;
};

struct mirrors {
    pthread_mutex_t lock;
    struct mirror of[2];
};

static const char *const kinds[] = {"pods", "secrets"};

/* --- being told ------------------------------------------------------------------------------- */

/* Under the lock. */
static void wake(const struct mirror *m, const char *name)
{
    for (const struct waiter *w = m->waiters; w; w = w->next)
        if (!name || strcmp(w->name, name) == 0)
            eventfd_write(w->fd, 1);
}

/* A pod that does not run any more is news for whoever uses it. */
static void tell_end(const struct mirror *m, enum kube_change change, const struct tn_json *object,
                     const char *name)
{
    const struct tn_host *host = m->p->host;
    tn_autofree char *prefix = pod_name("", "");
    const char *id = pods_own_id(m->p, object);
    autopodcause struct pod_cause cause = {.status = TN_STATUS_ERROR};

    if (!id && strncmp(name, prefix, strlen(prefix)) == 0)
        id = name + strlen(prefix);
    if (strcmp(m->kind, "pods") != 0 || !id)
        return;
    if (change != KUBE_DELETED)
        pod_cause(object, &cause);
    if (cause.status == TN_STATUS_ERROR && !cause.patient)
        host->changed(id, host->changed_ctx);
}

static int on_change(enum kube_change change, const struct tn_json *object, void *ctx)
{
    struct mirror *m = ctx;
    const char *name = pods_own_name(object);

    pthread_mutex_lock(&m->lock);
    m->fresh = change == KUBE_SYNCED || (m->fresh && change != KUBE_CUT);
    wake(m, object ? name : NULL);
    pthread_mutex_unlock(&m->lock);
    if (object)
        tell_end(m, change, object, name);
    return 0;
}

static void *follow_all(void *arg)
{
    struct mirror *m = arg;
    tn_autofree char *after = tn_asprintf("?labelSelector=tendon.dev/state%%3D%s", m->p->mark);
    tn_autofree char *target = pods_target(m->p, m->kind, after);
    struct pollfd end = {.fd = m->end, .events = POLLIN};

    do { /* a watch ends when it is refused: rights may come */
        kube_watch_feed(m->p->kube, target, m->all, m->end, TN_NEVER, NULL);
        on_change(KUBE_CUT, NULL, m);
    } while (poll(&end, 1, tn_poll_ms(tn_deadline_in(RETRY_SECONDS))) == 0);
    return NULL;
}

/* --- its life --------------------------------------------------------------------------------- */

struct mirrors *mirrors_new(struct pods *p)
{
    struct mirrors *all = tn_calloc(1, sizeof *all);

    pthread_mutex_init(&all->lock, NULL);
    for (size_t i = 0; i < TN_COUNT(all->of); i++) {
        all->of[i] = (struct mirror){.p = p, .kind = kinds[i], .end = -1};
        all->of[i].all = kube_feed_new(on_change, &all->of[i]);
        pthread_mutex_init(&all->of[i].lock, NULL);
    }
    return all;
}

void mirrors_free(struct mirrors *all)
{
    for (size_t i = 0; i < TN_COUNT(all->of); i++) {
        struct mirror *m = &all->of[i];
        if (m->started) {
            eventfd_write(m->end, 1);
            pthread_join(m->thread, NULL);
        }
        tn_close(m->end);
        kube_feed_free(m->all);
        pthread_mutex_destroy(&m->lock);
    }
    pthread_mutex_destroy(&all->lock);
    free(all);
}

/* NULL: nobody stays here, or there is none of that kind. */
static struct mirror *mirror_of(const struct pods *p, const char *kind)
{
    bool stays = __atomic_load_n(&p->host->changed, __ATOMIC_ACQUIRE);
    struct mirror *m = NULL;

    for (size_t i = 0; stays && i < TN_COUNT(kinds); i++)
        if (strcmp(kinds[i], kind) == 0)
            m = &p->mirrors->of[i];
    if (!m)
        return NULL;
    pthread_mutex_lock(&p->mirrors->lock);
    if (!m->started && (m->end >= 0 || (m->end = eventfd(0, EFD_CLOEXEC)) >= 0))
        m->started = tn_thread_start(&m->thread, follow_all, m) == 0;
    bool started = m->started;
    pthread_mutex_unlock(&p->mirrors->lock);
    return started ? m : NULL;
}

/* --- asking ----------------------------------------------------------------------------------- */

static bool is_fresh(struct mirror *m)
{
    pthread_mutex_lock(&m->lock);
    bool fresh = m->fresh;
    pthread_mutex_unlock(&m->lock);
    return fresh;
}

struct tn_json *mirror_get(const struct pods *p, const char *kind, const char *name)
{
    struct mirror *m = mirror_of(p, kind);

    return m && is_fresh(m) ? kube_feed_get(m->all, p->namespace, name) : NULL;
}

int mirror_each(const struct pods *p, const char *kind, kube_change_fn fn, void *ctx)
{
    struct mirror *m = mirror_of(p, kind);

    if (!m || !is_fresh(m))
        return -1;
    kube_feed_each(m->all, fn, ctx);
    return 0;
}

/* --- waiting ---------------------------------------------------------------------------------- */

/* Tells the step from *last to now, which it takes; non-zero: enough. */
static int tell(struct tn_json **last, struct tn_json *now, kube_change_fn fn, void *ctx)
{
    tn_autojson struct tn_json *next = now;

    if (*last && (!next || strcmp(pods_uid(*last), pods_uid(next)) != 0)) {
        tn_autojson struct tn_json *gone = TN_TAKE_PTR(*last);
        if (fn(KUBE_DELETED, gone, ctx))
            return 1;
    }
    if (!next || (*last && strcmp(pods_version(next), pods_version(*last)) == 0))
        return 0;
    enum kube_change change = *last ? KUBE_MODIFIED : KUBE_ADDED;
    tn_json_free(*last);
    *last = TN_TAKE_PTR(next);
    return fn(change, *last, ctx);
}

static int follow(struct mirror *m, struct waiter *w, kube_change_fn fn, void *ctx, int cancel,
                  int64_t deadline, struct tn_error *err)
{
    tn_autojson struct tn_json *last = NULL;
    bool seen = false;

    for (bool first = true;; first = false) {
        bool fresh = is_fresh(m);
        struct tn_json *now = fresh ? kube_feed_get(m->all, m->p->namespace, w->name) : NULL;
        seen = seen || now;
        if (!fresh || !(now || seen))
            if (pods_ask(m->p, m->kind, w->name, &now, deadline, err) < 0)
                return -1;
        if (tell(&last, now, fn, ctx) || (first && fn(KUBE_SYNCED, NULL, ctx)))
            return 0;
        struct pollfd fds[] = {{.fd = w->fd, .events = POLLIN},
                               {.fd = cancel > 0 ? cancel : -1, .events = POLLIN}};
        int64_t again = seen && fresh ? TN_NEVER : tn_deadline_in(ASK_SECONDS);
        poll(fds, TN_COUNT(fds), tn_poll_ms(again < deadline ? again : deadline));
        if (fds[1].revents)
            return tn_fail(err, TN_E_GONE, "cancelled");
        if (tn_now() >= deadline)
            return tn_fail(err, TN_E_TIMEOUT, "the time is over");
        eventfd_t count;
        if (fds[0].revents)
            eventfd_read(w->fd, &count);
    }
}

int pods_follow(const struct pods *p, const char *kind, const char *name, kube_change_fn fn,
                void *ctx, int cancel, int64_t deadline, struct tn_error *err)
{
    struct mirror *m = mirror_of(p, kind);
    struct waiter w = {.name = name, .fd = m ? eventfd(0, EFD_CLOEXEC) : -1}, **at;

    if (w.fd < 0) {
        tn_autofree char *after = tn_asprintf("?fieldSelector=metadata.name%%3D%s", name);
        tn_autofree char *target = pods_target(p, kind, after);
        return kube_watch(p->kube, target, fn, ctx, cancel, deadline, err);
    }
    pthread_mutex_lock(&m->lock);
    w.next = m->waiters;
    m->waiters = &w;
    pthread_mutex_unlock(&m->lock);
    int r = follow(m, &w, fn, ctx, cancel, deadline, err);
    pthread_mutex_lock(&m->lock);
    for (at = &m->waiters; *at != &w; at = &(*at)->next)
        continue;
    *at = w.next;
    pthread_mutex_unlock(&m->lock);
    close(w.fd);
    return r;
}
