/* The HTTP server: one thread per connection, handlers that read like their specification.
 *
 * A handler gets an exchange, reads the request from it (the body as a stream), and answers once:
 * with a whole reply, with a stream, or by upgrading the connection.  Everything blocks with a
 * deadline; a slow client never holds anything but its own thread.  A handler that returns without
 * answering, or with unread body, leaves the connection in a state the server cleans up by itself.
 * An exchange and every string it gave out are valid until the handler returns. */
#ifndef TN_NET_HTTP_SERVER_H
#define TN_NET_HTTP_SERVER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/error.h"

struct tn_http_server;
struct tn_http_exchange;
struct http_conn;

typedef void (*tn_http_handler_fn)(struct tn_http_exchange *x, void *ctx);

/* A row of the route table.  Patterns are literal paths with {name} for one segment and a final
 * {name...} for the rest ("/v1/sessions/{name}/output"); at each segment a literal goes before
 * {name} before {name...}, whatever the order of rows.  HEAD is answered by the GET row.  A path
 * that matches only rows of other methods gets 405 with Allow. */
struct tn_route {
    const char *method;
    const char *pattern;
    tn_http_handler_fn handle;
    const char *help;
    unsigned flags;
};
enum { TN_ROUTE_OPEN = 1 }; /* answered without asking `allow` */

/* Called before routing of anything but TN_ROUTE_OPEN rows, unknown paths included.  Returns true
 * to go on; otherwise it has answered. */
typedef bool (*tn_http_allow_fn)(struct tn_http_exchange *x, void *ctx);

/* Called once per finished request, for the access log.  May be NULL. */
typedef void (*tn_http_log_fn)(const struct tn_http_exchange *x, int status, int64_t nanoseconds,
                               void *ctx);

/* How the server's own errors (404, 405, 413, ...) are told: it answers with that status. */
typedef void (*tn_http_refuse_fn)(struct tn_http_exchange *x, int status, const char *detail,
                                  void *ctx);

/* Called when the head of an answer is about to be written: it may add headers.  May be NULL. */
typedef void (*tn_http_head_fn)(struct tn_http_exchange *x, void *ctx);

struct tn_http_options {
    const struct tn_route *const *routes; /* NULL-terminated list of tables, each ended by {0} */
    tn_http_allow_fn front; /* first of all, for every request: false when it has answered */
    tn_http_allow_fn allow;
    tn_http_refuse_fn refuse; /* NULL: {"detail": ...} */
    tn_http_head_fn head;
    tn_http_log_fn log;
    bool (*http2)(struct http_conn *c); /* tn_http2_serve (net/http2.h); NULL: HTTP/1.1 alone */
    void *ctx;                          /* passed to handlers, allow and log */
    /* Limits; 0 takes the default in brackets. */
    size_t max_header_bytes; /* all header lines together [32 KiB]: over it 431 */
    size_t max_target_bytes; /* request target [8 KiB]: over it 414 */
    int64_t max_body_bytes;  /* [16 GiB]: over it 413 */
    int max_connections;     /* [256]: over it 503 and close */
    int max_strangers;       /* of them, whose client is not known yet: see tn_http_know [0] */
    double header_seconds;   /* first byte to end of headers [10] : over it 408 */
    double idle_seconds;     /* keep-alive between requests [75]: closed silently */
    double body_seconds;     /* longest wait for the next bytes of a body [30]: over it 408 */
    double write_seconds;    /* longest wait for the client to take bytes [30]: connection closed */
    size_t stack_bytes;      /* of a connection's thread [128 KiB] */
};

/* Connections of strangers, where max_strangers is set: however many come, the next one gets in,
 * and the oldest of them goes, of its own address when half of them are from there.  One that is
 * idle goes before one that is being answered.  Each has header_seconds for its next request and a
 * minute in all.  The others have the rest of max_connections for themselves. */

struct tn_http_server *tn_http_server_new(const struct tn_http_options *options);
/* Starts accepting on a listening socket (TCP or unix; the server owns it from now on).  May be
 * called several times; each listener has one accept thread. */
int tn_http_server_listen(struct tn_http_server *s, int listen_fd, struct tn_error *err);
/* Serves one already connected socket (for example half of a socket pair); owns it from now on. */
int tn_http_server_adopt(struct tn_http_server *s, int fd, struct tn_error *err);
/* The same where somebody stands between us and the client: peer is what tn_http_peer will say. */
int tn_http_server_adopt_as(struct tn_http_server *s, int fd, const char *peer,
                            struct tn_error *err);
/* Stops accepting, ends every connection, and waits up to `seconds` for their threads; returns the
 * number still running (then nothing is freed: try again, or exit).  For the first half of the time
 * only the reading side is shut down, so that answers under way still arrive. */
int tn_http_server_stop(struct tn_http_server *s, double seconds);
/* Before a stop that nobody should feel: stops accepting, closes connections between two requests,
 * and waits up to `seconds` for requests that are on their way in or not answered yet; the first
 * one of a connection that was just accepted has a second to arrive.  Streams and upgraded
 * connections see the reading side shut at once.  Returns how many connections are left. */
int tn_http_server_drain(struct tn_http_server *s, double seconds);
void tn_http_server_free(struct tn_http_server *s); /* after a stop that returned 0 */

/* --- the request --------------------------------------------------------------------------- */

const char *tn_http_method(const struct tn_http_exchange *x);
/* Percent-decoded, without the query; starts with '/' (but "*" for OPTIONS *).  Dots and double
 * slashes are as sent. */
const char *tn_http_path(const struct tn_http_exchange *x);
const char *tn_http_target(const struct tn_http_exchange *x); /* as sent */
/* What {name} of the pattern caught, decoded (an escaped slash does not split a segment, so it may
 * be in here).  NULL when the pattern has no such name. */
const char *tn_http_param(struct tn_http_exchange *x, const char *name);
/* Decoded ('+' is a space); the last one counts; NULL when absent. */
const char *tn_http_query(struct tn_http_exchange *x, const char *name);
/* The first such header, ignoring case; NULL when absent. */
const char *tn_http_header(const struct tn_http_exchange *x, const char *name);
/* The same of the next whose name begins so: *at counts through them, from 0; *rest is what
 * follows in the name.  NULL: no more. */
const char *tn_http_next_header(const struct tn_http_exchange *x, const char *prefix, unsigned *at,
                                const char **rest);
int64_t tn_http_content_length(const struct tn_http_exchange *x); /* -1: chunked; 0: none */
const char *tn_http_peer(const struct tn_http_exchange *x);       /* "127.0.0.1", "unix", ... */

/* Whose connection this is from here on: it has shown a key, say.  An owner (NULL: the only one
 * there is) has at most half of what strangers leave; where there is no room, the oldest that waits
 * for a request goes first.  False: all are busy, and this one stays a stranger's. */
bool tn_http_know(struct tn_http_exchange *x, const char *owner);

/* Next bytes of the body: count, 0 at its end, -1 with err (408, 413, peer gone).  Sends
 * 100-continue by itself when the client waits for it. */
ssize_t tn_http_read(struct tn_http_exchange *x, void *to, size_t n, struct tn_error *err);
/* The whole body into out, whose maximum is the limit (over it: TN_E_TOO_LARGE; TN_E_BUSY: its
 * purse is empty).  It must come at 32 KiB a second on average, but for what body_seconds allow:
 * what is held in memory is not held for long. */
int tn_http_read_all(struct tn_http_exchange *x, struct tn_buf *out, struct tn_error *err);

/* True when the client has closed its connection, or only its sending side (a look, no wait; a
 * further request already sent does not hide it).  Also true once the server is stopping. */
bool tn_http_peer_gone(const struct tn_http_exchange *x);
/* Something of the caller's that lives until the end of the exchange, then `end` frees it.  One at
 * a time: a second call ends the first. */
void tn_http_attach(struct tn_http_exchange *x, void *data, void (*end)(void *data));
void *tn_http_attached(const struct tn_http_exchange *x); /* or NULL */
/* For any thread while the exchange lives: it goes on as if its client had just gone. */
void tn_http_cut(const struct tn_http_exchange *x);
/* The connection's descriptor, only to poll for POLLRDHUP beside others while a handler waits. */
int tn_http_fd(const struct tn_http_exchange *x);

/* --- the answer ---------------------------------------------------------------------------- */

/* A header for the reply to come (value is copied; one with control bytes is dropped).  Framing is
 * the server's: Content-Length and Transfer-Encoding are dropped, of Connection all but close. */
void tn_http_set_header(struct tn_http_exchange *x, const char *name, const char *value);
/* Whether there is one of that name. */
bool tn_http_sets_header(const struct tn_http_exchange *x, const char *name);
/* "Not Found" of 404. */
const char *tn_http_reason(int status);
/* Whole replies.  0, or -1 when the client did not take it.  A status below 200 becomes 500. */
int tn_http_reply(struct tn_http_exchange *x, int status, const char *type, const void *body,
                  size_t n);
int tn_http_reply_json(struct tn_http_exchange *x, int status, const struct tn_buf *json);
/* {"detail":"..."} with the given status, or with the status of err's code. */
int tn_http_reply_detail(struct tn_http_exchange *x, int status, const char *detail);
int tn_http_reply_error(struct tn_http_exchange *x, const struct tn_error *err);

/* Streaming: length -1 means chunked (or close for HTTP/1.0).  The head is sent at once.  All
 * return 0, or -1 when the client is gone.  A stream that is not ended, or shorter or longer than
 * announced, is cut so that the client notices. */
int tn_http_start(struct tn_http_exchange *x, int status, const char *type, int64_t length);
int tn_http_write(struct tn_http_exchange *x, const void *bytes, size_t n);
/* Sends n bytes of fd from offset (sendfile where it can). */
int tn_http_write_file(struct tn_http_exchange *x, int fd, int64_t offset, int64_t n);
int tn_http_end(struct tn_http_exchange *x);
/* The same with trailers after a stream without a known length: lines ("name: value\r\n...",
 * names in lower case). */
int tn_http_end_with(struct tn_http_exchange *x, const char *trailers);
/* Marks a started stream as broken: the connection is closed without the proper end. */
void tn_http_abort(struct tn_http_exchange *x);

/* Answers 101 with `Upgrade: protocol` and hands over the socket: the handler owns reading and
 * writing of the returned descriptor (blocking, no timeout; send with MSG_NOSIGNAL) until it
 * returns, and must not close it.  Bytes the client sent early are appended to early.  -1 when the
 * request did not ask for that protocol (400 has been answered). */
int tn_http_upgrade(struct tn_http_exchange *x, const char *protocol, struct tn_buf *early);

#endif
