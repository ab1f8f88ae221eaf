/* Where programs of others lie that are found by their name: tendon-runtime-NAME and so on. */
#ifndef TN_BASE_PROGRAM_SEARCH_H
#define TN_BASE_PROGRAM_SEARCH_H

#include "base/field.h"

/* Letters, digits, '_' and '-', 48 at most: what may become a part of a path. */
bool tn_program_name_ok(const char *name);

/* The first executable `prefix`NAME in these directories and those of PATH, on the heap, or NULL.
 * Only absolute ones count: what is run must not depend on where somebody stands. */
char *tn_program_search(const struct tn_str_list *own, const char *prefix, const char *name);

/* Calls fn with name and path of each that there is, once for a name; starts none. */
typedef void (*tn_program_fn)(const char *name, const char *path, void *ctx);
void tn_program_each(const struct tn_str_list *own, const char *prefix, tn_program_fn fn,
                     void *ctx);

#endif
