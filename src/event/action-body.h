/* The body of a request for an action, {"action": {...}}, and OpenHands' words for one that is
 * none. */
#ifndef TN_EVENT_ACTION_BODY_H
#define TN_EVENT_ACTION_BODY_H

#include "event/action.h"

enum tn_body {
    TN_BODY_SOUND,
    TN_BODY_NOT_JSON,
    TN_BODY_EMPTY,  /* it has no "action" */
    TN_BODY_ODD,    /* ...or one that is no object */
    TN_BODY_WRONG,  /* ...that is no action: err says why */
    TN_BODY_COSTLY, /* there is no memory for it in the purse: TN_E_BUSY */
};

/* The tree is held in the purse (NULL: none) as tn_json_parse_held does it; the caller ends tree
 * and, of a sound body alone, action. */
enum tn_body tn_action_body_read(const char *body, size_t n, struct tn_purse *purse, size_t *held,
                                 struct tn_json **tree, struct tn_action *action,
                                 struct tn_error *err);

/* OpenHands' answer to a body that is no action: appends it, and returns its status. */
int tn_action_body_refuse(enum tn_body fault, const struct tn_error *why, struct tn_buf *json);
/* The two shapes of its refusals, which other requests share. */
void tn_put_invalid_request(struct tn_buf *json, const char *where, const char *why);
void tn_put_internal_error(struct tn_buf *json, const char *why);

#endif
