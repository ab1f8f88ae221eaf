/* The tour: a few actions that show what a hand does. */
#ifndef TN_CLI_TOUR_H
#define TN_CLI_TOUR_H

#include "base/error.h"
#include "cli/show.h"
#include "runtime/hand-client.h"

/* Waits until the shell has read its start-up files; 0, or -1 with err. */
int tour_warm_up(struct tn_hand_client *hand, struct tn_error *err);

/* Takes the tour in the given workspace and prints it.  The number of steps that did not end as
 * they should, or -1 with err when the hand did not answer. */
int tour(struct tn_hand_client *hand, const char *workspace, const struct show *s,
         struct tn_error *err);

#endif
