#include "service/desk.h"

#include <pthread.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "service/proxy.h"

enum {
    BUCKETS = 512,
    MAX_DESKS = 1024, /* kept at a time, unless more are in use */
    MAX_IDLE = 4,     /* connections of one desk that nobody uses */
};

/* `refs`, `next` and `forgotten` are under the lock of all desks, the rest under its own. */
struct desk {
    struct desks *all;
    struct desk *next;
    char id[11];
    int refs;
    bool forgotten; /* out of the table: whoever leaves it last frees it */
    int64_t used;
    pthread_mutex_t lock;
    char *address; /* of the idle clients */
    struct tn_hand_client *idle[MAX_IDLE];
    int idle_count;
    struct tn_ledger *ledger; /* has a lock of its own */
};

struct desks {
    pthread_mutex_t lock;
    struct desk *buckets[BUCKETS];
    size_t count;
    int let_go; /* an eventfd: readable when nobody is to wait for a hand any more */
};

/* --- the table ------------------------------------------------------------------------------- */

struct desks *desks_new(void)
{
    struct desks *all = tn_calloc(1, sizeof *all);

    pthread_mutex_init(&all->lock, NULL);
    all->let_go = eventfd(0, EFD_CLOEXEC);
    return all;
}

void desks_let_go(struct desks *all)
{
    if (all && all->let_go >= 0)
        eventfd_write(all->let_go, 1);
}

static void drop_clients(struct desk *d)
{
    while (d->idle_count)
        tn_hand_client_free(d->idle[--d->idle_count]);
    free(TN_TAKE_PTR(d->address));
}

static void free_desk(struct desk *d)
{
    drop_clients(d);
    tn_ledger_free(d->ledger);
    pthread_mutex_destroy(&d->lock);
    free(d);
}

void desks_free(struct desks *all)
{
    if (!all)
        return;
    for (size_t i = 0; i < BUCKETS; i++)
        while (all->buckets[i]) {
            struct desk *d = all->buckets[i];
            all->buckets[i] = d->next;
            free_desk(d);
        }
    pthread_mutex_destroy(&all->lock);
    tn_close(all->let_go);
    free(all);
}

static struct desk **bucket(struct desks *all, const char *id)
{
    unsigned hash = 5381;

    for (; *id; id++)
        hash = hash * 33 + (unsigned char)*id;
    return &all->buckets[hash % BUCKETS];
}

/* Takes the one out that was not used for longest; NULL when all are in use.  Under the lock. */
static struct desk *take_oldest(struct desks *all)
{
    struct desk **oldest = NULL;

    for (size_t i = 0; i < BUCKETS; i++)
        for (struct desk **d = &all->buckets[i]; *d; d = &(*d)->next)
            if (!(*d)->refs && (!oldest || (*d)->used < (*oldest)->used))
                oldest = d;
    if (!oldest)
        return NULL;
    struct desk *d = *oldest;
    *oldest = d->next;
    all->count--;
    return d;
}

struct desk *desk_take(struct box *b)
{
    struct desks *all = box_service(b)->desks;
    struct desk *d, *spare = NULL;

    pthread_mutex_lock(&all->lock);
    for (d = *bucket(all, box_id(b)); d && strcmp(d->id, box_id(b)) != 0;)
        d = d->next;
    if (!d) {
        if (all->count >= MAX_DESKS)
            spare = take_oldest(all);
        struct desk **first = bucket(all, box_id(b));
        d = tn_calloc(1, sizeof *d);
        d->all = all;
        snprintf(d->id, sizeof d->id, "%s", box_id(b));
        pthread_mutex_init(&d->lock, NULL);
        d->ledger = tn_ledger_new();
        d->next = *first;
        *first = d;
        all->count++;
    }
    d->refs++;
    d->used = tn_now();
    pthread_mutex_unlock(&all->lock);
    if (spare)
        free_desk(spare);
    return d;
}

void desk_release(struct desk *d)
{
    if (!d)
        return;
    pthread_mutex_lock(&d->all->lock);
    bool last = --d->refs == 0 && d->forgotten;
    pthread_mutex_unlock(&d->all->lock);
    if (last)
        free_desk(d);
}

void desks_forget(struct desks *all, const char *id)
{
    struct desk **at = bucket(all, id), *d;

    pthread_mutex_lock(&all->lock);
    while (*at && strcmp((*at)->id, id) != 0)
        at = &(*at)->next;
    d = *at;
    if (d) {
        *at = d->next;
        all->count--;
        d->forgotten = true;
    }
    bool unused = d && d->refs == 0;
    pthread_mutex_unlock(&all->lock);
    if (unused)
        free_desk(d);
}

/* --- connections ----------------------------------------------------------------------------- */

struct tn_hand_client *desk_client(struct desk *d, const char *address, const char *key,
                                   struct tn_error *err)
{
    struct tn_hand_client *client = NULL;

    pthread_mutex_lock(&d->lock);
    if (d->address && strcmp(d->address, address) != 0)
        drop_clients(d);
    if (d->idle_count)
        client = d->idle[--d->idle_count];
    pthread_mutex_unlock(&d->lock);
    if (!client && (client = tn_hand_client_new(address, key, err)))
        tn_hand_client_cancel_by(client, d->all->let_go);
    return client;
}

void desk_put_client(struct desk *d, const char *address, struct tn_hand_client *client)
{
    pthread_mutex_lock(&d->lock);
    if (!d->address)
        d->address = tn_strdup(address);
    bool keep = d->idle_count < MAX_IDLE && strcmp(d->address, address) == 0;
    if (keep)
        d->idle[d->idle_count++] = client;
    pthread_mutex_unlock(&d->lock);
    if (!keep)
        tn_hand_client_free(client);
}

/* --- the ledger ------------------------------------------------------------------------------ */

struct tn_ledger *desk_ledger(struct desk *d, struct box *b)
{
    autoview struct box_view view = {0};
    struct tn_sandbox_journal of = {.directory = box_directory(b),
                                    .config = tn_runtime_host(box_service(b)->rt)->config};

    if (tn_ledger_is_open(d->ledger))
        return d->ledger;
    box_look(b, &view);
    of.key = view.session_key;
    of.env = view.spec.env;
    tn_ledger_open(d->ledger, &of);
    return d->ledger;
}
