/* The audit log: who did what to what, with what result, each line bound to the one before.
 *
 * Lines of JSON in STATE/audit.log: {"n", "time", "key", "tenant", "what", "box", "result",
 * "request_id", "detail", "hash"}; hash is SHA-256 over the line without it and the hash before.  A
 * line is on the disk before the call that it tells of is answered.  No secret is ever in it.
 *
 * The database keeps the newest hash too (the head): lines that were cut off at the end are missed
 * by whoever can see both. */
#ifndef TN_SERVICE_AUDIT_H
#define TN_SERVICE_AUDIT_H

#include "service/key.h"

#define AUDIT_FILE "audit.log" /* in the state directory */

struct audit;
/* Goes on where the last one ended; a half line of a killed writer is cut off.  Only one process
 * writes at a time (a lock on the file; TN_E_BUSY).  db may be NULL: then no head is kept.  A file
 * that does not fit its head is logged and gone on with from the head, so that what is missing
 * stays to be seen; one that fits nothing is TN_E_CONFLICT. */
struct audit *audit_open(const char *path, struct tn_db *db, struct tn_error *err);
void audit_close(struct audit *a);
/* The store it was opened with, or NULL. */
struct tn_db *audit_store(const struct audit *a);

struct audit_entry {
    const struct caller *who; /* NULL: the service itself */
    const char *what;         /* "sandbox.create", "sandbox.pause", "key.create", "denied", ... */
    const char *box;          /* or NULL */
    const char *result;       /* "ok", or the name of the error's code */
    const char *request_id;   /* or NULL */
    const char *detail;       /* for people; or NULL */
};
/* Threads that write at the same time share one fsync.  -1: the line is not in the file. */
int audit_write(struct audit *a, const struct audit_entry *e, struct tn_error *err);

/* For programs beside the service (tendon key), which holds the log: a note in the store, in the
 * caller's transaction if there is one.  The service writes it into the log when it starts, before
 * it answers the first request after it, or within a minute; one that is killed in between may
 * write it twice. */
int audit_note(struct tn_db *db, const char *what, const char *detail, struct tn_error *err);
/* Does that; what cannot be written stays, and the next call tries again. */
void audit_take_notes(struct audit *a);

/* Walks the chain: 0 when whole with *lines, or -1 naming the first line that does not fit.  db may
 * be NULL: then a chain that ends too early is not noticed. */
int audit_verify(const char *path, struct tn_db *db, int64_t *lines, struct tn_error *err);

#endif
