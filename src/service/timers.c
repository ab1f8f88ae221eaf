#include "service/timers.h"

#include <search.h>

#include "base/clock.h"
#include "base/guard.h"

struct timer {
    char id[11]; /* first: the tree compares it */
    int64_t due;
    size_t at; /* in the heap */
};

static int compare(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void put(struct timers *t, size_t at, struct timer *x)
{
    t->heap[at] = x;
    x->at = at;
}

/* Moves x from the hole at `at` to where it belongs. */
static void settle(struct timers *t, size_t at, struct timer *x)
{
    while (at > 0 && t->heap[(at - 1) / 2]->due > x->due) {
        put(t, at, t->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    for (size_t child; (child = 2 * at + 1) < t->count; at = child) {
        if (child + 1 < t->count && t->heap[child + 1]->due < t->heap[child]->due)
            child++;
        if (t->heap[child]->due >= x->due)
            break;
        put(t, at, t->heap[child]);
    }
    put(t, at, x);
}

static void take_out(struct timers *t, struct timer *x)
{
    struct timer *last = t->heap[--t->count];

    if (last != x)
        settle(t, x->at, last);
    tdelete(x, &t->by_id, compare);
    free(x);
}

void timers_done(struct timers *t)
{
    while (t->count)
        take_out(t, t->heap[t->count - 1]);
    free(t->heap);
    *t = (struct timers){0};
}

void timers_set(struct timers *t, const char *id, int64_t due)
{
    struct timer **found = tfind(id, &t->by_id, compare);

    if (due == TN_NEVER) {
        if (found)
            take_out(t, *found);
        return;
    }
    if (found) {
        (*found)->due = due;
        settle(t, (*found)->at, *found);
        return;
    }
    struct timer *x = tn_calloc(1, sizeof *x);
    snprintf(x->id, sizeof x->id, "%s", id);
    x->due = due;
    if (t->count == t->room) {
        t->room = t->room ? 2 * t->room : 16;
        t->heap = tn_realloc(t->heap, t->room * sizeof(struct timer *));
    }
    tn_check_memory(tsearch(x, &t->by_id, compare));
    settle(t, t->count++, x);
}

bool timers_has(const struct timers *t, const char *id)
{
    return tfind(id, &t->by_id, compare) != NULL;
}

int64_t timers_next(const struct timers *t)
{
    return t->count ? t->heap[0]->due : TN_NEVER;
}

bool timers_take(struct timers *t, int64_t now, char id[11])
{
    if (!t->count || t->heap[0]->due > now)
        return false;
    memcpy(id, t->heap[0]->id, sizeof t->heap[0]->id);
    take_out(t, t->heap[0]);
    return true;
}
