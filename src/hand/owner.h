/* The process outside that a hand must not outlive. */
#ifndef TN_HAND_OWNER_H
#define TN_HAND_OWNER_H

#include "base/error.h"

/* A descriptor that becomes readable when the owner ends.  who is what --exit-with says: "PID" or
 * "PID:START"; or "lock:FILE" where the owner, in another process namespace perhaps, holds a lock
 * (flock) on the file for as long as it lives.  -1 with err; TN_E_GONE when it has ended already.
 */
int tn_watch_owner(const char *who, struct tn_error *err);

#endif
