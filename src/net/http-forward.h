/* Handing an exchange over to another HTTP server: what a reverse proxy does. */
#ifndef TN_NET_HTTP_FORWARD_H
#define TN_NET_HTTP_FORWARD_H

#include "net/http-server.h"

struct tn_http_forward {
    int fd;             /* a fresh connection to that server; stays the caller's */
    const char *target; /* what to ask it for */
    const char *cookie; /* a cookie that is none of its business, or NULL */
    double seconds;     /* how long its answer may take to begin */
};

/* Passes the request on and the answer back, both as streams and without what belongs to a single
 * connection; an upgrade that the server agrees to becomes a pipe until it ends.  0, or -1 with err
 * when there is no answer (the exchange then waits for one of ours); an answer that breaks off
 * later is cut. */
int tn_http_forward(struct tn_http_exchange *x, const struct tn_http_forward *to,
                    struct tn_error *err);

#endif
