/* Unified diffs without context, in the form of Python's difflib with n=0.
 *
 * The texts are split at LF as str.split does (so a final LF makes a last empty line).  Every line
 * of the result is stripped of white space at its end, and the lines are joined by LF without a
 * final one.  Equal texts give an empty result. */
#ifndef TN_HAND_FILE_DIFF_H
#define TN_HAND_FILE_DIFF_H

#include "hand/file/text.h"

/* Appends the diff to out; -1 when out is full.  Time and memory are bounded: where the texts
 * differ too much, a whole stretch is given as removed and added again, which is long but still
 * correct. */
int diff_unified(struct tn_buf *out, const char *path, struct tn_slice before,
                 struct tn_slice after);

#endif
