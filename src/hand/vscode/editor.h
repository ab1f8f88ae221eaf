/* The editor's server process: started at the first visit, again after a crash.
 *
 * It listens on a unix socket in a directory that only the agent's user can enter, so that whoever
 * wants to talk to it must go through the door. */
#ifndef TN_HAND_VSCODE_EDITOR_H
#define TN_HAND_VSCODE_EDITOR_H

#include "base/json.h"
#include "hand/hand.h"

struct editor;

/* base ("/a/b") is the path below which visitors see it; folder is where it works.  Starts nothing.
 */
struct editor *editor_new(struct tn_hand *hand, const char *base, const char *folder);
/* Nobody may use it any more. */
void editor_free(struct editor *e);

/* A connection to it, which the caller closes; starts it first when it does not run,
 * and once more when it ends right then.  One that has ended unasked several times in a row is
 * started after a pause (tn_backoff).
 * *knows_base tells whether it is to be asked for whole paths.  -1 with err by the deadline. */
int editor_connect(struct editor *e, bool *knows_base, int64_t deadline, struct tn_error *err);
/* Replaces err by how the editor ended, if that is why a connection broke. */
void editor_explain(struct editor *e, struct tn_error *err);

/* Ends it, or the pause before its start; the next connection starts it again, at once. */
void editor_stop(struct editor *e);
/* From now on every connection is refused: the hand is about to end. */
void editor_interrupt(struct editor *e);
/* Writes running, pids, memory and restarts, whether somebody waits for it to start, how often in a
 * row it has ended unasked (failures), and how it did the last time (last_error). */
void editor_status(struct editor *e, struct tn_jw *w);

#endif
