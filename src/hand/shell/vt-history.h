/* The rows that have left the top of the screen: a queue of texts that never change again.
 *
 * The bytes lie in one ring and each row costs eight bytes beside them.  Both grow with their
 * contents up to the limits; then the oldest rows give way. */
#ifndef TN_HAND_SHELL_VT_HISTORY_H
#define TN_HAND_SHELL_VT_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vt_history_row {
    uint32_t at;
    uint32_t len : 31;
    uint32_t wrapped : 1;
};

struct vt_history {
    char *ring;
    size_t cap;  /* of the ring, at most max_bytes */
    size_t tail; /* where the next row goes */
    struct vt_history_row *rows;
    size_t rows_cap; /* a power of two */
    size_t count;
    uint64_t pushed;  /* rows ever pushed; the oldest one kept is number pushed - count */
    uint64_t dropped; /* rows that gave way */
    size_t bytes;     /* sum of the rows' lengths */
    size_t max_bytes;
};

void vt_history_init(struct vt_history *h, size_t max_bytes);
/* Frees everything and starts again at row 0. */
void vt_history_reset(struct vt_history *h);

/* Adds the newest row.  A row that cannot fit at all counts as dropped at once. */
void vt_history_push(struct vt_history *h, const char *text, size_t len, bool wrapped);

/* Lets the oldest rows go until at most max_rows and max_bytes are left. */
void vt_history_trim(struct vt_history *h, size_t max_rows, size_t max_bytes);

/* The newest row is not continued by the screen any more; false when it was not. */
bool vt_history_unwrap(struct vt_history *h);

/* Empties it on request: the numbering goes on and nothing counts as dropped. */
void vt_history_erase(struct vt_history *h);

static inline uint64_t vt_history_first(const struct vt_history *h)
{
    return h->pushed - h->count;
}

/* Row by number, from vt_history_first to pushed - 1. */
static inline const struct vt_history_row *vt_history_row(const struct vt_history *h,
                                                          uint64_t number)
{
    return &h->rows[number & (h->rows_cap - 1)];
}

#endif
