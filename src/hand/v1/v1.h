/* What the native routes share.  "Answered" means: the request has got its error, the handler just
 * returns. */
#ifndef TN_HAND_V1_H
#define TN_HAND_V1_H

#include "base/account.h"
#include "base/json.h"
#include "hand/hand.h"
#include "net/http-server.h"

/* Seconds between signs of life on a quiet stream. */
#define TN_BEAT_SECONDS 15.0

/* Nothing but digits of that base, and no more than max. */
bool tn_v1_number(const char *text, int base, int64_t max, int64_t *out);

/* A whole number from the query: fallback when absent, -1 when it is none (answered). */
int64_t tn_v1_query_number(struct tn_http_exchange *x, const char *name, int64_t fallback);
/* 1 for true, 1, yes or on; 0 for false, 0, no, off or when absent; -1 for anything else
 * (answered). */
int tn_v1_query_flag(struct tn_http_exchange *x, const char *name);

/* The body as a JSON object (an empty body is an empty one: *tree NULL).  -1: answered. */
int tn_v1_body(struct tn_http_exchange *x, struct tn_json **tree);
/* A string of the body, NULL when it is absent and need not be there.  -1: answered. */
int tn_v1_string(struct tn_http_exchange *x, const struct tn_json *body, const char *name,
                 bool needed, const char **out);

/* `signal` of the body, a name or a number; 0: answered. */
int tn_v1_signal(struct tn_http_exchange *x, const struct tn_json *body);

/* The path called `name`, without doubled slashes and a final one; it must be absolute.  The caller
 * frees it. NULL: answered. */
char *tn_v1_path(struct tn_http_exchange *x, const char *path, const char *name);
/* The same for ?path=. */
char *tn_v1_query_path(struct tn_http_exchange *x);

/* Takes on the user's rights on files until `as` (tn_autoact) leaves its scope.  -1: answered. */
int tn_v1_act_as_user(struct tn_http_exchange *x, struct tn_hand *hand, struct tn_act_as *as);

/* The session named in the path; the caller unrefs it.  NULL: answered. */
struct tn_session *tn_v1_session(struct tn_http_exchange *x, struct tn_hand *hand);

#endif
