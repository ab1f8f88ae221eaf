/* The operator's hook for actions that wait for their confirmation (service.confirm_url). */
#ifndef TN_SERVICE_CONFIRM_H
#define TN_SERVICE_CONFIRM_H

#include "service/box.h"

struct tn_pending;

/* What is told of a pending action, to pages, programs and the hook: {"sandbox", "tenant", ...} and
 * the members of tn_pending_put.  Opens and ends the object. */
void confirm_put(struct box *b, const char *directory, const struct tn_pending *p, struct tn_jw *w);
/* Sends it to the hook, if there is one, without waiting for it. */
void confirm_tell(struct box *b, const struct tn_pending *p);
/* The same for all that waited when the service began, once more and in one order: a hook that an
 * earlier service has told, or was about to.  Before anybody can ask for actions. */
void confirm_tell_again(struct tn_service *s);

#endif
