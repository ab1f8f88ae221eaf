/* What a command writes, as it writes it, through the hand: /v1/commands/ID/output. */
#ifndef TN_RUNTIME_HAND_OUTPUT_H
#define TN_RUNTIME_HAND_OUTPUT_H

#include <stdint.h>

#include "base/error.h"

/* The next bytes, as the terminal got them; non-zero stops. */
typedef int (*tn_output_fn)(const void *bytes, size_t n, void *ctx);

/* Calls fn for all the command wrote from *offset on, and moves *offset along.  With follow until
 * the command ends, else with what there is now.  A connection that breaks is made anew where it
 * broke off; a hand that gives no sign of life for 45 seconds is given up.  What was discarded
 * meanwhile (of one command the last 64 MB are kept) is skipped and added to *lost when that is not
 * NULL.  0, what fn returned, or -1 with err: TN_E_TIMEOUT at the deadline. */
int tn_hand_output(const char *address, const char *key, const char *command_id, bool follow,
                   uint64_t *offset, uint64_t *lost, tn_output_fn fn, void *ctx, int64_t deadline,
                   struct tn_error *err);

#endif
