/* Values as Python's repr() writes them: what trees and error texts show. */
#ifndef TN_HAND_BROWSER_REPR_H
#define TN_HAND_BROWSER_REPR_H

#include "base/buf.h"
#include "base/json.h"

/* Appends the string in quotes: single ones, unless only those occur in it. */
void tn_put_repr(struct tn_buf *out, const char *s, size_t n);
/* Appends any value. */
void tn_put_repr_json(struct tn_buf *out, const struct tn_json *v);

#endif
