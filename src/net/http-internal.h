/* What the files of the HTTP server share: the connection and its current exchange.
 *
 * A connection belongs to one thread.  Only its descriptor and its place in the pool are seen by
 * others, under the pool's lock. */
#ifndef TN_NET_HTTP_INTERNAL_H
#define TN_NET_HTTP_INTERNAL_H

#include <netinet/in.h>

#include "base/clock.h"
#include "net/http-conns.h"
#include "net/http-parse.h"
#include "net/http-route.h"
#include "net/http-server.h"
#include "net/socket-io.h"

/* A string that lives until the end of the exchange. */
struct http_scrap {
    struct http_scrap *next;
    char text[];
};

enum http_progress {
    HTTP_NONE,      /* not answered yet */
    HTTP_STREAMING, /* head sent, body under way */
    HTTP_ANSWERED,
    HTTP_UPGRADED,
};

struct tn_http_exchange {
    struct http_conn *conn;
    /* the request */
    const char *method;
    const char *target;
    const char *path;
    struct tn_http_slice raw_path; /* the path within target, still encoded */
    const char *query;             /* after the '?', or NULL */
    char *query_pairs;             /* "name\0value\0..." decoded, made on demand */
    const char *query_end;
    struct http_match match;
    struct http_scrap *scraps;
    void *attached; /* of the handler's own */
    void (*end_attached)(void *data);
    /* its body */
    struct tn_http_chunked chunks;
    int64_t body_left; /* of a Content-Length */
    int64_t body_read;
    int64_t body_by; /* when the next of its bytes must be there; 0: as body_seconds says */
    bool body_done;
    enum tn_code body_error; /* TN_OK, or why no further byte can be read */
    bool owes_continue;      /* the client waits for 100 Continue */
    bool ready_only;         /* do not touch the network: see http_body_skip */
    /* the answer */
    enum http_progress answer;
    int status;
    bool head_only; /* HEAD: no body is sent */
    bool chunked;   /* streaming without a known length */
    bool counted;   /* streaming with a known length */
    bool has_date;
    bool close;         /* the connection ends after this exchange */
    bool broken;        /* and it ends without ceremony: the client is gone or the stream is cut */
    int64_t write_left; /* of a stream with a known length */
    struct tn_buf fields; /* header lines set by the handler */
    int64_t started;
    struct tn_http_head head; /* offsets into conn->in; last, because its table is never cleared */
};

enum { STRANGER_SECONDS = 60 };
enum { HTTP_IN_BYTES = 4096 }; /* what an idle connection keeps to receive into */

/* Where a connection stands, for who wants to stop the server. */
enum http_phase {
    HTTP_FRESH,     /* nothing was received yet */
    HTTP_READING,   /* a request is on its way in */
    HTTP_ANSWERING, /* it is there, nothing was answered yet */
    HTTP_FLOWING,   /* a stream, or something else than HTTP by now */
    HTTP_WAITING,   /* between two requests */
};

struct http_conn {
    struct http_conns *pool;
    struct http_conn *next, *prev; /* the pool's lists, under its lock */
    int fd;
    _Atomic enum http_phase phase; /* set by its thread alone */
    /* Under the pool's lock; only its thread makes it known. */
    bool known;               /* to be somebody's */
    bool dismissed;           /* to make room: its thread is about to end */
    uint64_t owner;           /* a hash */
    struct http_conn *parent; /* whose stream of HTTP/2 it is, or NULL; known when a stream is */
    int64_t since;
    pthread_t thread;
    struct tn_http_server *server;
    /* Bytes received.  While an exchange is on, [0, in_head) is its head and does not move; [in_at,
     * in_end) is not consumed yet. */
    char *in; /* small, or on the heap while a request needs more */
    size_t in_cap, in_head, in_at, in_end;
    struct tn_buf out; /* the head of the answer is built here */
    char date[64];
    time_t date_second;
    char peer[INET6_ADDRSTRLEN];
    struct tn_http_exchange x;
    char small[HTTP_IN_BYTES];
};

/* The options with their defaults filled in, and waits in nanoseconds. */
struct http_settings {
    struct tn_http_options options;
    struct tn_http_limits limits;
    int64_t header_wait, body_wait, write_wait;
};

/* http-server.c */
const struct http_settings *http_settings_of(const struct tn_http_server *s);
const struct http_routes *http_routes_of(const struct tn_http_server *s);
bool http_stopping(const struct tn_http_server *s);

/* http-conn.c: serves the connection until it ends.  The pool owns memory and descriptor. */
void http_conn_init(struct http_conn *c, struct tn_http_server *s);
void http_conn_run(struct http_conn *c);
void http_conn_done(struct http_conn *c);
/* Notes where it stands; a stopping server has asked those that wait or flow to end. */
void http_conn_enter(struct http_conn *c, enum http_phase phase);

/* For who speaks HTTP/2 (http2.c). */
/* http-server.c: serves one end of a socket pair, which it owns, as a stream of that one. */
int http_adopt_stream(struct http_conn *parent, int fd);
/* http-conns.c: forgets that any were its streams, before it ends. */
void http_conn_leave_streams(struct http_conn *parent);
/* Whether none of its streams has shown who it is. */
bool http_conn_is_strange(struct http_conn *c);
/* http-reply.c: and for longer than strangers stay. */
bool http_conn_is_old_stranger(struct http_conn *c);

/* http-request.c */
/* n + 1 bytes that live until the end of the exchange, or NULL. */
char *http_scrap(struct tn_http_exchange *x, size_t n);
/* Consumes a rest of the body that is not much larger than HTTP_SKIP_BYTES; true when nothing is
 * left of it.  `ready`: only what was received already. */
enum { HTTP_SKIP_BYTES = 64 * 1024 };
bool http_body_skip(struct tn_http_exchange *x, bool ready);

/* The next bytes of a body of known length go straight to another socket, as a request there: as
 * net_carry says.  *carried is how many. */
int http_read_socket(struct tn_http_exchange *x, int to, double seconds, int64_t *carried);

/* http-reply.c */
/* The next *left bytes of a stream of known length come from a socket; lowers *left by what was
 * sent.  0, though some may be left where the kernel cannot carry them; -1. */
int http_write_socket(struct tn_http_exchange *x, int from, int64_t *left);

#endif
