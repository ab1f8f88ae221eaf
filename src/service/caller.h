/* Who asks: made by the front for every request that needs a key, before routing.  What it needs to
 * know is attached to the exchange (tn_http_attach): handlers attach nothing. */
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
/* The same with a status of its own; code may be NULL. */
int reply_status(struct tn_http_exchange *x, int status, const char *code, const char *detail);

/* For open rows, which see to their callers themselves (a ticket, a session key): the caller is
 * known from here on, and its limit of requests counts.  False: it has answered 429. */
bool caller_enter(struct tn_http_exchange *x, const struct caller *who);
/* 429 with Retry-After; false. */
bool refuse_rate(struct tn_http_exchange *x, double seconds, const char *detail);
/* The same by the API key that the request carries; false: it has answered 401 or 429. */
bool caller_present(struct tn_http_exchange *x);
/* 401; the refusal is counted and audited.  detail holds nothing that was presented. */
int reply_unauthorized(struct tn_http_exchange *x, const char *detail);
/* Counts and audits a refusal that the caller answers itself. */
void note_denied(struct tn_http_exchange *x, const char *why);

/* How this client reaches the service, without a final slash: options.url, else by the Host of its
 * request (which was checked).  The caller frees it. */
char *base_url(const struct tn_http_exchange *x);
/* What this request holds in memory is taken from here: the purse of its tenant, or of strangers.
 */
struct tn_purse *purse_of(const struct tn_http_exchange *x);
/* An answer of at most so many bytes, which are the caller's until it is written: who reads slowly
 * holds no more than his share. */
#define ANSWER_BUF(x, most)                  \
    {                                        \
        .max = (most), .purse = purse_of(x), \
    }
/* Parses it; the tree is held in the purse until the end of the exchange. */
int hold_json(const struct tn_http_exchange *x, const struct tn_buf *text, struct tn_json **out,
              struct tn_error *err);
/* Reads the whole body into out, whose purse is set; -1: it has answered. */
int read_whole(struct tn_http_exchange *x, struct tn_buf *out);
/* Reads the whole body as JSON, at most max bytes; -1: it has answered. */
int read_json(struct tn_http_exchange *x, size_t max, struct tn_json **out);

#endif
