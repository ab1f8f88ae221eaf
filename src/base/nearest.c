#include "base/nearest.h"

#include <stdint.h>
#include <string.h>

#define WORD_MAX 63

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

size_t tn_edit_distance(const char *a, const char *b)
{
    size_t na = strlen(a), nb = strlen(b);
    size_t rows[3][WORD_MAX + 1];
    size_t *before = rows[0], *above = rows[1], *row = rows[2];

    if (na > WORD_MAX || nb > WORD_MAX)
        return strcmp(a, b) == 0 ? 0 : SIZE_MAX;
    for (size_t j = 0; j <= nb; j++)
        above[j] = j;
    for (size_t i = 1; i <= na; i++) {
        row[0] = i;
        for (size_t j = 1; j <= nb; j++) {
            row[j] = least(above[j - 1] + (a[i - 1] != b[j - 1]), least(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = least(row[j], before[j - 2] + 1);
        }
        size_t *oldest = before;
        before = above;
        above = row;
        row = oldest;
    }
    return above[nb];
}

void tn_nearest_offer(struct tn_nearest *n, const char *candidate)
{
    size_t distance = tn_edit_distance(n->word, candidate);
    size_t length = strlen(n->word);

    if (distance > (length < 6 ? 2 : length / 3) || distance >= length)
        return;
    if (!n->best || distance < n->distance) {
        n->best = candidate;
        n->distance = distance;
    }
}
