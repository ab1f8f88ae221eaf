#include "service/watch.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "service/clock.h"

/* So many changes are remembered; whoever is further behind hears that everything may differ. */
#define REMEMBERED 4096

struct change {
    char tenant[65];
    char box[11];
};

struct watcher {
    struct watcher *next;
    const char *tenant; /* NULL: all */
    int wake;
};

struct watchers {
    pthread_mutex_t lock;
    uint64_t first, now; /* numbers: of the first change there could be, of the newest */
    struct change changes[REMEMBERED]; /* change n is at n % REMEMBERED */
    struct watcher *list;
};

struct watchers *watchers_new(void)
{
    struct watchers *w = tn_calloc(1, sizeof *w);

    pthread_mutex_init(&w->lock, NULL);
    /* Numbers that somebody got from a service before this one are older than all of ours. */
    w->first = w->now = (uint64_t)service_time() << 20;
    return w;
}

void watchers_free(struct watchers *w)
{
    if (!w)
        return;
    pthread_mutex_destroy(&w->lock);
    free(w);
}

uint64_t watchers_now(struct watchers *w)
{
    pthread_mutex_lock(&w->lock);
    uint64_t now = w->now;
    pthread_mutex_unlock(&w->lock);
    return now;
}

void watchers_tell(struct watchers *w, const char *tenant, const char *box)
{
    uint64_t one = 1;

    pthread_mutex_lock(&w->lock);
    struct change *c = &w->changes[++w->now % REMEMBERED];
    snprintf(c->tenant, sizeof c->tenant, "%s", tenant);
    snprintf(c->box, sizeof c->box, "%s", box);
    for (struct watcher *one_of = w->list; one_of; one_of = one_of->next)
        if (!one_of->tenant || !strcmp(one_of->tenant, tenant))
            if (write(one_of->wake, &one, sizeof one) < 0)
                continue; /* it is full: awake already */
    pthread_mutex_unlock(&w->lock);
}

/* --- waiting ---------------------------------------------------------------------------------- */

static void join(struct watchers *w, struct watcher *me)
{
    pthread_mutex_lock(&w->lock);
    me->next = w->list;
    w->list = me;
    pthread_mutex_unlock(&w->lock);
}

static void leave(struct watchers *w, struct watcher *me)
{
    pthread_mutex_lock(&w->lock);
    struct watcher **p = &w->list;
    while (*p != me)
        p = &(*p)->next;
    *p = me->next;
    pthread_mutex_unlock(&w->lock);
}

struct news {
    char (*boxes)[11]; /* each once, oldest change first */
    size_t count;
    bool lost; /* some are not remembered */
    uint64_t now;
};

static void add(struct news *n, const char *box)
{
    for (size_t i = 0; i < n->count; i++)
        if (!strcmp(n->boxes[i], box))
            return;
    n->boxes = tn_realloc(n->boxes, (n->count + 1) * sizeof *n->boxes);
    snprintf(n->boxes[n->count++], sizeof *n->boxes, "%s", box);
}

/* What of that tenant has changed after `since`. */
static struct news collect(struct watchers *w, const char *tenant, uint64_t since)
{
    struct news n = {0};

    pthread_mutex_lock(&w->lock);
    n.now = w->now;
    n.lost = since < w->first || since > w->now || w->now - since > REMEMBERED;
    for (uint64_t i = since + 1; !n.lost && i <= w->now; i++) {
        const struct change *c = &w->changes[i % REMEMBERED];
        if (!tenant || !strcmp(c->tenant, tenant))
            add(&n, c->box);
    }
    pthread_mutex_unlock(&w->lock);
    return n;
}

/* True when there is something to look at; false at the deadline, or when quit is readable. */
static bool doze(int wake, int quit, int64_t deadline)
{
    struct pollfd p[2] = {{.fd = wake, .events = POLLIN}, {.fd = quit, .events = POLLIN}};
    uint64_t count;

    int n = poll(p, 2, tn_poll_ms(deadline));
    if (n < 0)
        return errno == EINTR && tn_now() < deadline;
    if (n == 0 || p[1].revents)
        return false;
    return read(wake, &count, sizeof count) == sizeof count || errno == EAGAIN;
}

uint64_t watchers_wait(struct watchers *w, const char *tenant, uint64_t since, int quit,
                       int64_t deadline, watch_fn fn, void *ctx)
{
    tn_autofd int wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct watcher me = {.tenant = tenant, .wake = wake};
    struct news n = {0};
    bool awake = wake >= 0;

    join(w, &me);
    while (awake) {
        n = collect(w, tenant, since);
        if (n.count || n.lost)
            break;
        since = n.now; /* what others have changed need not be gone through again */
        awake = doze(wake, quit, deadline);
    }
    leave(w, &me);
    if (!awake)
        return 0;
    if (n.lost)
        fn(NULL, ctx);
    for (size_t i = 0; i < n.count; i++)
        fn(n.boxes[i], ctx);
    free(n.boxes);
    return n.now;
}
