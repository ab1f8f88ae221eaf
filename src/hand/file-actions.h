/* The file actions (read, write, edit): from an action to the file functions and back to an
 * observation. */
#ifndef TN_HAND_FILE_ACTIONS_H
#define TN_HAND_FILE_ACTIONS_H

#include "event/action.h"
#include "event/observation.h"
#include "hand/file/path.h"
#include "hand/hand.h"

/* Fills *o (uninitialised memory).  Relative paths are relative to cwd. */
void tn_file_execute(struct tn_hand *hand, const char *cwd, const struct tn_action *a,
                     struct tn_observation *o);

/* The sandbox's user as the file functions want it. */
struct tn_file_user tn_hand_file_user(const struct tn_hand *hand);

#endif
