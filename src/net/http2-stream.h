/* One stream of HTTP/2, and the connection of HTTP/1.1 to the own server that it becomes. */
#ifndef TN_NET_HTTP2_STREAM_H
#define TN_NET_HTTP2_STREAM_H

#include "base/buf.h"
#include "net/http-parse.h"
#include "net/http2-lib.h"

enum {
    HTTP2_PIECE = 16 * 1024,         /* of a body at a time, and the largest frame */
    HTTP2_STREAM_WINDOW = 64 * 1024, /* of a request's body that the server has not taken yet */
    HTTP2_WINDOW = 4 * HTTP2_STREAM_WINDOW, /* of all of them: a stranger costs no more */
};

struct http2_stream {
    struct http2_stream *next, **at;
    const struct http2_lib *lib;
    nghttp2_session *session;
    int32_t id;
    int fd; /* the pair's end; -1: not begun, or over */

    /* The request: what the client said of it, until it is begun. */
    char *method, *path, *authority;
    struct tn_buf fields, cookie;
    bool has_length;
    bool ended;         /* by the client */
    struct tn_buf body; /* not sent yet, without framing */
    struct tn_buf out;  /* on its way to the server: the head, or one piece of the body */
    bool chunked, told_end;

    /* The answer. */
    bool head_only;   /* to HEAD */
    bool answered;    /* its head was given to nghttp2 */
    int64_t linger;   /* until when the rest of the request is read away; 0: it is not */
    bool finished;    /* the client was sent all of it */
    bool deferred;    /* nghttp2 waits for its next bytes */
    struct tn_buf in; /* received and not taken yet */
    struct tn_http_scan scan;
    struct tn_http_chunked chunks;
    struct tn_buf trailers; /* its lines, as they came */
    bool unchunk;
    int64_t left; /* of a known length; -1: to the end of the connection */
};

/* One for a request that begins; NULL: no memory.  It is linked into *list. */
struct http2_stream *http2_stream_new(struct http2_stream **list, const struct http2_lib *lib,
                                      nghttp2_session *session, int32_t id, size_t max_head);
void http2_stream_free(struct http2_stream *s);

/* A field of the request, as nghttp2 has checked it. */
void http2_stream_field(struct http2_stream *s, const char *name, size_t name_len,
                        const char *value, size_t value_len);
/* The request is whole but for its body: writes its head for the server.  0, or the status with
 * which to refuse it. */
int http2_stream_head(struct http2_stream *s);
/* Body of the request: 0, or -1 when there is no memory. */
int http2_stream_body(struct http2_stream *s, const void *bytes, size_t n);
/* Sends what can be sent to the server. */
void http2_stream_send(struct http2_stream *s);
/* Nobody takes the rest of the request: the client may send it into the void. */
void http2_stream_discard(struct http2_stream *s);
/* Something came from the server, or it has ended: 0, or -1 when the stream cannot go on. */
int http2_stream_receive(struct http2_stream *s);
/* What to poll its descriptor for. */
short http2_stream_events(const struct http2_stream *s);
/* An answer of our own, without a body. */
int http2_stream_refuse(struct http2_stream *s, int status);

#endif
