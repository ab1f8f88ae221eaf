/* Unified diffs with three lines of context; private to replay. */
#ifndef TN_RUNTIME_REPLAY_DIFF_H
#define TN_RUNTIME_REPLAY_DIFF_H

#include "base/buf.h"

/* Appends the diff of two texts ("--- recorded", "+++ replayed"), nothing when they are equal. Time
 * is bounded: texts that differ too much are given as a whole.  -1 when out is full. */
int replay_diff(const struct tn_buf *recorded, const struct tn_buf *replayed, struct tn_buf *out);

#endif
