#include "base/diff-lines.h"

#include <assert.h>
#include <string.h>

#include "base/guard.h"

struct job {
    const uint32_t *a, *b;
    bool *gone, *came;
    int64_t budget;
    /* Furthest x reached on each diagonal x - y of the box, from the front and from the back; both
     * are addressed from -m - 1 to n + 1. */
    ptrdiff_t *front, *back;
};

struct box {
    ptrdiff_t a0, a1, b0, b1;
};

static void mark_all(struct job *j, struct box box)
{
    memset(j->gone + box.a0, true, (size_t)(box.a1 - box.a0));
    memset(j->came + box.b0, true, (size_t)(box.b1 - box.b0));
}

/* The lowest and highest diagonal of the box that step d, around `centre`, looks at. */
static ptrdiff_t lowest(ptrdiff_t centre, ptrdiff_t d, ptrdiff_t m)
{
    return centre - d >= -m ? centre - d : -m + ((centre - d + m) & 1);
}

static ptrdiff_t highest(ptrdiff_t centre, ptrdiff_t d, ptrdiff_t n)
{
    return centre + d <= n ? centre + d : n - ((centre + d - n) & 1);
}

/* Finds a point (x, y) on a shortest path through the box, roughly in its middle.  Both sides are
 * non-empty and differ at their first and last elements.  False when the budget ran out. */
static bool middle(struct job *j, struct box box, ptrdiff_t *x_out, ptrdiff_t *y_out)
{
    ptrdiff_t n = box.a1 - box.a0, m = box.b1 - box.b0;
    ptrdiff_t delta = n - m;
    bool odd = delta & 1;
    const uint32_t *a = j->a + box.a0, *b = j->b + box.b0;
    ptrdiff_t *front = j->front, *back = j->back;

    front[-m - 1] = front[n + 1] = -1;
    back[-m - 1] = back[n + 1] = PTRDIFF_MAX;
    front[1] = 0;
    back[delta - 1] = n;
    for (ptrdiff_t d = 0; j->budget >= 0; d++) {
        for (ptrdiff_t k = lowest(0, d, m); k <= highest(0, d, n); k += 2) {
            bool down = k == -d || (k != d && front[k - 1] < front[k + 1]);
            ptrdiff_t x = down ? front[k + 1] : front[k - 1] + 1;
            ptrdiff_t y = x - k, start = x;
            while (x < n && y < m && a[x] == b[y]) {
                x++;
                y++;
            }
            front[k] = x;
            j->budget -= 1 + (x - start);
            if (odd && k > delta - d && k < delta + d && x >= back[k]) {
                *x_out = box.a0 + x;
                *y_out = box.b0 + y;
                return x <= n && y <= m;
            }
        }
        for (ptrdiff_t k = lowest(delta, d, m); k <= highest(delta, d, n); k += 2) {
            bool up = k == delta + d || (k != delta - d && back[k - 1] < back[k + 1]);
            ptrdiff_t x = up ? back[k - 1] : back[k + 1] - 1;
            ptrdiff_t y = x - k, start = x;
            while (x > 0 && y > 0 && a[x - 1] == b[y - 1]) {
                x--;
                y--;
            }
            back[k] = x;
            j->budget -= 1 + (start - x);
            if (!odd && k >= -d && k <= d && x <= front[k]) {
                *x_out = box.a0 + x;
                *y_out = box.b0 + y;
                return x >= 0 && y >= 0;
            }
        }
    }
    return false;
}

/* Each split halves the number of differences, so the depth is their logarithm. */
static void compare(struct job *j, struct box box)
{
    while (box.a0 < box.a1 && box.b0 < box.b1 && j->a[box.a0] == j->b[box.b0]) {
        box.a0++;
        box.b0++;
    }
    while (box.a0 < box.a1 && box.b0 < box.b1 && j->a[box.a1 - 1] == j->b[box.b1 - 1]) {
        box.a1--;
        box.b1--;
    }
    ptrdiff_t x, y;
    if (box.a0 == box.a1 || box.b0 == box.b1 || !middle(j, box, &x, &y)) {
        mark_all(j, box);
        return;
    }
    assert((x > box.a0 || y > box.b0) && (x < box.a1 || y < box.b1));
    compare(j, (struct box){.a0 = box.a0, .a1 = x, .b0 = box.b0, .b1 = y});
    compare(j, (struct box){.a0 = x, .a1 = box.a1, .b0 = y, .b1 = box.b1});
}

void tn_diff_lines(const uint32_t *a, size_t n, const uint32_t *b, size_t m, bool *gone, bool *came,
                   int64_t budget)
{
    tn_autofree ptrdiff_t *front = tn_calloc(n + m + 3, sizeof *front);
    tn_autofree ptrdiff_t *back = tn_calloc(n + m + 3, sizeof *back);
    struct job j = {.a = a,
                    .b = b,
                    .gone = gone,
                    .came = came,
                    .budget = budget,
                    .front = front + m + 1,
                    .back = back + m + 1};

    compare(&j, (struct box){.a0 = 0, .a1 = (ptrdiff_t)n, .b0 = 0, .b1 = (ptrdiff_t)m});
}
