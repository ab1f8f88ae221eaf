/* Passing a request on to a hand, or to a port inside a sandbox. */
#ifndef TN_SERVICE_PROXY_H
#define TN_SERVICE_PROXY_H

#include "service/box.h"

/* To the hand of the box: `target` is path and query there.  The service's own key never goes
 * along, the hand's does; X-Request-Id does.  Connections to hands are kept and used again.  Always
 * answers: with the hand's answer (streams and WebSockets too), or 503 while it does not run, 502,
 * 504. */
void proxy_to_hand(struct tn_http_exchange *x, struct box *b, const char *target);
/* To a port inside: the client's Host and scheme go along as X-Forwarded-*, our cookies and keys do
 * not. */
void proxy_to_port(struct tn_http_exchange *x, struct box *b, int port, const char *target);

/* Carries out an action: `body` is {"action": {...}} as /execute_action takes it.  The answer is
 * the hand's, byte for byte, in out; action and observation are journaled.  The status, or -1. */
int act(struct box *b, const struct caller *who, const char *body, size_t n,
        const char *idempotency, const char *request, struct tn_buf *out, struct tn_error *err);

/* "8080-abcdefghij.localhost:7171" -> port and id.  False: no name of a preview. */
bool preview_parse_host(const char *host, const char *domain, int *port, char id[11]);
/* True when the Host of the request is that of a preview; it is answered then. */
bool preview_take(struct tn_service *s, struct tn_http_exchange *x);
/* What a person can open for that port: "http://8080-ID.localhost:7171/" or the path form. */
char *preview_url(const struct tn_service *s, const char *id, int port);

#endif
