#include "hand/shell/vt-history.h"

#include <sys/mman.h>

#include "base/guard.h"

enum { FIRST_BYTES = 16 << 10, FIRST_ROWS = 64 };

/* The ring comes from the kernel and goes back to it: a heap would keep the holes that a growing
 * ring leaves behind. */
static char *map_ring(size_t n)
{
    void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return tn_check_memory(p == MAP_FAILED ? NULL : p);
}

static void unmap_ring(struct vt_history *h)
{
    if (h->ring)
        munmap(h->ring, h->cap);
}

void vt_history_init(struct vt_history *h, size_t max_bytes)
{
    *h = (struct vt_history){.max_bytes = max_bytes < INT32_MAX ? max_bytes : INT32_MAX};
}

void vt_history_reset(struct vt_history *h)
{
    size_t max_bytes = h->max_bytes;
    unmap_ring(h);
    free(h->rows);
    vt_history_init(h, max_bytes);
}

void vt_history_erase(struct vt_history *h)
{
    h->count = 0;
    h->bytes = 0;
    h->tail = 0;
}

bool vt_history_unwrap(struct vt_history *h)
{
    if (h->count == 0)
        return false;
    struct vt_history_row *newest = &h->rows[(h->pushed - 1) & (h->rows_cap - 1)];
    bool was = newest->wrapped;
    newest->wrapped = 0;
    return was;
}

static void drop_oldest(struct vt_history *h)
{
    h->bytes -= vt_history_row(h, vt_history_first(h))->len;
    h->dropped++;
    if (--h->count == 0)
        h->tail = 0;
}

void vt_history_trim(struct vt_history *h, size_t max_rows, size_t max_bytes)
{
    while (h->count > max_rows || (h->count > 0 && h->bytes > max_bytes))
        drop_oldest(h);
}

static void grow_rows(struct vt_history *h)
{
    size_t cap = h->rows_cap ? h->rows_cap * 2 : FIRST_ROWS;
    struct vt_history_row *rows = tn_calloc(cap, sizeof *rows);
    for (uint64_t i = vt_history_first(h); i < h->pushed; i++)
        rows[i & (cap - 1)] = *vt_history_row(h, i);
    free(h->rows);
    h->rows = rows;
    h->rows_cap = cap;
}

/* A larger ring with the rows in order from its start. */
static void grow_ring(struct vt_history *h)
{
    size_t cap = h->cap ? h->cap + h->cap / 2 : FIRST_BYTES;
    if (cap > h->max_bytes)
        cap = h->max_bytes;
    char *ring = map_ring(cap);
    size_t at = 0;
    for (uint64_t i = vt_history_first(h); i < h->pushed; i++) {
        struct vt_history_row *row = &h->rows[i & (h->rows_cap - 1)];
        if (row->len > 0)
            memcpy(ring + at, h->ring + row->at, row->len);
        row->at = (uint32_t)at;
        at += row->len;
    }
    unmap_ring(h);
    h->ring = ring;
    h->cap = cap;
    h->tail = at;
}

/* Finds len bytes in one piece after the newest row, or at the start of the ring when the end is
 * too near.  The tail never catches up with the oldest row, so that equal means empty. */
static bool place(struct vt_history *h, size_t len)
{
    size_t head = h->count ? vt_history_row(h, vt_history_first(h))->at : 0;

    if (h->tail < head)
        return head - h->tail > len;
    if (h->cap - h->tail >= len)
        return true;
    if (head <= len)
        return false;
    h->tail = 0;
    return true;
}

void vt_history_push(struct vt_history *h, const char *text, size_t len, bool wrapped)
{
    if (len > h->max_bytes) {
        vt_history_trim(h, 0, 0);
        h->pushed++;
        h->dropped++;
        return;
    }
    while (len > 0 && !place(h, len)) {
        if (h->cap < h->max_bytes)
            grow_ring(h);
        else
            drop_oldest(h);
    }
    if (h->count == h->rows_cap)
        grow_rows(h);
    h->rows[h->pushed & (h->rows_cap - 1)] =
        (struct vt_history_row){.at = (uint32_t)h->tail, .len = (uint32_t)len, .wrapped = wrapped};
    if (len > 0)
        memcpy(h->ring + h->tail, text, len);
    h->tail += len;
    h->bytes += len;
    h->count++;
    h->pushed++;
}
