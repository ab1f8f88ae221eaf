/* The environment that a shell gives to programs, from the text in which it lists what it exports:
 * `declare -px` and `declare -fx` of bash, `export -p` of others.  It is read, never evaluated. */
#ifndef TN_HAND_PYTHON_EXPORTS_H
#define TN_HAND_PYTHON_EXPORTS_H

#include "base/json.h"

/* "NAME=VALUE" entries, ended by NULL; functions as bash passes them on ("BASH_FUNC_f%%=() {...}").
 * Arrays, variables without a value and lines that make no sense are left out.  The caller frees it
 * with exports_free. */
char **exports_parse(const char *listing);
void exports_free(char **exports);

/* The value, or NULL. */
const char *exports_get(char *const *exports, const char *name);
/* Replaces or adds one. */
void exports_set(char ***exports, const char *name, const char *value);

/* Writes members of an object: variables of `after` that differ, with their values, and those that
 * only `before` has, with null.  What concerns none but the shell itself is left out. */
void exports_put_changes(char *const *before, char *const *after, struct tn_jw *w);

#endif
