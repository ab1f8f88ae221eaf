/* Which Chromium, and with which flags. */
#ifndef TN_HAND_BROWSER_PROCESS_H
#define TN_HAND_BROWSER_PROCESS_H

#include "hand/hand.h"
#include "hand/helper.h"

/* The program to run: $TENDON_CHROMIUM, $CHROMIUM, what Playwright has installed, or the first of
 * the usual names in PATH.  The caller frees it; NULL with err when there is none. */
char *browser_find(struct tn_error *err);

/* Starts it with the debugging pipe.  profile is its directory.  sandbox false adds --no-sandbox.
 */
struct tn_helper *browser_launch(struct tn_hand *hand, const char *program, const char *profile,
                                 bool sandbox, struct tn_error *err);

/* Whether Chromium's own sandbox can work for the agent's user: not for root, and not where user
 * namespaces are refused. */
bool browser_sandbox_possible(const struct tn_hand *hand);

/* $TENDON_BROWSER_MEMORY in bytes, with an optional k, M or G; 0: no limit. */
int64_t browser_memory_limit(void);

#endif
