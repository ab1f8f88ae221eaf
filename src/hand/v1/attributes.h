/* Extended attributes of files that belong to their owner ("user."), as far as a request names
 * them by what they begin with. */
#ifndef TN_HAND_V1_ATTRIBUTES_H
#define TN_HAND_V1_ATTRIBUTES_H

#include "base/json.h"
#include "net/http-server.h"

/* ?attributes=, "user." and more; NULL: none is asked for.  -1: answered. */
int tn_v1_query_attributes(struct tn_http_exchange *x, const char **prefix);

/* A member "attributes" with those of what is open ("") or has that name in a directory, unless
 * it has none; their names without the prefix. */
void tn_v1_put_attributes(struct tn_jw *w, int fd, const char *name, const char *prefix);

/* Those that begin so become these. */
int tn_v1_set_attributes(int fd, const char *prefix, const struct tn_json *these,
                         struct tn_error *err);

#endif
