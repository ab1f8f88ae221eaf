/* Handing an exchange over to another HTTP server: what a reverse proxy does. */
#ifndef TN_NET_HTTP_FORWARD_H
#define TN_NET_HTTP_FORWARD_H

#include "net/http-server.h"

/* What becomes of a header line. */
enum tn_http_verdict {
    TN_HTTP_PASS,
    TN_HTTP_DROP,
    TN_HTTP_CHANGE, /* its value is now what was appended to `changed` */
};
/* Asked for every line but those of a single connection, which never pass. */
typedef enum tn_http_verdict (*tn_http_filter_fn)(const char *name, const char *value,
                                                  struct tn_buf *changed, void *ctx);

struct tn_http_forward {
    const char *target;  /* what to ask it for */
    const char *host;    /* how to call it; NULL: as the client does */
    const char *extra;   /* further header lines ("Name: value\r\n..."), or NULL */
    const char *upgrade; /* the only protocol that it may switch to; NULL: whatever is asked for */
    double seconds;      /* how long its answer may take to begin */
    tn_http_filter_fn on_request, on_answer; /* NULL: all pass */

    /* A connection to that server.  *kept: it was used before and may have died since; then there
     * is a second call for a fresh one when it did. */
    int (*connect)(void *ctx, bool fresh, bool *kept, struct tn_error *err);
    /* Gets the connection back when it can carry another request; NULL: it never does. */
    void (*keep)(void *ctx, int fd);
    void *ctx; /* of all four */

    uint64_t carried; /* filled in: bytes of bodies and of upgraded streams, both ways */
};

/* Passes the request on and the answer back, both as streams and without what belongs to a single
 * connection; an upgrade that the server agrees to becomes a pipe until it ends.  Either side that
 * leaves ends the other at once.  A request is sent twice only when nothing of it was sent at
 * first, or when it is idempotent and its body at hand.  0, or -1 with err when there is no answer
 * (the exchange then waits for one of ours); an answer that breaks off later is cut. */
int tn_http_forward(struct tn_http_exchange *x, struct tn_http_forward *to, struct tn_error *err);

#endif
