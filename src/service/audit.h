/* The audit log: who did what to what, with what result, each line bound to the one before.
 *
 * Lines of JSON in STATE/audit.log: {"n", "time", "key", "tenant", "what", "box", "result",
 * "request_id", "detail", "hash"}; hash is SHA-256 over the line without it and the hash before.  A
 * line is on the disk before the call that it tells of is answered.  No secret is ever in it. */
#ifndef TN_SERVICE_AUDIT_H
#define TN_SERVICE_AUDIT_H

#include "service/key.h"

struct audit;
/* Goes on where the last one ended; a half line of a killed writer is cut off.  Only one process
 * writes at a time (a lock on the file; TN_E_BUSY). */
struct audit *audit_open(const char *path, struct tn_error *err);
void audit_close(struct audit *a);

struct audit_entry {
    const struct caller *who; /* NULL: the service itself */
    const char *what;         /* "sandbox.create", "sandbox.pause", "key.create", "denied", ... */
    const char *box;          /* or NULL */
    const char *result;       /* "ok", or the name of the error's code */
    const char *request_id;   /* or NULL */
    const char *detail;       /* for people; or NULL */
};
int audit_write(struct audit *a, const struct audit_entry *e, struct tn_error *err);

/* Walks the chain: 0 when whole with *lines, or -1 naming the first line that does not fit. */
int audit_verify(const char *path, int64_t *lines, struct tn_error *err);

#endif
