/* The sandbox service: sandboxes for many, over HTTP.
 *
 * One process.  What it knows is in the store; memory holds only what can be rebuilt from there and
 * from the backends, so a killed service starts again as if nothing had been.  A request enters
 * through the front (who asks?), is routed to one file per surface (api-*.c), which speaks of boxes
 * (box.h); everything below knows nothing of HTTP. */
#ifndef TN_SERVICE_SERVICE_H
#define TN_SERVICE_SERVICE_H

#include "runtime/sandbox.h"

struct tn_service;

/* In the state directory: the first key; the number of the process and its address. */
#define TN_SERVICE_KEY_FILE "service.key"
#define TN_SERVICE_LOCK_FILE "service.lock"
/* The secret that signs tickets: its name in the store. */
#define TN_SERVICE_TICKETS "tickets"

/* Opens everything, finds every sandbox again, and listens.  rt and options outlive it.  TN_E_BUSY:
 * another one has that state directory. */
struct tn_service *tn_service_start(struct tn_runtime *rt, const struct tn_service_options *options,
                                    struct tn_error *err);
/* Whether the options make sense: addresses, certificate.  Opens nothing. */
int tn_service_check(const struct tn_service_options *options, struct tn_error *err);
/* The address that a person can open, "http://127.0.0.1:7171": as options.url says, and as it is
 * reached on this machine (the caller frees that one). */
const char *tn_service_url(const struct tn_service *s);
char *tn_service_local_url(const struct tn_service *s);
/* Whether the key in the state directory is an administrator's and counts (nobody has revoked it,
 * the file is there). */
bool tn_service_has_first_key(struct tn_db *db, const char *state);
/* A link to its dashboard that signs in, as the first key, who opens it within five minutes; for
 * the one who has the state directory.  The caller frees it. */
char *tn_service_login_link(struct tn_db *db, const char *state, struct tn_error *err);
/* Ends it gracefully, within drain_seconds and some 10 more, and frees it.  hand_over: addresses
 * and state directory stay taken for the next start of this process, after exec(2) or without.  -1:
 * some request did not end; then nothing is freed, and all that is left is to exit. */
int tn_service_stop(struct tn_service *s, bool hand_over);

#endif
