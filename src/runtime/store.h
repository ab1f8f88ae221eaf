/* The store: what exists, on disk before it exists in the world.
 *
 * One SQLite file in write-ahead mode; any number of processes may use it.  A row is written before
 * the backend makes anything and removed after everything is gone, so a process may die at any
 * moment: gc compares rows, owners and leases with what the backends find.  A handle serves several
 * threads. */
#ifndef TN_RUNTIME_STORE_H
#define TN_RUNTIME_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "runtime/backend.h"
#include "runtime/database.h"

struct tn_store;

/* The state directory: made (0700) when missing.  Keys and programs are read from it, so it must be
 * ours and nobody else may write to it, and those above it must be root's or ours and not writable
 * by others unless sticky: TN_E_DENIED.  An O_PATH descriptor, or -1. */
int tn_state_open(const char *directory, struct tn_error *err);

/* directory is as tn_state_open wants it. */
struct tn_store *tn_store_open(const char *directory, struct tn_error *err);
void tn_store_close(struct tn_store *s);
/* The database that it is in; borrowed. */
struct tn_db *tn_store_db(struct tn_store *s);

/* One sandbox.  Strings are owned; tn_record_done frees them. */
struct tn_record {
    char *id;
    char *name;    /* or NULL */
    char *runtime; /* canonical name of the backend */
    char *spec;    /* JSON text */
    char *key;
    char *address;       /* of the hand, as last heard, or NULL */
    char *ref;           /* or NULL */
    char *pool;          /* digest of the spec while it waits in a warm pool, else NULL */
    int64_t pool_max;    /* only for tn_store_add: no more of its pool than these; 0: any number */
    char *parent;        /* id it was forked from, or NULL */
    char *reason;        /* why it ended, or NULL */
    char *isolation;     /* JSON text, or NULL */
    enum tn_blame blame; /* of the reason, as a backend said it to this handle; no column */
    int found; /* of a create, no column: how many of its name its backend had without a row; it is
                  the best of them.  0: it was made */
    enum tn_status status;
    struct tn_owner owner;
    char *boot;           /* boot id of the owner's kernel */
    double created, used; /* seconds since 1970, to show them */
    double idle;          /* seconds since the last use, or since the machine was started */
    double lease;         /* seconds without a use after which it may go; 0: never */
};
void tn_record_done(struct tn_record *r);
#define tn_autorecord TN_CLEANUP(tn_record_done)

/* Adds the row; TN_E_CONFLICT when id or name is taken, or its pool has all it may have. */
int tn_store_add(struct tn_store *s, const struct tn_record *r, struct tn_error *err);
/* By id, by name, or by a prefix of the id that fits only one (at least 3 characters).
 * TN_E_NOT_FOUND, or TN_E_CONFLICT when several fit. */
int tn_store_find(struct tn_store *s, const char *which, struct tn_record *out,
                  struct tn_error *err);
/* Oldest first; non-zero from fn stops and is returned.  fn may use the store. */
typedef int (*tn_record_fn)(const struct tn_record *r, void *ctx);
enum tn_store_part {
    TN_STORE_CLAIMED, /* all but the warm ones */
    TN_STORE_ALL,
    TN_STORE_BOUND, /* those with an owner or a lease: what gc looks at */
    TN_STORE_WARM,
};
int tn_store_each(struct tn_store *s, enum tn_store_part part, tn_record_fn fn, void *ctx,
                  struct tn_error *err);
/* How many warm ones of that digest there are, or -1; *ready (may be NULL): those that can be
 * claimed, the others are being made. */
int tn_store_warm_count(struct tn_store *s, const char *runtime, const char *digest, int *ready,
                        struct tn_error *err);
/* What a backend said: status, address, reason; ref, isolation and key where they are not NULL. */
int tn_store_place(struct tn_store *s, const char *id, const struct tn_place *place,
                   struct tn_error *err);
/* Its spec is this JSON text from now on. */
int tn_store_spec(struct tn_store *s, const char *id, const char *spec, struct tn_error *err);
/* Who it must not outlive from now on; pid 0: nobody. */
int tn_store_own(struct tn_store *s, const char *id, struct tn_owner owner, struct tn_error *err);
/* It is gc's from now on, and has no name. */
int tn_store_disown(struct tn_store *s, const char *id, struct tn_error *err);
/* The sandbox was used just now. */
int tn_store_touch(struct tn_store *s, const char *id, struct tn_error *err);
/* Whether a service keeps warm sandboxes of that kind, for clients of its own: 1, 0, or -1. */
int tn_store_is_served(struct tn_store *s, const char *runtime, const char *digest,
                       struct tn_error *err);
/* Takes the oldest warm sandbox with that runtime and digest out of its pool, in one step: no two
 * callers get the same.  One that belongs to another process, or whose lease has run out, is gc's
 * alone.  Name, spec, owner, boot, times and lease become those of `as`.  1 with *out, 0 when the
 * pool is empty, -1. */
int tn_store_claim(struct tn_store *s, const char *digest, const struct tn_record *as,
                   struct tn_record *out, struct tn_error *err);
/* What its backend notes is this JSON text from now on. */
int tn_store_ref(struct tn_store *s, const char *id, const char *ref, struct tn_error *err);
/* Takes this one out of its pool, for whoever removes it: 1, or 0 when it is in none any more. */
int tn_store_unpool(struct tn_store *s, const char *id, struct tn_owner owner,
                    struct tn_error *err);
int tn_store_remove(struct tn_store *s, const char *id, struct tn_error *err);

/* Snapshots. */
struct tn_snapshot {
    char *sandbox, *name;
    double created;
};
typedef int (*tn_snapshot_fn)(const struct tn_snapshot *snapshot, void *ctx);
int tn_store_snapshot_add(struct tn_store *s, const char *sandbox, const char *name,
                          struct tn_error *err);
int tn_store_snapshot_remove(struct tn_store *s, const char *sandbox, const char *name,
                             struct tn_error *err);
/* Oldest first; non-zero from fn stops and is returned.  fn must not use the store. */
int tn_store_snapshots(struct tn_store *s, const char *sandbox, tn_snapshot_fn fn, void *ctx,
                       struct tn_error *err);

#endif
