/* Where programs tendon-runtime-NAME lie. */
#ifndef TN_RUNTIME_EXTERNAL_SEARCH_H
#define TN_RUNTIME_EXTERNAL_SEARCH_H

#include "runtime/external/external.h"

#define PROGRAM_PREFIX "tendon-runtime-"

/* Letters, digits, '_' and '-': what may become a part of a path. */
bool search_name_ok(const char *name);
/* The first one on the path, on the heap, or NULL. */
char *search_find(const struct tn_config *config, const char *name);

#endif
