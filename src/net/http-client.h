/* A small blocking HTTP/1.1 client: one connection, kept alive, every call with a deadline. */
#ifndef TN_NET_HTTP_CLIENT_H
#define TN_NET_HTTP_CLIENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/error.h"

struct tn_http_client;

/* address: "unix:/path", "host:port" (a numeric host or localhost), "[v6]:port" or "pair:N"
 * (net/pair.h).  Connects when first used. */
struct tn_http_client *tn_http_client_new(const char *address, struct tn_error *err);
/* The same where `dial` knows the address (it does as tn_dial does), the server is called `host`
 * there, and every target follows the path `base` ("" or without a final slash), out of which none
 * may climb (TN_E_DENIED). */
typedef int (*tn_dial_fn)(const char *address, int64_t deadline, struct tn_error *err);
struct tn_http_client *tn_http_client_at(const char *address, tn_dial_fn dial, const char *host,
                                         const char *base);
/* Further header lines ("Name: value\r\n") for each request, asked for before it: who we are, where
 * that changes.  refused: the server answered 401 to those of before; when they are others now, the
 * request is sent once more.  -1 with err.  For clients of tn_http_client_at. */
typedef int (*tn_http_lines_fn)(const char *address, bool refused, struct tn_buf *out,
                                int64_t deadline, struct tn_error *err);
void tn_http_client_lines_by(struct tn_http_client *c, tn_http_lines_fn lines);
/* Whoever waits to send, or for an answer, stops (TN_E_TIMEOUT) once that descriptor, which is
 * borrowed, is readable; a socket: once its peer has closed it. */
void tn_http_client_cancel_by(struct tn_http_client *c, int fd);
/* On a connected socket (owned from now on); it cannot reconnect. */
struct tn_http_client *tn_http_client_from_fd(int fd);
void tn_http_client_free(struct tn_http_client *c);
/* A header sent with every request (for example the key). */
void tn_http_client_header(struct tn_http_client *c, const char *name, const char *value);

/* The next bytes of a request's body: count, 0 at its end, -1 with err. */
typedef ssize_t (*tn_http_source_fn)(void *ctx, void *to, size_t n, struct tn_error *err);

struct tn_http_call {
    const char *method; /* GET when NULL */
    const char *target; /* path and query, ready to send */
    const char *type;   /* content type of the body */
    const void *body;
    size_t body_len;
    const char *extra_headers; /* "Name: value\r\n..." or NULL */
    int64_t deadline;          /* base/clock.h; covers connect, send and the whole answer */

    /* Instead of body: a stream of source_len bytes, or of unknown length when that is negative. It
     * can be read only once, so the request is never repeated. */
    tn_http_source_fn source;
    void *source_ctx;
    int64_t source_len;
    int64_t
        stall; /* nanoseconds in which something must move, whatever the deadline; 0: no limit */
};

/* Sends and receives whole; the body lands in out (whose maximum bounds it).  Returns the status,
 * or -1 with err.  Reconnects once when a kept-alive connection proved dead before any byte of the
 * answer and the method is idempotent (GET, HEAD, PUT, DELETE) or the request carries an
 * Idempotency-Key. */
int tn_http_client_call(struct tn_http_client *c, const struct tn_http_call *call,
                        struct tn_buf *out, struct tn_error *err);
/* Header of the last answer, or NULL. */
const char *tn_http_client_answer(const struct tn_http_client *c, const char *name);
/* Streaming: status and headers first, then the body piece by piece (0 at the end). */
int tn_http_client_open(struct tn_http_client *c, const struct tn_http_call *call,
                        struct tn_error *err);
ssize_t tn_http_client_read(struct tn_http_client *c, void *to, size_t n, int64_t deadline,
                            struct tn_error *err);

#endif
