/* Carrying out an action: one table from type to handler. */
#ifndef TN_HAND_ACTIONS_H
#define TN_HAND_ACTIONS_H

#include "event/action.h"
#include "event/observation.h"
#include "hand/hand.h"

/* What a handler leaves for the route: how to take the report back when the client never got it. */
struct tn_delivery {
    int client;                 /* in: the socket of who asks, or -1 */
    const char *request;        /* in: its X-Request-Id, or NULL */
    struct tn_session *session; /* a reference, or NULL */
    uint64_t number;
};

/* Fills *o (uninitialised memory).  An action that is not confirmed is answered and not carried
 * out. -1 with err for an action this server has no handler for; everything an agent can recover
 * from is an observation. */
int tn_execute(struct tn_hand *hand, const struct tn_action *a, struct tn_observation *o,
               struct tn_delivery *delivery, struct tn_error *err);

/* The client is gone: its report counts as unread. */
void tn_delivery_failed(struct tn_delivery *delivery);
void tn_delivery_done(struct tn_delivery *delivery);

#endif
