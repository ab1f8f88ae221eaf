/* The journal once more in OpenHands' layout, for readers of that kind: events/ID.json for each
 * event, event_cache/A-B.json for each full page of 25 (A to B - 1).  A copy: what is missing or
 * broken in it is written anew from the journal.  Several processes may do so at once. */
#ifndef TN_EVENT_MIRROR_H
#define TN_EVENT_MIRROR_H

#include <stdint.h>

#include "base/error.h"
#include "event/journal.h"

struct mirror;

/* `next`: the id after the last event of the journal at this moment.  *from is the event to begin
 * with: where the copy ends, and a little before. */
struct mirror *mirror_open(const char *directory, int64_t next, int64_t *from,
                           struct tn_error *err);
void mirror_close(struct mirror *m);

/* Writes the event, unless it is there, and its page if it is the last of one.  In order. */
int mirror_add(struct mirror *m, const struct tn_journal_event *event, struct tn_error *err);

#endif
