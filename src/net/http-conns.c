#include "net/http-conns.h"

#include <sys/mman.h>
#include <sys/socket.h>

#include "base/thread.h"
#include "net/http-internal.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer)
#define SANITIZED 1
#endif
#endif

#ifdef SANITIZED
const size_t http_stack_factor = 8;
#else
const size_t http_stack_factor = 1;
#endif

enum { SPARE_MAX = 4, STACK_MIN = 64 * 1024 };

/* --- blocks -------------------------------------------------------------------------------- */

/* A block is a guard page, the stack, and above it the connection: a stack that overflows hits the
 * guard, never another connection. */

static size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static size_t whole_pages(size_t n)
{
    size_t page = page_bytes();

    return (n + page - 1) / page * page;
}

static size_t block_bytes(const struct http_conns *p)
{
    return page_bytes() + p->stack_bytes + whole_pages(sizeof(struct http_conn));
}

static char *block_of(const struct http_conns *p, struct http_conn *c)
{
    return (char *)c - p->stack_bytes - page_bytes();
}

static struct http_conn *block_new(const struct http_conns *p)
{
    size_t size = block_bytes(p);
    char *block = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (block == MAP_FAILED)
        return NULL;
    if (mprotect(block + page_bytes(), size - page_bytes(), PROT_READ | PROT_WRITE) < 0) {
        munmap(block, size);
        return NULL;
    }
    return (struct http_conn *)(block + page_bytes() + p->stack_bytes);
}

static void block_free(const struct http_conns *p, struct http_conn *c)
{
    munmap(block_of(p, c), block_bytes(p));
}

/* --- the pool ------------------------------------------------------------------------------ */

void http_conns_init(struct http_conns *p, int max, int max_strangers, size_t stack_bytes)
{
    memset(p, 0, sizeof *p);
    p->max = max;
    p->max_strangers = max_strangers;
    p->stack_bytes =
        whole_pages((stack_bytes > STACK_MIN ? stack_bytes : STACK_MIN) * http_stack_factor);
    pthread_mutex_init(&p->lock, NULL);
    tn_cond_init(&p->changed);
}

void http_conns_done(struct http_conns *p)
{
    while (p->spare) {
        struct http_conn *next = p->spare->next;
        block_free(p, p->spare);
        p->spare = next;
    }
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->changed);
}

void http_conns_close(struct http_conns *p)
{
    pthread_mutex_lock(&p->lock);
    atomic_store(&p->closed, true);
    pthread_mutex_unlock(&p->lock);
}

/* Waits for threads that are ending and keeps a few of their blocks.  Not under the lock. */
static void bury(struct http_conns *p, struct http_conn *dead)
{
    while (dead) {
        struct http_conn *c = dead;
        dead = c->next;
        pthread_join(c->thread, NULL);
        pthread_mutex_lock(&p->lock);
        bool keep = p->spare_count < SPARE_MAX;
        if (keep) {
            c->next = p->spare;
            p->spare = c;
            p->spare_count++;
        }
        pthread_mutex_unlock(&p->lock);
        if (!keep)
            block_free(p, c);
    }
}

static struct http_conn *take_dead(struct http_conns *p)
{
    pthread_mutex_lock(&p->lock);
    struct http_conn *dead = p->dead;
    p->dead = NULL;
    pthread_mutex_unlock(&p->lock);
    return dead;
}

/* Under the lock. */
static void unlink_conn(struct http_conns *p, struct http_conn *c)
{
    if (c->prev)
        c->prev->next = c->next;
    else
        p->live = c->next;
    if (c->next)
        c->next->prev = c->prev;
    p->count--;
    p->dismissed -= c->dismissed;
    p->strangers -= !c->known && !c->dismissed;
    pthread_cond_broadcast(&p->changed);
}

/* Takes the connection off the list.  A thread cannot join itself: the next to end does, or the one
 * who waits in http_conns_shut. */
static void retire(struct http_conns *p, struct http_conn *c)
{
    bury(p, take_dead(p));
    pthread_mutex_lock(&p->lock);
    unlink_conn(p, c);
    tn_close(c->fd);
    c->next = p->dead;
    p->dead = c;
    pthread_mutex_unlock(&p->lock);
}

static void *run(void *arg)
{
    struct http_conn *c = arg;

    c->thread = pthread_self();
    http_conn_run(c);
    http_conn_done(c);
    retire(c->pool, c);
    return NULL;
}

/* --- who goes when it gets tight ----------------------------------------------------------- */

/* Nothing is lost with these. */
static bool is_idle(const struct http_conn *c)
{
    return 1u << atomic_load(&c->phase) &
           (1u << HTTP_FRESH | 1u << HTTP_READING | 1u << HTTP_WAITING);
}

static bool goes_before(const struct http_conn *a, const struct http_conn *b)
{
    return is_idle(a) != is_idle(b) ? is_idle(a) : a->since < b->since;
}

/* The stranger of that address (NULL: of any) that goes first; *count is how many there are. */
static struct http_conn *first_stranger(const struct http_conns *p, const char *peer, int *count)
{
    struct http_conn *first = NULL;

    *count = 0;
    for (struct http_conn *c = p->live; c; c = c->next) {
        if (c->known || c->dismissed || (peer && strcmp(c->peer, peer) != 0))
            continue;
        ++*count;
        if (!first || goes_before(c, first))
            first = c;
    }
    return first;
}

/* The connection of that owner (NULL: of any) that waits for a request for longest; *count is how
 * many the owner has in all. */
static struct http_conn *first_waiting(const struct http_conns *p, const uint64_t *owner,
                                       int *count)
{
    struct http_conn *first = NULL;

    *count = 0;
    for (struct http_conn *c = p->live; c; c = c->next) {
        if (!c->known || c->dismissed || (owner && c->owner != *owner))
            continue;
        ++*count;
        if (atomic_load(&c->phase) == HTTP_WAITING && (!first || c->since < first->since))
            first = c;
    }
    return first;
}

static void dismiss(struct http_conns *p, struct http_conn *c)
{
    shutdown(c->fd, SHUT_RDWR);
    c->dismissed = true;
    p->dismissed++;
    p->strangers -= !c->known;
}

/* Whether one more of that address may come in.  Under the lock. */
static bool let_in(struct http_conns *p, const char *peer)
{
    int count;

    if (p->closed)
        return false;
    if (!p->max_strangers)
        return p->count < p->max;
    struct http_conn *first = first_stranger(p, peer, &count);
    if (count < p->max_strangers / 2)
        first = p->strangers < p->max_strangers ? NULL : first_stranger(p, NULL, &count);
    if (first)
        dismiss(p, first);
    /* Those that were dismissed may take a moment to end. */
    return p->count < p->max + p->max_strangers;
}

static uint64_t hash(const char *text)
{
    uint64_t h = UINT64_C(14695981039346656037);

    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * UINT64_C(1099511628211);
    return h;
}

/* Whether there is room for one more of these, if need be by dismissing one that waits. */
static bool clear_place(struct http_conns *p, const uint64_t *owner, int max)
{
    int count;
    struct http_conn *first = first_waiting(p, owner, &count);

    if (count < max)
        return true;
    if (first)
        dismiss(p, first);
    return first != NULL;
}

static void make_known(struct http_conns *p, struct http_conn *c, uint64_t owner)
{
    p->strangers -= !c->known && !c->dismissed;
    c->known = true;
    c->owner = owner;
}

bool http_conns_know(struct http_conns *p, struct http_conn *c, const char *owner)
{
    uint64_t of = owner ? hash(owner) : 0;
    int all = p->max - p->max_strangers;

    if (!p->max_strangers || (c->known && c->owner == of))
        return true;
    pthread_mutex_lock(&p->lock);
    bool may = !c->dismissed && clear_place(p, &of, owner ? all / 2 : all) &&
               (c->known || clear_place(p, NULL, all));
    if (may)
        make_known(p, c, of);
    if (may && c->parent && !c->parent->known)
        make_known(p, c->parent, of);
    pthread_mutex_unlock(&p->lock);
    return may;
}

bool http_conn_is_strange(struct http_conn *c)
{
    struct http_conns *p = c->pool;

    if (!p->max_strangers)
        return false;
    pthread_mutex_lock(&p->lock);
    bool strange = !c->known;
    pthread_mutex_unlock(&p->lock);
    return strange;
}

void http_conn_leave_streams(struct http_conn *parent)
{
    struct http_conns *p = parent->pool;

    pthread_mutex_lock(&p->lock);
    for (struct http_conn *c = p->live; c; c = c->next)
        if (c->parent == parent)
            c->parent = NULL;
    pthread_mutex_unlock(&p->lock);
}

/* --- coming in ----------------------------------------------------------------------------- */

/* A block on the list of the living, or NULL with err. */
static struct http_conn *enlist(struct http_conns *p, int fd, const char *peer,
                                struct http_conn *parent, struct tn_error *err)
{
    pthread_mutex_lock(&p->lock);
    bool room = let_in(p, peer);
    struct http_conn *c = room ? p->spare : NULL;
    if (c) {
        p->spare = c->next;
        p->spare_count--;
    } else if (room) {
        c = block_new(p);
    }
    if (c) {
        memset(c, 0, offsetof(struct http_conn, x));
        c->fd = fd;
        c->pool = p;
        c->parent = parent;
        c->since = tn_now();
        snprintf(c->peer, sizeof c->peer, "%s", peer);
        p->strangers++;
        c->next = p->live;
        if (c->next)
            c->next->prev = c;
        p->live = c;
        p->count++;
    }
    pthread_mutex_unlock(&p->lock);
    if (!c)
        tn_fail(err, TN_E_BUSY, room ? "Out of memory" : "Too many connections");
    return c;
}

/* The thread could not be started: undoes enlist.  The block has no thread to join. */
static void delist(struct http_conns *p, struct http_conn *c)
{
    pthread_mutex_lock(&p->lock);
    unlink_conn(p, c);
    pthread_mutex_unlock(&p->lock);
    block_free(p, c);
}

int http_conns_start(struct http_conns *p, struct tn_http_server *s, int fd, const char *peer,
                     struct http_conn *parent, struct tn_error *err)
{
    pthread_attr_t attr;
    pthread_t thread;
    struct http_conn *c = enlist(p, fd, peer, parent, err);

    if (!c)
        return -1;
    http_conn_init(c, s);
    pthread_attr_init(&attr);
    int why = pthread_attr_setstack(&attr, block_of(p, c) + page_bytes(), p->stack_bytes);
    if (!why)
        why = pthread_create(&thread, &attr, run, c);
    pthread_attr_destroy(&attr);
    if (!why)
        return 0;
    http_conn_done(c);
    delist(p, c);
    return tn_fail_errno(err, why, "start a connection thread");
}

static int shut(struct http_conns *p, unsigned spared, int how, int64_t deadline)
{
    struct timespec until = tn_timespec(deadline);
    int r = 0;

    pthread_mutex_lock(&p->lock);
    for (struct http_conn *c = p->live; c; c = c->next)
        if (!(spared >> atomic_load(&c->phase) & 1))
            shutdown(c->fd, how);
    while (p->count > 0 && r == 0)
        r = pthread_cond_timedwait(&p->changed, &p->lock, &until);
    int left = p->count;
    pthread_mutex_unlock(&p->lock);
    bury(p, take_dead(p));
    return left;
}

int http_conns_shut(struct http_conns *p, int how, int64_t deadline)
{
    return shut(p, 0, how, deadline);
}

int http_conns_drain(struct http_conns *p, unsigned spared, int64_t deadline)
{
    return shut(p, spared, SHUT_RD, deadline);
}
