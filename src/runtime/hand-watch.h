/* Changes of directories in a sandbox, through its hand: /v1/files/watch and /v1/files/watchers.
 * What a hand tells is bounded; every call ends by its deadline, or when the descriptor `watch`
 * (-1: none) becomes readable. */
#ifndef TN_RUNTIME_HAND_WATCH_H
#define TN_RUNTIME_HAND_WATCH_H

#include <stdint.h>

#include "runtime/hand-answer.h"

enum { TN_WATCHER_ID = 65 };

/* event: created, deleted, written, moved_from, moved_to, attributes, gone, overflow, skipped,
 * watching (it has begun); path is absolute.  NULL for both: nothing has happened for some
 * seconds. Non-zero stops. */
typedef int (*tn_watch_fn)(const char *event, const char *path, void *ctx);

/* Calls fn for everything that happens, until fn, watch or the hand ends it.  0, what fn returned,
 * or -1 with err. */
int tn_hand_watch(const struct tn_hand_address *at, const char *path, bool recursive,
                  tn_watch_fn fn, void *ctx, int watch, struct tn_error *err);

/* A watcher that is asked now and then. */
int tn_hand_watcher_begin(const struct tn_hand_address *at, const char *path, bool recursive,
                          char id[TN_WATCHER_ID], int64_t deadline, struct tn_error *err);
int tn_hand_watcher_ask(const struct tn_hand_address *at, const char *id, tn_watch_fn fn, void *ctx,
                        int64_t deadline, struct tn_error *err);
int tn_hand_watcher_end(const struct tn_hand_address *at, const char *id, int64_t deadline,
                        struct tn_error *err);

#endif
