#include "service/purses.h"

#include <pthread.h>

#include "base/guard.h"

enum { TENANT_PART = 2, STRANGERS_PART = 16 };

/* Only of tenants that hold something: few at a time. */
struct tenant_purse {
    struct tn_purse purse; /* first: whoever has it gives it back */
    struct tenant_purse *next;
    int refs;
    char tenant[];
};

struct purses {
    struct tn_purse all;
    pthread_mutex_t lock;
    struct tenant_purse *list;
};

struct purses *purses_new(size_t bytes)
{
    struct purses *all = tn_calloc(1, sizeof *all);

    all->all.max = bytes;
    pthread_mutex_init(&all->lock, NULL);
    return all;
}

void purses_free(struct purses *all)
{
    if (!all)
        return;
    pthread_mutex_destroy(&all->lock);
    free(all);
}

struct tn_purse *purse_get(struct purses *all, const char *tenant)
{
    pthread_mutex_lock(&all->lock);
    struct tenant_purse *p = all->list;
    while (p && strcmp(p->tenant, tenant) != 0)
        p = p->next;
    if (!p) {
        size_t n = strlen(tenant) + 1;
        p = tn_calloc(1, sizeof *p + n);
        memcpy(p->tenant, tenant, n);
        p->purse.of = &all->all;
        p->purse.max = all->all.max / (*tenant ? TENANT_PART : STRANGERS_PART);
        p->next = all->list;
        all->list = p;
    }
    p->refs++;
    pthread_mutex_unlock(&all->lock);
    return &p->purse;
}

void purse_release(struct purses *all, struct tn_purse *purse)
{
    struct tenant_purse *p = (struct tenant_purse *)purse;

    if (!p)
        return;
    pthread_mutex_lock(&all->lock);
    if (--p->refs == 0) {
        struct tenant_purse **at = &all->list;
        while (*at != p)
            at = &(*at)->next;
        *at = p->next;
        free(p);
    }
    pthread_mutex_unlock(&all->lock);
}
