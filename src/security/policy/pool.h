/* Small helpers around an arena: strings, and arrays that grow. */
#ifndef TN_SECURITY_POLICY_POOL_H
#define TN_SECURITY_POLICY_POOL_H

#include <string.h>

#include "security/command/arena.h"

static inline char *pool_strdup(struct tn_arena *a, const char *s)
{
    return tn_arena_copy(a, s, strlen(s));
}

/* Room for one more item in an array of `count` items that grows by doubling: it is moved when
 * count is a power of two. */
static inline void *pool_grow(struct tn_arena *a, void *items, size_t count, size_t size)
{
    if (count & (count - 1))
        return items;
    void *wider = tn_arena_get(a, (count ? 2 * count : 1) * size);
    if (count)
        memcpy(wider, items, count * size);
    return wider;
}

#endif
