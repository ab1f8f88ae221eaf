/* The line in front of what makes machines busy.
 *
 * Every tenant has a line of its own; turns go round the tenants.  A turn is given under the lock,
 * the moment it is free, to a place and not to a thread: nobody can come between, and exactly one
 * sleeper is woken. */
#include <pthread.h>
#include <sys/sysinfo.h>

#include "base/clock.h"
#include "base/thread.h"
#include "service/room.h"

/* When nobody says how many; measured (docs/internals/service-limits.md). */
#define TURNS_PER_CORE 4

/* Starts may be slow without using the machine: an image is pulled, room is waited for, a lock.  A
 * tenant could have all turns with such ones; another that has none waits so long at most, and then
 * gets one beyond the usual number, of which there are as many again. */
#define PATIENCE_SECONDS 5.0

enum place_state {
    WAITING,
    ADMITTED,
    CANCELLED,
};

struct place_in_line {
    struct queue *queue;
    struct line *line; /* while it waits */
    struct place_in_line *next;
    enum place_state state;
    bool pool;
    char *tenant;    /* NULL: a pool's */
    int64_t overdue; /* from then on, if its tenant has no turn */
    pthread_cond_t changed;
};

/* First come, first served. */
struct line {
    char *tenant; /* NULL for the pools' */
    struct place_in_line *first, *last;
    struct line *next; /* in the ring of tenants that wait */
};

struct queue {
    pthread_mutex_t lock;
    int turns, busy, busy_pools, waiting;
    struct line urgent, spare; /* the pools' */
    struct line *recent;       /* the line that had the last turn; the one after it is next */
    struct place_in_line *admitted;
    struct room room;
};

struct queue *queue_new(const struct tn_service_options *options)
{
    struct queue *q = tn_calloc(1, sizeof *q);

    q->turns = options->max_starts > 0 ? (int)options->max_starts : TURNS_PER_CORE * get_nprocs();
    pthread_mutex_init(&q->lock, NULL);
    pthread_mutex_init(&q->room.lock, NULL);
    return q;
}

void queue_free(struct queue *q)
{
    if (!q)
        return;
    pthread_mutex_destroy(&q->room.lock);
    pthread_mutex_destroy(&q->lock);
    free(q->room.kept);
    free(q);
}

struct room *queue_room(struct queue *q)
{
    return &q->room;
}

/* --- lines --------------------------------------------------------------------------------- */

/* A tenant that had nobody waiting comes last in the ring. */
static struct line *line_of(struct queue *q, const char *tenant)
{
    struct line *l = q->recent;

    while (l) {
        l = l->next;
        if (strcmp(l->tenant, tenant) == 0)
            return l;
        if (l == q->recent)
            break;
    }
    l = tn_calloc(1, sizeof *l);
    l->tenant = tn_strdup(tenant);
    l->next = q->recent ? q->recent->next : l;
    if (q->recent)
        q->recent->next = l;
    q->recent = l;
    return l;
}

static void drop_line(struct queue *q, struct line *l)
{
    struct line *before = l->next;

    while (before->next != l)
        before = before->next;
    before->next = l->next;
    if (q->recent == l)
        q->recent = before == l ? NULL : before;
    free(l->tenant);
    free(l);
}

static void take_out(struct place_in_line *p)
{
    struct queue *q = p->queue;
    struct line *l = p->line;
    struct place_in_line **at = &l->first, *before = NULL;

    for (; *at != p; at = &(*at)->next)
        before = *at;
    *at = p->next;
    if (l->last == p)
        l->last = before;
    p->line = NULL;
    if (p->pool)
        return;
    q->waiting--;
    if (!l->first)
        drop_line(q, l);
}

/* --- turns --------------------------------------------------------------------------------- */

/* Whose turn it is; NULL: nobody that may. */
static struct place_in_line *next_place(struct queue *q)
{
    bool pools = q->busy_pools < (q->turns + 1) / 2;

    if (pools && q->urgent.first)
        return q->urgent.first;
    if (q->recent) {
        q->recent = q->recent->next;
        return q->recent->first;
    }
    return pools ? q->spare.first : NULL;
}

static bool has_turn(const struct queue *q, const char *tenant)
{
    const struct place_in_line *p = q->admitted;

    while (p && (p->pool || strcmp(p->tenant, tenant) != 0))
        p = p->next;
    return p != NULL;
}

/* Who has waited too long for the first turn of its tenant; NULL: nobody. */
static struct place_in_line *overdue_place(struct queue *q)
{
    int64_t now = tn_now();

    if (!q->recent || q->busy >= 2 * q->turns)
        return NULL;
    struct line *l = q->recent;
    do {
        l = l->next;
        if (l->first->overdue <= now && !has_turn(q, l->tenant)) {
            q->recent = l;
            return l->first;
        }
    } while (l != q->recent);
    return NULL;
}

static void give_turns(struct queue *q)
{
    struct place_in_line *p;

    while ((q->busy < q->turns && (p = next_place(q))) || (p = overdue_place(q))) {
        take_out(p);
        q->busy++;
        q->busy_pools += p->pool;
        p->state = ADMITTED;
        p->next = q->admitted;
        q->admitted = p;
        pthread_cond_signal(&p->changed);
    }
}

static void give_back(struct place_in_line *p)
{
    struct queue *q = p->queue;
    struct place_in_line **at = &q->admitted;

    while (*at != p)
        at = &(*at)->next;
    *at = p->next;
    q->busy--;
    q->busy_pools -= p->pool;
}

static struct place_in_line *join(struct queue *q, const char *tenant, bool urgent)
{
    struct place_in_line *p = tn_calloc(1, sizeof *p);

    p->queue = q;
    p->pool = !tenant;
    p->tenant = tn_strdup_or_null(tenant);
    p->overdue = tn_deadline_in(PATIENCE_SECONDS);
    tn_cond_init(&p->changed);
    pthread_mutex_lock(&q->lock);
    struct line *l = tenant ? line_of(q, tenant) : urgent ? &q->urgent : &q->spare;
    p->line = l;
    if (l->last)
        l->last->next = p;
    else
        l->first = p;
    l->last = p;
    q->waiting += !p->pool;
    give_turns(q);
    pthread_mutex_unlock(&q->lock);
    return p;
}

struct place_in_line *queue_join(struct queue *q, const char *tenant)
{
    return join(q, tenant, false);
}

struct place_in_line *queue_join_pool(struct queue *q, bool urgent)
{
    return join(q, NULL, urgent);
}

/* Under the lock: until that time, or until it is no longer WAITING. */
static void doze(struct place_in_line *p, int64_t until)
{
    struct timespec t = tn_timespec(until);
    int late = 0;

    while (p->state == WAITING && late != ETIMEDOUT)
        late = until == TN_NEVER ? pthread_cond_wait(&p->changed, &p->queue->lock)
                                 : pthread_cond_timedwait(&p->changed, &p->queue->lock, &t);
}

int queue_wait(struct place_in_line *p, int64_t deadline, struct tn_error *err)
{
    struct queue *q = p->queue;

    pthread_mutex_lock(&q->lock);
    doze(p, p->overdue < deadline ? p->overdue : deadline);
    give_turns(q); /* to whoever is overdue */
    doze(p, deadline);
    enum place_state state = p->state;
    pthread_mutex_unlock(&q->lock);
    if (state == ADMITTED)
        return 0;
    if (state == CANCELLED)
        return tn_fail(err, TN_E_GONE, "nobody wants it to start any more");
    return tn_fail(err, TN_E_TIMEOUT,
                   "its turn to start did not come in time: %d start at a time "
                   "(service.max_starts)",
                   q->turns);
}

void queue_cancel(struct place_in_line *p)
{
    struct queue *q = p->queue;

    pthread_mutex_lock(&q->lock);
    if (p->state == WAITING) {
        take_out(p);
        p->state = CANCELLED;
        pthread_cond_signal(&p->changed);
    }
    pthread_mutex_unlock(&q->lock);
}

void queue_leave(struct place_in_line *p)
{
    if (!p)
        return;
    struct queue *q = p->queue;

    pthread_mutex_lock(&q->lock);
    if (p->state == WAITING)
        take_out(p);
    if (p->state == ADMITTED)
        give_back(p);
    give_turns(q);
    pthread_mutex_unlock(&q->lock);
    pthread_cond_destroy(&p->changed);
    free(p->tenant);
    free(p);
}

/* --- numbers ------------------------------------------------------------------------------- */

static int length(const struct line *l, int at_most)
{
    int n = 0;

    for (const struct place_in_line *p = l->first; p && n < at_most; p = p->next)
        n++;
    return n;
}

/* One round of the ring for each place before it in its own line, and the part of a round before
 * its line's turn. */
static int position(const struct queue *q, const struct place_in_line *p)
{
    int ahead = 0, count;

    for (const struct place_in_line *x = p->line->first; x != p; x = x->next)
        ahead++;
    count = ahead + 1;
    if (p->pool)
        return count;
    bool before = true; /* lines whose turn comes earlier in the round */
    const struct line *l = q->recent;
    do {
        l = l->next;
        if (l == p->line)
            before = false;
        else
            count += length(l, ahead + before);
    } while (l != q->recent);
    return count;
}

int queue_position(struct place_in_line *p)
{
    struct queue *q = p->queue;

    pthread_mutex_lock(&q->lock);
    int n = p->state == WAITING ? position(q, p) : 0;
    pthread_mutex_unlock(&q->lock);
    return n;
}

struct queue_numbers queue_numbers(struct queue *q)
{
    pthread_mutex_lock(&q->lock);
    struct queue_numbers n = {.turns = q->turns, .busy = q->busy, .waiting = q->waiting};
    pthread_mutex_unlock(&q->lock);
    return n;
}
