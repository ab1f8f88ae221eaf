/* Which elements of two sequences differ: Myers' O(ND) method in linear space, with a work limit.
 */
#ifndef TN_BASE_DIFF_LINES_H
#define TN_BASE_DIFF_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* a and b hold numbers that are equal when the lines are.  Sets gone[i] where a[i] is not kept and
 * came[j] where b[j] is new; what is left unset in both is the same sequence.  When the work passes
 * `budget` steps the rest is marked as different altogether. */
void tn_diff_lines(const uint32_t *a, size_t n, const uint32_t *b, size_t m, bool *gone, bool *came,
                   int64_t budget);

#endif
