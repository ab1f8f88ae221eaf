/* What the service keeps of a box while actions go to it: connections to its hand, and its ledger.
 *
 * All of it can be had again: desks that nobody used for long are cleared when there are many. */
#ifndef TN_SERVICE_DESK_H
#define TN_SERVICE_DESK_H

#include "runtime/hand-client.h"
#include "runtime/ledger.h"
#include "service/box.h"

struct desk;

/* The desk of a box; the caller releases it. */
struct desk *desk_take(struct box *b);
void desk_release(struct desk *d);
static inline void guard_desk(struct desk **d)
{
    desk_release(*d);
}
#define autodesk TN_CLEANUP(guard_desk)

/* A connection to the hand at that address, for the caller alone until desk_put_client or
 * tn_hand_client_free. */
struct tn_hand_client *desk_client(struct desk *d, const char *address, const char *key,
                                   struct tn_error *err);
void desk_put_client(struct desk *d, const char *address, struct tn_hand_client *client);

/* Its ledger, open if that is possible by now. */
struct tn_ledger *desk_ledger(struct desk *d, struct box *b);

#endif
