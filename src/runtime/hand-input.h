/* Standard input for a command in a sandbox, through its hand: /v1/input. */
#ifndef TN_RUNTIME_HAND_INPUT_H
#define TN_RUNTIME_HAND_INPUT_H

#include "runtime/hand-answer.h"

struct tn_hand_input;

/* Connects.  NULL with err. */
struct tn_hand_input *tn_hand_input_open(const struct tn_hand_address *at, int64_t deadline,
                                         struct tn_error *err);
/* Not before the command has ended, or it may miss some of it. */
void tn_hand_input_close(struct tn_hand_input *in);

/* What an action gives as `stdin`; lives as long as the handle. */
const char *tn_hand_input_path(const struct tn_hand_input *in);

/* Passes on what is read from fd, to its end, and then keeps the connection, until
 * tn_hand_input_stop is called from another thread.  0 when it was, or -1 with err: fd cannot be
 * read, the hand is gone. */
int tn_hand_input_feed(struct tn_hand_input *in, int fd, struct tn_error *err);
/* May be called before. */
void tn_hand_input_stop(struct tn_hand_input *in);

#endif
