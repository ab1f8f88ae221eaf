/* Backends that are programs of their own: executables tendon-runtime-NAME that speak the interface
 * of backend.h as JSON-RPC 2.0, one object per line, on their standard input and output.  The
 * protocol is described in docs/runtime-plugins.md. */
#ifndef TN_RUNTIME_EXTERNAL_H
#define TN_RUNTIME_EXTERNAL_H

#include "runtime/registry.h"

/* The backend of that name: its program is started and asked what it can do.  NULL with err:
 * TN_E_NOT_FOUND when there is no such program.  Lives as long as the process. */
const struct tn_backend *tn_external_find(const struct tn_config *config, const char *name,
                                          struct tn_error *err);

/* Calls fn with name and path of each program on the search path; starts none. */
void tn_external_each(const struct tn_config *config, tn_backend_name_fn fn, void *ctx);

#endif
