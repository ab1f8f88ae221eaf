/* What the HTTP server asks of the front; see caller.h for what handlers use of it. */
#ifndef TN_SERVICE_GATE_H
#define TN_SERVICE_GATE_H

#include "service/internal.h"

/* ctx is the service.  Each answers by itself when the result is false. */
bool front_enter(struct tn_http_exchange *x, void *ctx); /* every request */
bool front_check(struct tn_http_exchange *x, void *ctx); /* those that need a key */
void front_refuse(struct tn_http_exchange *x, int status, const char *detail, void *ctx);
void front_head(struct tn_http_exchange *x, void *ctx);
void front_log(const struct tn_http_exchange *x, int status, int64_t nanoseconds, void *ctx);

/* Once a second, by the steward: ends the exchanges of keys that were revoked, or have expired,
 * since they began.  One that is seen so for the first time has until the next call to end by
 * itself: who revokes the own key hears that it is. */
void front_tick(struct tn_service *s);

/* Gives the request its id, which every answer tells, unless it has one already. */
void front_begin(struct tn_http_exchange *x, struct tn_service *s);
/* Answers with that status, and remembers it: false. */
bool front_deny(struct tn_http_exchange *x, int status, const char *why);

/* Whether url, hosts and origins can mean something. */
int hosts_check(const struct tn_service_options *options, struct tn_error *err);
/* hosts.c: false when it has answered. */
bool host_check(const struct tn_service *s, struct tn_http_exchange *x);
bool origin_check(const struct tn_service *s, struct tn_http_exchange *x);

#endif
