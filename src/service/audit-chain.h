/* The chain of the audit log: what a line looks like, and whether it fits the one before. */
#ifndef TN_SERVICE_AUDIT_CHAIN_H
#define TN_SERVICE_AUDIT_CHAIN_H

#include "base/buf.h"
#include "service/audit.h"

enum { AUDIT_LINE_MAX = 16 << 10, AUDIT_HASH = 64 };

/* A place in the file: after line n, which ends at that offset.  All zeros: the beginning. */
struct audit_place {
    int64_t n, offset;
    char hash[AUDIT_HASH + 1]; /* of line n; "" stands for none */
};

/* Appends the line that comes after `at`, whole or not at all (TN_E_BUSY: out is full), and moves
 * `at` behind it. */
int audit_chain_add(struct audit_place *at, const struct audit_entry *e, struct tn_buf *out,
                    struct tn_error *err);

/* Walks whole lines of the file from `at` on, as long as they fit, and moves `at` behind the last
 * one that does; stops after line `last` (0: at the end).  1: there are bytes after it that are no
 * whole line; -1 names the line that does not fit. */
int audit_chain_walk(int fd, struct audit_place *at, int64_t last, struct tn_error *err);

/* Whether a line with that hash ends there. */
int audit_chain_ends(int fd, const struct audit_place *at, struct tn_error *err);

/* The newest place as the database knows it; 1, 0 when it knows none, -1. */
int audit_head_read(struct tn_db *db, struct audit_place *out, struct tn_error *err);
int audit_head_write(struct tn_db *db, const struct audit_place *at, struct tn_error *err);

#endif
