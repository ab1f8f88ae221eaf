/* What the clients of a hand share: its refusals. */
#ifndef TN_RUNTIME_HAND_ANSWER_H
#define TN_RUNTIME_HAND_ANSWER_H

#include "base/error.h"
#include "base/json.h"

/* Anything but success carries {"detail": "..."}; answer may be NULL.  Returns -1. */
int tn_hand_refused(int status, const struct tn_json *answer, struct tn_error *err);
/* The same from the bytes of the answer; with the detail alone, which names what it is about. */
int tn_hand_refused_text(int status, const char *body, size_t n, struct tn_error *err);

#endif
