/* What the native routes share. */
#ifndef TN_HAND_V1_H
#define TN_HAND_V1_H

#include "base/json.h"
#include "hand/hand.h"
#include "net/http-server.h"

/* Seconds between signs of life on a quiet stream. */
#define TN_BEAT_SECONDS 15.0

/* The body as a JSON object (an empty body is an empty one: *tree NULL).  -1 when it was none: answered. */
int tn_v1_body(struct tn_http_exchange *x, struct tn_json **tree);
/* A whole number from the query: fallback when absent, -1 when it is not one (answered). */
int64_t tn_v1_query_number(struct tn_http_exchange *x, const char *name, int64_t fallback);
/* true, 1, yes, on. */
bool tn_v1_query_flag(struct tn_http_exchange *x, const char *name);
/* The session named in the path; NULL when there is none (answered).  The caller unrefs it. */
struct tn_session *tn_v1_session(struct tn_http_exchange *x, struct tn_hand *hand);

#endif
