/* Comparing two observations of the same action in two sandboxes; private to replay.
 *
 * Both are written as text: the type, the extras that the recorded one has, the content.  Left out
 * is what never is the same twice (replay-compare.c has the list), and a few kinds of words in the
 * text are replaced by what they are: <time>, <duration>, <pid>, <temporary>, <address>. */
#ifndef TN_RUNTIME_REPLAY_COMPARE_H
#define TN_RUNTIME_REPLAY_COMPARE_H

#include "base/buf.h"
#include "event/observation.h"

struct compare;

struct compare *compare_new(void);
void compare_free(struct compare *c);

/* Appends the unified diff from the recorded to the replayed observation; nothing when they are the
 * same.  -1 when out is full. */
int compare_observations(struct compare *c, const struct tn_observation *recorded,
                         const struct tn_observation *replayed, struct tn_buf *out);

/* Appends text with what differs from run to run replaced. */
int compare_normalise(const struct compare *c, const char *text, size_t n, struct tn_buf *out);

#endif
