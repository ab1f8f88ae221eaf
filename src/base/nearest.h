/* "Did you mean ...?": the nearest of the known words to one that is not known. */
#ifndef TN_BASE_NEAREST_H
#define TN_BASE_NEAREST_H

#include <stddef.h>

struct tn_nearest {
    const char *word; /* what was given */
    const char *best; /* the nearest word offered so far, or NULL when none is near */
    size_t distance;
};

static inline struct tn_nearest tn_nearest(const char *word)
{
    return (struct tn_nearest){.word = word};
}

/* Borrows the candidate.  One that differs in more than a third of the letters is not near. */
void tn_nearest_offer(struct tn_nearest *n, const char *candidate);

/* Letters to insert, delete, replace or swap with their neighbour to get from a to b.  Words of
 * more than 63 bytes compare as equal or as very different. */
size_t tn_edit_distance(const char *a, const char *b);

#endif
