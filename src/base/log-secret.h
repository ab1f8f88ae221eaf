/* The registry of values that the log must not show; private to the log, which holds the lock. */
#ifndef TN_BASE_LOG_SECRET_H
#define TN_BASE_LOG_SECRET_H

#include <stddef.h>

#include "base/buf.h"

/* Registers the value and the form it takes inside a JSON string.  -1 when there is no room. */
int tn_log_secret_add(const char *value);
void tn_log_secret_clear(void);

/* Appends s to out with every secret hidden.  What does not fit in out is dropped without a trace
 * of half a secret. */
void tn_log_secret_mask(struct tn_buf *out, const char *s, size_t n);

#endif
