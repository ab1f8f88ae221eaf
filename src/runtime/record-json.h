/* What is known of a sandbox, as JSON: the same wherever it is shown.  Never its key. */
#ifndef TN_RUNTIME_RECORD_JSON_H
#define TN_RUNTIME_RECORD_JSON_H

#include "runtime/sandbox.h"

/* Members, into an object that the caller has opened. */
void tn_record_put(const struct tn_record *r, struct tn_jw *w);
/* -1 is null. */
void tn_usage_put(const struct tn_usage *u, struct tn_jw *w);
/* All of it: record, isolation, usage, spec (secrets hidden), snapshots. */
void tn_sandbox_put_json(struct tn_runtime *rt, struct tn_sandbox *sb, struct tn_jw *w);

#endif
