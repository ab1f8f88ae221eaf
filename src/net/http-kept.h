/* Connections kept for the next request to the same server: a few each, and not for long. */
#ifndef TN_NET_HTTP_KEPT_H
#define TN_NET_HTTP_KEPT_H

#include <stddef.h>

struct tn_http_kept;

/* At most `each` per name and `all` together; over it the one unused for longest is closed.  For
 * any number of threads. */
struct tn_http_kept *tn_http_kept_new(size_t each, size_t all, double seconds);
void tn_http_kept_free(struct tn_http_kept *k);

/* A connection under that name which the server has not closed, or -1; the caller's from now on. */
int tn_http_kept_take(struct tn_http_kept *k, const char *name);
/* Keeps fd, which is its own from now on. */
void tn_http_kept_give(struct tn_http_kept *k, const char *name, int fd);

#endif
