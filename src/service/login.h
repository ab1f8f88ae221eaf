/* Signing in to the dashboard without typing a key.
 *
 * Who has a key gets a link whose fragment holds a ticket, good for a minute; the page that opens
 * it changes the ticket for a pass, which it then sends like a key.  A pass is a ticket as well: it
 * needs no memory, ends by itself, and opens nothing once the key it was made with is revoked. */
#ifndef TN_SERVICE_LOGIN_H
#define TN_SERVICE_LOGIN_H

#include "service/internal.h"
#include "service/key.h"

/* True when this text, presented as a key, wants to be a pass. */
bool login_is_pass(const char *text);
/* As keyring_check does for keys. */
int login_check(struct tn_service *s, const char *pass, struct caller *out, struct tn_error *err);

void login_make_link(struct tn_http_exchange *x, void *service);   /* POST /dashboard/link */
void login_take_ticket(struct tn_http_exchange *x, void *service); /* POST /dashboard/login */

#endif
