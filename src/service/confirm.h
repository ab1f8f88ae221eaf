/* Answers to actions that wait for their confirmation, and the operator's hook for them
 * (service.confirm_url), which is told of each and may answer at once. */
#ifndef TN_SERVICE_CONFIRM_H
#define TN_SERVICE_CONFIRM_H

#include "service/box.h"

struct tn_pending;

/* What is told of a pending action, to pages, programs and the hook: the members "sandbox", "name",
 * "tenant" and those of tn_pending_put. */
void confirm_put(struct box *b, const struct tn_pending *p, struct tn_jw *w);

/* {"answer": "confirm" or "reject", "reason", "rule"}, by that table. */
struct confirm_answer {
    char *answer, *reason;
    bool rule; /* a connection that is let through is a rule from now on */
};
extern const struct tn_fields confirm_answer_fields;
bool confirm_says_yes(const struct confirm_answer *a);
/* Takes the action, if that caller (NULL: the hook) may answer so; what is refused here still
 * waits.  TN_E_CONFLICT: somebody has answered it. */
int confirm_take(struct box *b, const struct caller *who, int64_t id,
                 const struct confirm_answer *a, struct tn_pending *out, struct tn_error *err);
/* Carries out what was taken, or notes that it was rejected: as act does.  TN_E_GONE: it was too
 * late for any answer. */
int confirm_answer(struct box *b, const struct tn_pending *p, const struct confirm_answer *a,
                   const char *request, struct tn_buf *out, struct tn_error *err);

/* What was taken, and of which the audit log can have no line: it is rejected. */
void confirm_unnoted(struct box *b, const struct tn_pending *p, struct tn_buf *out);

/* --- the hook ------------------------------------------------------------------------------ */

struct hook;
/* NULL with err. */
struct hook *hook_new(struct tn_service *s, struct tn_error *err);
/* Sends it to the hook, if there is one, without waiting for it. */
void hook_tell(struct hook *h, struct box *b, const struct tn_pending *p);
/* The same for all that waited when the service began, once more and in one order: a hook that an
 * earlier service has told, or was about to.  Before anybody can ask for actions. */
void hook_tell_again(struct hook *h);
/* Nobody is told any more.  False: an action that the hook confirmed has not ended in time. */
bool hook_end(struct hook *h, int64_t deadline);
/* After hook_end.  NULL is fine. */
void hook_free(struct hook *h);

#endif
