/* Tickets: short-lived, signed, for what cannot send a header (a WebSocket of a page, a link).
 *
 * A ticket is base64url text with what it is for and until when, signed with the service's secret:
 * it needs no memory and survives a restart.  It is no key: it opens one thing. */
#ifndef TN_SERVICE_TICKET_H
#define TN_SERVICE_TICKET_H

#include "service/internal.h"
#include "service/key.h"

enum { TICKET_MAX = 512 };

/* purpose: "ws", "port:8080", "login", ...; box may be "" (the caller alone). */
int ticket_make(const struct tn_service *s, const struct caller *who, const char *purpose,
                const char *box, double seconds, char out[TICKET_MAX], struct tn_error *err);
/* -1 TN_E_DENIED: forged, too old, or for something else.  The key it was made with still counts:
 * one that was revoked opens nothing. */
int ticket_check(struct tn_service *s, const char *ticket, const char *purpose, const char *box,
                 struct caller *who, struct tn_error *err);

/* It is good for nothing from now on, also after a restart.  TN_E_NOT_FOUND: it is none of that
 * kind; TN_E_QUOTA: too many of that box are remembered. */
int ticket_end(struct tn_service *s, const char *ticket, const char *purpose, const char *box,
               struct tn_error *err);
bool ticket_has_ended(struct tn_service *s, const char *ticket);

/* The same for one use: `what` (a path) is in it as a digest.  A second use is denied, as is one
 * after a restart of the service, which forgets what was used.  TN_E_QUOTA: the tenant has made too
 * many. */
int ticket_make_once(struct tn_service *s, const struct caller *who, const char *box,
                     const char *what, double seconds, char out[TICKET_MAX], struct tn_error *err);
int ticket_use_once(struct tn_service *s, const char *ticket, const char *box, const char *what,
                    struct caller *who, struct tn_error *err);

/* Sign-in links: good once, also for a service that was started again meanwhile (the store knows
 * which were used).  Whoever has the secret makes them (`tendon serve --link`, POST /v1/login). */
int ticket_make_link(const char *secret, const char *key_id, double seconds, char out[TICKET_MAX],
                     struct tn_error *err);
int ticket_use_link(struct tn_service *s, const char *ticket, struct caller *who,
                    struct tn_error *err);

/* What is in one; below the two above, and for tests. */
enum { PURPOSE_MAX = 64 };
struct ticket {
    char key_id[13], box[11], purpose[PURPOSE_MAX + 1];
    int64_t expires; /* seconds since 1970 */
};
/* -1: a member cannot be written. */
int ticket_seal(const char *secret, const struct ticket *t, char out[TICKET_MAX]);
/* False: it was not sealed with that secret. */
bool ticket_unseal(const char *secret, const char *text, struct ticket *out);

#endif
