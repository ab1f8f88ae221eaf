/* Bodies of the requests that make sandboxes.  Each is appended to out; -1 when a part of the spec
 * cannot be kept: err names it. */
#ifndef TN_RUNTIME_REMOTE_BODY_H
#define TN_RUNTIME_REMOTE_BODY_H

#include "runtime/remote/remote.h"

/* wait: how many seconds the service may take for its answer. */
int remote_native_body(const struct remote *r, const struct tn_subject *s, double wait,
                       struct tn_buf *out, struct tn_error *err);
int remote_fork_body(const struct remote *r, const struct tn_subject *child, const char *snapshot,
                     const struct tn_json *env, double wait, struct tn_buf *out,
                     struct tn_error *err);
int remote_openhands_body(const struct remote *r, const struct tn_subject *s, struct tn_buf *out,
                          struct tn_error *err);

#endif
