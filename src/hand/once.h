/* Exactly once: the answers to actions that came with an Idempotency-Key.
 *
 * The first request with a key runs the action; a repeat waits for it if it is still running and
 * gets the same answer, also when the first connection died.  Keys are known for a day, within
 * bounds on number and bytes: the oldest finished ones go first.  Of those bytes the answers go
 * before the keys, so that an action is not run again only because its answer was large. */
#ifndef TN_HAND_ONCE_H
#define TN_HAND_ONCE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

struct tn_once;

/* max_bytes: of keys, answers and what they need; the newest answer is kept whatever its size. */
struct tn_once *tn_once_new(size_t max_keys, size_t max_bytes);
void tn_once_free(struct tn_once *o);

/* digest identifies the request's body: a key used again for another body is TN_E_UNPROCESSABLE.
 * Returns 1 when the caller must run the action and then call tn_once_finish or tn_once_forget
 * (never with `replay`: a key that is not known is then TN_E_NOT_FOUND); 0 with the stored answer
 * in status and answer; -1 with err (key in use for something else, too many in progress, deadline
 * passed; TN_E_GONE when the action was carried out and its answer is not kept any more). */
int tn_once_begin(struct tn_once *o, const char *key, uint64_t digest, bool replay,
                  int64_t deadline, int *status, struct tn_buf *answer, struct tn_error *err);
void tn_once_finish(struct tn_once *o, const char *key, int status, const char *answer, size_t n);
/* The same when nothing was carried out: the key is free again, also for who waits. */
void tn_once_forget(struct tn_once *o, const char *key);

/* A digest for tn_once_begin. */
uint64_t tn_once_digest(const void *bytes, size_t n);

#endif
