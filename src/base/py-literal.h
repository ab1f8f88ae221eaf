/* Values written as Python source: what Python clients put where JSON would do. */
#ifndef TN_BASE_PY_LITERAL_H
#define TN_BASE_PY_LITERAL_H

#include "base/json.h"

/* Reads exactly one literal: None, True, False, numbers, strings, lists, tuples (as arrays) and
 * dicts with string keys, at most 32 levels deep.  The JSON words null, true and false are taken
 * too, so any JSON value is a literal.  On 0 the caller frees *tree (NULL for None).  Nothing is
 * ever evaluated. */
int tn_py_literal(const char *text, size_t len, struct tn_json **tree, struct tn_error *err);

/* Reads one literal at *at, as models write them, and sets *at behind it (on failure: where it
 * failed).  Comments count as space, any string may go on over several lines, a tuple of one needs
 * no comma. */
int tn_py_literal_at(const char *text, size_t len, size_t *at, struct tn_json **tree,
                     struct tn_error *err);

#endif
