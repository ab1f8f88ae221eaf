/* Which backends there are: those of this build, and executables `tendon-runtime-NAME`. */
#ifndef TN_RUNTIME_REGISTRY_H
#define TN_RUNTIME_REGISTRY_H

#include "runtime/backend.h"

/* The built-in ones, in the order of documentation; NULL at the end. */
extern const struct tn_backend *const tn_backends[];

/* By name or alias: a built-in one, else an executable tendon-runtime-NAME on the search path
 * (config tendon.runtime_path, then PATH).  NULL with err, which lists the known names.  The result
 * lives as long as the process. */
const struct tn_backend *tn_backend_find(const struct tn_config *config, const char *name,
                                         struct tn_error *err);

/* Calls fn for the names of all, built in and found on the path. */
typedef void (*tn_backend_name_fn)(const char *name, const char *summary, void *ctx);
void tn_backend_each(const struct tn_config *config, tn_backend_name_fn fn, void *ctx);

#endif
