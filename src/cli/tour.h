/* The tour: a few actions that show what a sandbox is good for. */
#ifndef TN_CLI_TOUR_H
#define TN_CLI_TOUR_H

#include "base/error.h"
#include "cli/show.h"
#include "runtime/sandbox.h"

/* Waits until the shell has read its start-up files.  The directory it is in, which the caller
 * frees, or NULL with err. */
char *tour_warm_up(struct tn_sandbox *sb, struct tn_error *err);

/* Takes the tour in the given workspace and prints it.  The number of steps that did not end as
 * they should, or -1 with err when the hand did not answer. */
int tour(struct tn_sandbox *sb, const char *workspace, const struct show *s, struct tn_error *err);

#endif
