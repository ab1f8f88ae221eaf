/* Signed claims (JWS compact form, HS256 and nothing else): what OpenHands calls an access token.
 */
#ifndef TN_SERVICE_JWS_H
#define TN_SERVICE_JWS_H

#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"

enum { JWS_MAX = 4096 };

/* Appends the token of these claims (JSON text) to out.  -1 when it would be too long. */
int jws_sign(const char *secret, const char *claims, struct tn_buf *out);
/* The claims of a token that was signed with that secret and whose `exp`, if it has one, is after
 * `now` (seconds since 1970).  TN_E_DENIED, with the same words whatever is wrong. */
int jws_check(const char *secret, const char *token, double now, struct tn_json **claims,
              struct tn_error *err);

#endif
