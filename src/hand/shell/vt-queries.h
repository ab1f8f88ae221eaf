/* Questions to the terminal in what programs wrote: cursor position, colours, capabilities, ...
 *
 * A terminal that is shown the past would answer them, and its answers would be typed into whatever
 * runs now. */
#ifndef TN_HAND_SHELL_VT_QUERIES_H
#define TN_HAND_SHELL_VT_QUERIES_H

#include <stdbool.h>
#include <stddef.h>

/* Overwrites questions with NUL bytes, which terminals ignore, so that offsets stay what they are.
 * Returns how many of the n bytes are settled: a sequence that is cut off at the end is not, unless
 * it has more than a question has.  Of n > 0 it is never 0 when `whole` tells that nothing follows.
 */
size_t vt_mute_queries(char *bytes, size_t n, bool whole);

#endif
