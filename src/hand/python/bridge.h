/* The program that drives a kernel (python/tendon_kernel.py), as seen from here: JSON lines. */
#ifndef TN_HAND_PYTHON_BRIDGE_H
#define TN_HAND_PYTHON_BRIDGE_H

#include "base/json.h"
#include "hand/helper.h"

struct bridge;

/* Starts it with that interpreter.  directory: where the program is and the kernel's files will be,
 * which begin with `name`; env: of the kernel as well. */
struct bridge *bridge_start(struct tn_hand *hand, const char *interpreter, const char *directory,
                            const char *name, char *const *env, struct tn_error *err);
/* Kills it and its kernel. */
void bridge_free(struct bridge *b);

/* Sends one line, which ends with its newline.  -1 with what became of the bridge, as the end of a
 * sentence. */
int bridge_send(struct bridge *b, const struct tn_buf *line, int64_t deadline,
                struct tn_error *err);
/* Waits for the next line: 0 with *message, which the caller frees, or -1: TN_E_TIMEOUT (a deadline
 * of 0 asks without waiting), or TN_E_PEER with how it ended. */
int bridge_receive(struct bridge *b, int64_t deadline, struct tn_json **message,
                   struct tn_error *err);

/* Further lines are wanted from it: it may say some without being asked. */
void bridge_expect(struct bridge *b);

/* The cell that runs, if one does, and the programs it started get a SIGINT.  One whose kernel is
 * being set up is not run. */
void bridge_interrupt(struct bridge *b);
/* The same, once, however often it is called for a request; and a cell that goes on for seconds
 * costs the kernel. */
void bridge_give_up(struct bridge *b);

struct tn_helper *bridge_helper(struct bridge *b);

#endif
