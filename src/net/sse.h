/* Server-sent events on an exchange. */
#ifndef TN_NET_SSE_H
#define TN_NET_SSE_H

#include "net/http-server.h"

/* Starts the stream: text/event-stream, no caching, flushed at once.  0, or -1 when the client is
 * gone (or asked only for the head). */
int tn_sse_start(struct tn_http_exchange *x);
/* One event.  event and id may be NULL; newlines in data become several data lines. */
int tn_sse_send(struct tn_http_exchange *x, const char *event, const char *id, const char *data,
                size_t n);
/* A comment line: the heartbeat. */
int tn_sse_beat(struct tn_http_exchange *x);

#endif
