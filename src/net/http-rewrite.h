/* Header lines on their way through a proxy: what belongs to one connection stays behind, what the
 * proxy hides is dropped or changed.  Pure: heads in memory, lines out. */
#ifndef TN_NET_HTTP_REWRITE_H
#define TN_NET_HTTP_REWRITE_H

#include "base/buf.h"
#include "net/http-forward.h"
#include "net/http-parse.h"

typedef void (*http_line_fn)(const char *name, const char *value, void *to);

/* Calls fn for every line of the head that goes on.  Names and values in `bytes` are terminated. */
void http_pass_lines(const struct tn_http_head *head, const char *bytes, tn_http_filter_fn filter,
                     void *ctx, http_line_fn fn, void *to);

/* What a request becomes. */
struct http_request_head {
    const char *method;
    const struct tn_http_head *head; /* as it came in, terminated within `bytes` */
    const char *bytes;
    const char *upgrade; /* a protocol to switch to, or NULL */
    bool keep;           /* the connection may be used again */
};
/* Appends the head of the request to send, the empty line included. */
void http_request_lines(const struct http_request_head *r, const struct tn_http_forward *to,
                        struct tn_buf *out);

#endif
