/* Header lines between a client and a port of a sandbox: what passes, and as what.  Pure.
 *
 * A sandbox must not learn our keys, tickets and cookies; and what it answers on an address that it
 * shares with the dashboard must not act on anything but its own path. */
#ifndef TN_SERVICE_PREVIEW_LINES_H
#define TN_SERVICE_PREVIEW_LINES_H

#include "net/http-forward.h"

#define TICKET_QUERY "tendon-ticket"             /* of a link */
#define DAYTONA_QUERY "DAYTONA_SANDBOX_AUTH_KEY" /* a token of Daytona's in a query */
#define OUR_COOKIES "tendon-"                    /* how the names of all our cookies start */
#define APP_COOKIES OUR_COOKIES "app-"           /* one of a sandbox on a shared address */

struct passage {
    const char *prefix; /* "/preview/ID/8080" on a shared address; NULL: a host of its own */
    const char *host;   /* the client's, or NULL */
    int port;
    /* Whether a text is the session key of one of our sandboxes; NULL: none is. */
    bool (*is_session_key)(const char *text, void *ctx);
    void *ctx;
};

/* Filters of http-forward.h; ctx is a struct passage. */
enum tn_http_verdict passage_request(const char *name, const char *value, struct tn_buf *changed,
                                     void *ctx);
enum tn_http_verdict passage_answer(const char *name, const char *value, struct tn_buf *changed,
                                    void *ctx);
/* The request's filter towards a hand, which needs nothing of ours; ctx is not used. */
enum tn_http_verdict hand_request(const char *name, const char *value, struct tn_buf *changed,
                                  void *ctx);
/* And its answer's: whoever took the hand's place in the sandbox says nothing about the service,
 * nor sends a client, which has our key, elsewhere. */
enum tn_http_verdict hand_answer(const char *name, const char *value, struct tn_buf *changed,
                                 void *ctx);

/* Whether the value of X-API-Key or Authorization is an API key of ours, by its form. */
bool carries_our_key(const char *name, const char *value);
/* The first value of that name (TICKET_QUERY, DAYTONA_QUERY) in the query of a target (path and
 * query, as sent); false: none, or too long. */
bool target_value(const char *target, const char *name, char *out, size_t size);
/* Appends the target without any ticket or token of ours in its query. */
void target_without_ticket(const char *target, struct tn_buf *out);

#endif
