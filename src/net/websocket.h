/* WebSocket (RFC 6455), server side on an exchange and client side on a connected socket. */
#ifndef TN_NET_WEBSOCKET_H
#define TN_NET_WEBSOCKET_H

#include "net/http-server.h"

enum tn_ws_kind {
    TN_WS_TEXT = 1,
    TN_WS_BINARY = 2,
    TN_WS_CLOSE = 8,
    TN_WS_PING = 9,
    TN_WS_PONG = 10
};

struct tn_ws {
    int fd;      /* borrowed */
    bool client; /* mask what we send */
    bool close_sent;
    size_t max_message;    /* larger messages close with 1009 */
    struct tn_buf in;      /* bytes not yet parsed */
    struct tn_buf message; /* fragments so far */
    int message_kind;
    char protocol[32]; /* of a client: what the server chose of those that its headers offer */
    int refused;       /* of a client: the status that the server gave instead of 101, or 0 */
};

/* Answers the handshake.  0, or -1 when the request was no valid one (answered already). */
int tn_ws_accept(struct tn_http_exchange *x, struct tn_ws *ws, size_t max_message);
void tn_ws_done(struct tn_ws *ws);
/* True when a further frame may already be complete in ws->in: call tn_ws_recv before polling. */
bool tn_ws_buffered(const struct tn_ws *ws);
/* Next message: its kind with the payload in out, TN_WS_CLOSE when the peer closed (answered), 0
 * when the deadline passed, -1 on a broken peer (closed with the right code).  Answers pings by
 * itself; pongs are returned so that a caller may watch liveness. */
int tn_ws_recv(struct tn_ws *ws, struct tn_buf *out, int64_t deadline, struct tn_error *err);
/* One unfragmented message.  Safe against a concurrent tn_ws_recv only if the caller locks. */
int tn_ws_send(struct tn_ws *ws, enum tn_ws_kind kind, const void *bytes, size_t n,
               int64_t deadline);
int tn_ws_close(struct tn_ws *ws, int code, const char *reason);
/* Client handshake on a connected socket (blocks, with a deadline); path is the request target,
 * TN_E_INVALID when that climbs (net/url.h). */
int tn_ws_connect(struct tn_ws *ws, int fd, const char *host, const char *path,
                  const char *extra_headers, size_t max_message, int64_t deadline,
                  struct tn_error *err);

/* --- the frame parser, pure, for fuzzing --------------------------------------------------- */
struct tn_ws_frame {
    bool fin;
    int opcode;
    size_t header; /* bytes before the payload */
    size_t length; /* payload bytes */
    unsigned char mask[4];
    bool masked;
};
/* 1 when a whole frame lies in bytes, 0 when more is needed (f->header is 0 or known by then,
 * f->length too once the header is there), -1 when it breaks the protocol, -2 when a data frame is
 * longer than max. */
int tn_ws_parse(const unsigned char *bytes, size_t n, bool expect_mask, size_t max,
                struct tn_ws_frame *f);

#endif
