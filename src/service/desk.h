/* What the service keeps of a box while actions go to it: connections to its hand, its journal, and
 * which idempotency keys the journal has already.
 *
 * All of it can be had again: desks that nobody used for long are cleared when there are many. */
#ifndef TN_SERVICE_DESK_H
#define TN_SERVICE_DESK_H

#include "event/stream.h"
#include "runtime/hand-client.h"
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

/* What the journal knows of an action. */
struct noted {
    int64_t id;    /* -1: nothing to note it in, or none of anybody's business */
    bool known;    /* it was there already: somebody asks again */
    bool answered; /* with what became of it */
    int64_t
        start; /* how often the box had been restarted then; clocks tell nothing: they are set */
};
/* Notes the action in the journal, unless one with this idempotency key (NULL: none) is there
 * already.  Before the others below. */
struct noted desk_note_action(struct desk *d, struct box *b, const struct tn_action *action,
                              const char *idempotency);
/* Notes what became of it, once for each idempotency key.  Before, what the box reports of limits
 * that was not known (box_take_report) is added to the observation of a failure; whoever asks again
 * gets the same report.  True when the observation was changed. */
bool desk_note_observation(struct desk *d, struct box *b, const struct tn_action *action,
                           int64_t id, const char *known, struct tn_observation *observation);
/* Nobody could say what became of it, so far. */
void desk_note_failure(struct desk *d, const struct tn_action *action, int64_t id, const char *why);
/* Appends the observation that answers it, as the journal has it; -1 when there is none. */
int desk_read_answer(struct box *b, int64_t id, struct tn_buf *out);
/* Appends text to out without what the journal hides; -1 when there is none. */
int desk_hide(struct desk *d, const char *text, struct tn_buf *out);

#endif
