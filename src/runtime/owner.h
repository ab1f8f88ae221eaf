/* Who a sandbox belongs to, and the lock under which something is done to it. */
#ifndef TN_RUNTIME_OWNER_H
#define TN_RUNTIME_OWNER_H

#include <stdbool.h>

#include "base/error.h"
#include "runtime/backend.h"

/* This process. */
struct tn_owner tn_owner_self(void);
/* The boot id of this kernel; empty when it has none.  Lives for ever. */
const char *tn_boot_id(void);
/* False also for a process of an earlier boot. */
bool tn_owner_lives(struct tn_owner owner, const char *boot);

/* 16 hexadecimal digits for this machine and state directory, by which things that lie elsewhere
 * are known to be ours. */
void tn_state_mark(const char *state, char out[17]);

/* A fresh id, and a fresh key of 32 letters and digits. */
int tn_new_id(char out[11], struct tn_error *err);
int tn_new_key(char out[33], struct tn_error *err);

/* The lock of one sandbox, between threads and between processes; it falls with its holder.
 * Returns the descriptor that holds it (closing it unlocks), or -1: TN_E_BUSY at the deadline, at
 * once when that is 0. */
int tn_sandbox_lock(const char *state, const char *id, int64_t deadline, struct tn_error *err);

/* That a sandbox is in use, which falls with who uses it: the descriptor that says so until it is
 * closed, or -1. */
int tn_sandbox_use_mark(const char *state, const char *id);
/* The proof that it is not, for as long as the descriptor is open; -1: it is, or may be. */
int tn_sandbox_use_none(const char *state, const char *id);

#endif
