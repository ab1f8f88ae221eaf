/* All sandboxes of this state as the cluster tells of them: for who stays and has many (a service),
 * one watch of their pods and one of their Secrets instead of a question for each.
 *
 * What a mirror has is believed while its watch lives; that something is not there is always asked
 * of the server: what was made a moment ago may not have been told yet. */
#include <poll.h>
#include <search.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "runtime/kubernetes/pods.h"

#define ASK_SECONDS 1.0    /* between two questions about what is not told */
#define RETRY_SECONDS 10.0 /* after a watch that was refused */

enum { OBJECT_MAX = 8 << 20 };

struct held {
    char *name;
    char *text; /* the object, as JSON */
};

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
    pthread_mutex_t lock;
    bool fresh; /* what follows is how it is */
    void *all;  /* a tree (tsearch) */
    struct waiter *waiters;
};

struct mirrors {
    pthread_mutex_t lock;
    struct mirror of[2];
};

static const char *const kinds[] = {"pods", "secrets"};

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct held *)a)->name, ((const struct held *)b)->name);
}

static void held_free(void *e)
{
    free(((struct held *)e)->name);
    free(((struct held *)e)->text);
    free(e);
}

static struct held *find(const struct mirror *m, const char *name)
{
    void *at = tfind(&(struct held){.name = (char *)(uintptr_t)name}, &m->all, by_name);

    return at ? *(struct held **)at : NULL;
}

/* --- being told ------------------------------------------------------------------------------- */

static int put_member(const char *key, struct tn_json *value, void *ctx)
{
    struct tn_jw *w = ctx;

    /* Most of an object, and of no use; what a Secret has is for its pod alone. */
    if (strcmp(key, "managedFields") == 0 || strcmp(key, "data") == 0)
        return 0;
    tn_jw_key(w, key);
    if (strcmp(key, "metadata") != 0) {
        tn_jw_tree(w, value);
        return 0;
    }
    tn_jw_object(w);
    tn_json_each(value, put_member, w);
    tn_jw_object_end(w);
    return 0;
}

static char *text_of(const struct tn_json *object)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(OBJECT_MAX);
    struct tn_jw w = tn_jw(&out);

    tn_jw_object(&w);
    tn_json_each(object, put_member, &w);
    tn_jw_object_end(&w);
    return tn_strdup(tn_buf_str(&out));
}

/* Under the lock. */
static void wake(const struct mirror *m, const char *name)
{
    for (const struct waiter *w = m->waiters; w; w = w->next)
        if (!name || strcmp(w->name, name) == 0)
            eventfd_write(w->fd, 1);
}

/* Under the lock. */
static void keep(struct mirror *m, const char *name, const struct tn_json *object)
{
    struct held *e = find(m, name);

    if (!e) {
        e = tn_calloc(1, sizeof *e);
        e->name = tn_strdup(name);
        tn_check_memory(tsearch(e, &m->all, by_name));
    }
    free(e->text);
    e->text = text_of(object);
}

/* Under the lock. */
static void forget(struct mirror *m, const char *name)
{
    struct held *e = find(m, name);

    if (!e)
        return;
    tdelete(e, &m->all, by_name);
    held_free(e);
}

/* A pod that does not run any more is news for whoever uses it. */
static void tell_end(const struct mirror *m, enum kube_change change, const struct tn_json *object,
                     const char *name)
{
    const struct tn_host *host = m->p->host;
    const char *prefix = "openhands-runtime-";
    autopodcause struct pod_cause cause = {.status = TN_STATUS_ERROR};

    if (strcmp(m->kind, "pods") != 0 || strncmp(name, prefix, strlen(prefix)) != 0)
        return;
    if (change != KUBE_DELETED)
        pod_cause(object, &cause);
    if (cause.status == TN_STATUS_ERROR && !cause.patient)
        host->changed(name + strlen(prefix), host->changed_ctx);
}

static int on_change(enum kube_change change, const struct tn_json *object, void *ctx)
{
    struct mirror *m = ctx;
    const char *name = tn_json_get_str(tn_json_get(object, "metadata"), "name", "");

    pthread_mutex_lock(&m->lock);
    if (change == KUBE_CUT)
        m->fresh = false;
    else if (change == KUBE_SYNCED)
        m->fresh = true;
    else if (change != KUBE_DELETED && pods_own_id(m->p, object))
        keep(m, name, object);
    else /* gone, or not ours any more: somebody has changed its labels */
        forget(m, name);
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
        kube_watch_cuts(m->p->kube, target, on_change, m, m->end, TN_NEVER, NULL);
        on_change(KUBE_CUT, NULL, m);
        /* The next watch does not know what this one has told, nor what ends until then. */
        pthread_mutex_lock(&m->lock);
        tdestroy(TN_TAKE_PTR(m->all), held_free);
        pthread_mutex_unlock(&m->lock);
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
        tdestroy(m->all, held_free);
        pthread_mutex_destroy(&m->lock);
    }
    pthread_mutex_destroy(&all->lock);
    free(all);
}

/* NULL: nobody stays here, or there is none of that kind. */
static struct mirror *mirror_of(const struct pods *p, const char *kind)
{
    struct mirror *m = NULL;

    for (size_t i = 0; p->host->changed && i < TN_COUNT(kinds); i++)
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

/* 1 with what is told of it (NULL: nothing); 0: it does not know at the moment. */
static int look(struct mirror *m, const char *name, struct tn_json **out)
{
    *out = NULL;
    pthread_mutex_lock(&m->lock);
    const struct held *e = m->fresh ? find(m, name) : NULL;
    int fresh = m->fresh;
    if (e)
        tn_json_parse(e->text, strlen(e->text), out, NULL);
    pthread_mutex_unlock(&m->lock);
    return fresh;
}

struct tn_json *mirror_get(const struct pods *p, const char *kind, const char *name)
{
    struct mirror *m = mirror_of(p, kind);
    struct tn_json *object = NULL;

    if (m)
        look(m, name, &object);
    return object;
}

struct telling {
    kube_change_fn fn;
    void *ctx;
};

static void tell_held(const void *node, VISIT visit, void *ctx)
{
    const struct telling *t = ctx;
    const struct held *e = *(struct held *const *)node;
    tn_autojson struct tn_json *object = NULL;

    if ((visit == postorder || visit == leaf) &&
        tn_json_parse(e->text, strlen(e->text), &object, NULL) == 0)
        t->fn(KUBE_ADDED, object, t->ctx);
}

int mirror_each(const struct pods *p, const char *kind, kube_change_fn fn, void *ctx)
{
    struct mirror *m = mirror_of(p, kind);
    struct telling t = {.fn = fn, .ctx = ctx};

    if (!m)
        return -1;
    pthread_mutex_lock(&m->lock);
    bool fresh = m->fresh;
    if (fresh)
        twalk_r(m->all, tell_held, &t);
    pthread_mutex_unlock(&m->lock);
    return fresh ? 0 : -1;
}

/* --- waiting ---------------------------------------------------------------------------------- */

static int64_t age(const struct tn_json *object)
{
    return strtoll(pods_version(object), NULL, 10);
}

/* Tells the step from *last to now, which it takes; non-zero: enough. */
static int tell(struct tn_json **last, struct tn_json *now, kube_change_fn fn, void *ctx)
{
    tn_autojson struct tn_json *next = now;

    if (*last && (!next || strcmp(pods_uid(*last), pods_uid(next)) != 0)) {
        tn_autojson struct tn_json *gone = TN_TAKE_PTR(*last);
        if (fn(KUBE_DELETED, gone, ctx))
            return 1;
    }
    if (!next || (*last && age(next) <= age(*last)))
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
        struct tn_json *now;
        bool fresh = look(m, w->name, &now);
        seen = seen || now;
        if ((!now && !seen) || !fresh) {
            tn_json_free(now);
            if (pods_ask(m->p, m->kind, w->name, &now, deadline, err) < 0)
                return -1;
        }
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
