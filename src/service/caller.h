/* Who asks: made by the gate for every request that needs a key, before routing. */
#ifndef TN_SERVICE_CALLER_H
#define TN_SERVICE_CALLER_H

#include "service/internal.h"
#include "service/key.h"

/* The caller of this request; never NULL in a handler of a row without TN_ROUTE_OPEN. */
const struct caller *caller_of(const struct tn_http_exchange *x);
/* The id of this request, [A-Za-z0-9._-]{1,64}: the client's X-Request-Id, or one of ours.  Also
 * there for open routes.  Every answer carries it, every log line, and the request to the hand. */
const char *request_id(const struct tn_http_exchange *x);

/* True when the caller may; else it has answered 403 (problem details or {"detail"}, as the path
 * wants it). */
bool caller_may(struct tn_http_exchange *x, unsigned scope);

/* The answer to an error: {"detail": text} for the surfaces of OpenHands; problem details (RFC
 * 9457: type, title, status, detail, request_id) below /v1.  The status follows from the code. */
int reply_error(struct tn_http_exchange *x, const struct tn_error *err);
/* Reads the whole body as JSON, at most max bytes; -1: it has answered. */
int read_json(struct tn_http_exchange *x, size_t max, struct tn_json **out);

#endif
