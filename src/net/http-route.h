/* The compiled route table: a tree of path segments, literal before {name} before {name...}. */
#ifndef TN_NET_HTTP_ROUTE_H
#define TN_NET_HTTP_ROUTE_H

#include "net/http-server.h"

enum { HTTP_MAX_PARAMS = 8 };

struct http_routes;

/* A row's pattern captured these pieces of the path, still encoded. */
struct http_capture {
    const char *name; /* into the pattern */
    size_t name_len;
    const char *text; /* into the path */
    size_t len;
};

struct http_match {
    const struct tn_route *route; /* NULL: no row of that method */
    unsigned allowed; /* bits for http_routes_allow: methods the path has; 0: unknown path */
    int count;
    struct http_capture captures[HTTP_MAX_PARAMS];
};

/* tables is a NULL-terminated list, as in tn_http_options; the rows must outlive the result.  A
 * malformed pattern is a bug in the program and aborts. */
struct http_routes *http_routes_new(const struct tn_route *const *tables);
void http_routes_free(struct http_routes *r);

/* path is n bytes, percent-encoded, starting with '/'. */
void http_routes_match(const struct http_routes *r, const char *method, const char *path, size_t n,
                       struct http_match *match);
/* True for the methods of RFC 9110 and those any row names. */
bool http_routes_known_method(const struct http_routes *r, const char *method);
/* The value of an Allow header for a match ("GET, HEAD, POST"); ~0u gives all methods there are. */
void http_routes_allow(const struct http_routes *r, unsigned allowed, struct tn_buf *out);

#endif
