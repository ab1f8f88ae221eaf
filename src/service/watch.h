/* Being told of changes: a new box, another state, a key.  For pages and long polls.
 *
 * Nothing is queued for a watcher: it learns that something changed and which boxes, and asks for
 * them.  One that is slow misses steps in between, never the last state. */
#ifndef TN_SERVICE_WATCH_H
#define TN_SERVICE_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct watchers *watchers_new(void);
void watchers_free(struct watchers *w);
/* A box has changed (or is gone).  Numbers grow by one with each call. */
void watchers_tell(struct watchers *w, const char *tenant, const char *box);
uint64_t watchers_now(struct watchers *w);
/* Waits until something of that tenant (NULL: all) has changed after number `since`.  Calls fn for
 * each box that did, once, and returns the number to go on with; 0 at the deadline or when `quit`
 * (a descriptor, or -1) becomes readable.  When too much has happened since, fn is called with
 * NULL: everything may have changed. */
typedef void (*watch_fn)(const char *box, void *ctx);
uint64_t watchers_wait(struct watchers *w, const char *tenant, uint64_t since, int quit,
                       int64_t deadline, watch_fn fn, void *ctx);

#endif
