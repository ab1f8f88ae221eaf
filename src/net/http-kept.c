#include "net/http-kept.h"

#include <poll.h>
#include <pthread.h>
#include <stdbool.h>

#include "base/clock.h"
#include "base/guard.h"

struct kept {
    struct kept *next;
    int fd;
    int64_t since;
    char name[];
};

struct tn_http_kept {
    pthread_mutex_t lock;
    struct kept *list; /* the newest first */
    size_t each, all;
    int64_t span;
};

struct tn_http_kept *tn_http_kept_new(size_t each, size_t all, double seconds)
{
    struct tn_http_kept *k = tn_calloc(1, sizeof *k);

    pthread_mutex_init(&k->lock, NULL);
    k->each = each;
    k->all = all;
    k->span = (int64_t)(seconds * 1e9);
    return k;
}

static void close_list(struct kept *list)
{
    while (list) {
        struct kept *next = list->next;
        close(list->fd);
        free(list);
        list = next;
    }
}

void tn_http_kept_free(struct tn_http_kept *k)
{
    if (!k)
        return;
    close_list(k->list);
    pthread_mutex_destroy(&k->lock);
    free(k);
}

/* One that is readable before anything was asked has been closed, or went mad. */
static bool is_quiet(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN | POLLRDHUP};

    return poll(&p, 1, 0) == 0;
}

static struct kept *unlink_one(struct tn_http_kept *k, const char *name)
{
    int64_t oldest = tn_now() - k->span;
    struct kept *found = NULL;

    pthread_mutex_lock(&k->lock);
    for (struct kept **at = &k->list; *at && (*at)->since >= oldest; at = &(*at)->next) {
        if (strcmp((*at)->name, name) == 0) {
            found = *at;
            *at = found->next;
            break;
        }
    }
    pthread_mutex_unlock(&k->lock);
    return found;
}

int tn_http_kept_take(struct tn_http_kept *k, const char *name)
{
    struct kept *one;

    while ((one = unlink_one(k, name))) {
        int fd = one->fd;
        free(one);
        if (is_quiet(fd))
            return fd;
        close(fd);
    }
    return -1;
}

/* What is too much or too old now, taken off the list.  With the lock held. */
static struct kept *surplus(struct tn_http_kept *k, const char *name)
{
    int64_t oldest = tn_now() - k->span;
    size_t all = 0, each = 0;
    struct kept *gone = NULL;

    for (struct kept **at = &k->list; *at;) {
        struct kept *one = *at;
        bool same = strcmp(one->name, name) == 0;
        if (++all > k->all || (same && ++each > k->each) || one->since < oldest) {
            *at = one->next;
            one->next = gone;
            gone = one;
        } else {
            at = &one->next;
        }
    }
    return gone;
}

void tn_http_kept_give(struct tn_http_kept *k, const char *name, int fd)
{
    struct kept *one = tn_malloc(sizeof *one + strlen(name) + 1);

    *one = (struct kept){.fd = fd, .since = tn_now()};
    memcpy(one->name, name, strlen(name) + 1);
    pthread_mutex_lock(&k->lock);
    one->next = k->list;
    k->list = one;
    struct kept *gone = surplus(k, name);
    pthread_mutex_unlock(&k->lock);
    close_list(gone);
}
