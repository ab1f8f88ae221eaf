/* The head of a request on its way to a server: placeholders of secrets become their values. */
#ifndef TN_GATE_REWRITE_H
#define TN_GATE_REWRITE_H

#include "gate/vault.h"
#include "net/http-parse.h"

/* Appends the head as it is sent to that host, the empty line included: in headers that a secret
 * names its placeholder is replaced (Basic credentials are decoded for that and encoded again), and
 * where a value may come back nothing is asked for that hides it.  All else stays as it came.
 * `encoded` gets Basic credentials that were changed, of this head alone.  -1: it became too large.
 */
int rewrite_head(const struct tn_http_head *head, const char *bytes, const struct vault *v,
                 const char *host, uint16_t port, struct tn_buf *out, struct tn_buf *encoded);

#endif
