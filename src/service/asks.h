/* Hears of connections that no rule allows and that wait at the gates of boxes (spec.ask), and has
 * each judged: one thread listens to all keepers, and each question has a thread of its own, of
 * which a gate has TN_GATE_QUESTIONS at most. */
#ifndef TN_SERVICE_ASKS_H
#define TN_SERVICE_ASKS_H

#include "service/box.h"

struct asks;

/* NULL with err. */
struct asks *asks_new(struct tn_service *s, struct tn_error *err);
/* The sandbox of the box runs: its keeper is listened to, if it asks and nobody listens already. */
void asks_follow(struct asks *a, struct box *b, struct tn_sandbox *sb);
/* Nobody is asked any more, and what waits is refused.  False: a thread has not ended in time. */
bool asks_end(struct asks *a, int64_t deadline);
/* After asks_end.  NULL is fine. */
void asks_free(struct asks *a);

#endif
