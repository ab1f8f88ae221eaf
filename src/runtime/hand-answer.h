/* What the clients of a hand share: where it is, one question, its refusals. */
#ifndef TN_RUNTIME_HAND_ANSWER_H
#define TN_RUNTIME_HAND_ANSWER_H

#include <stdint.h>

#include "base/error.h"
#include "base/json.h"

/* Where a hand is; both borrowed.  key may be NULL. */
struct tn_hand_address {
    const char *address, *key;
};

/* One request over a connection of its own, with a JSON body or an empty one.  0 with the answer of
 * a success, or -1 with err. */
int tn_hand_ask(const struct tn_hand_address *at, const char *method, const char *target,
                const struct tn_buf *body, struct tn_buf *answer, int64_t deadline,
                struct tn_error *err);

/* Anything but success carries {"detail": "..."}; answer may be NULL.  Returns -1. */
int tn_hand_refused(int status, const struct tn_json *answer, struct tn_error *err);
/* The same from the bytes of the answer; with the detail alone, which names what it is about. */
int tn_hand_refused_text(int status, const char *body, size_t n, struct tn_error *err);

#endif
