/* Bytes that may be held at a time, of what peers make grow: bodies, answers, trees of JSON.
 *
 * A purse may be part of a larger one (a tenant's of the process's): what is taken from it is taken
 * from both, or from neither.  Threads may share one. */
#ifndef TN_BASE_PURSE_H
#define TN_BASE_PURSE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/guard.h"

struct tn_purse {
    struct tn_purse *of; /* or NULL */
    size_t max;
    _Atomic size_t held;
};

/* False: there is not that much in it; nothing was taken.  NULL is a purse without a bottom. */
static inline bool tn_purse_take(struct tn_purse *p, size_t bytes)
{
    if (!p)
        return true;
    size_t held = atomic_fetch_add(&p->held, bytes);
    if (bytes <= p->max && held <= p->max - bytes && tn_purse_take(p->of, bytes))
        return true;
    atomic_fetch_sub(&p->held, bytes);
    return false;
}

static inline void tn_purse_give(struct tn_purse *p, size_t bytes)
{
    for (; p; p = p->of)
        atomic_fetch_sub(&p->held, bytes);
}

/* What was taken out of one, until the end of a scope. */
struct tn_held {
    struct tn_purse *purse;
    size_t bytes;
};
static inline void tn_guard_held(const struct tn_held *h)
{
    tn_purse_give(h->purse, h->bytes);
}
#define tn_autoheld TN_CLEANUP(tn_guard_held)

#endif
