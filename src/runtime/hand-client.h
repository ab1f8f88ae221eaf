/* The client of a hand: sends actions, receives observations.
 *
 * Used the same way whatever made the sandbox.  One client is one kept-alive connection and serves
 * one thread at a time; every call has a deadline. */
#ifndef TN_RUNTIME_HAND_CLIENT_H
#define TN_RUNTIME_HAND_CLIENT_H

#include <stdint.h>

#include "base/error.h"
#include "event/action.h"
#include "event/observation.h"

struct tn_hand_client;

/* address as in hand-address.h; key is the session key, NULL when the hand has none.  Does not
 * connect yet.  NULL with err when the address makes no sense. */
struct tn_hand_client *tn_hand_client_new(const char *address, const char *key,
                                          struct tn_error *err);
void tn_hand_client_free(struct tn_hand_client *h);
/* No answer to tn_hand_client_execute is larger than that [64 MiB]: a sandbox says what it likes.
 */
void tn_hand_client_expect(struct tn_hand_client *h, size_t max_answer);

/* Whoever waits for the hand's answer stops (TN_E_TIMEOUT) once that descriptor, which is borrowed,
 * is readable. */
void tn_hand_client_cancel_by(struct tn_hand_client *h, int fd);

/* Whether a hand behind a service is asked again, with growing pauses and never beyond the
 * deadline, when the way to it fails (it is, from the start).  An action is never run twice for it.
 */
void tn_hand_client_patience(struct tn_hand_client *h, bool patient);

/* Waits until the hand says that it is ready.  watch is a descriptor that becomes readable when
 * waiting is pointless (a pidfd of the hand, an event), or -1.  0, or -1 with err. */
int tn_hand_client_wait(struct tn_hand_client *h, int watch, int64_t deadline,
                        struct tn_error *err);

/* Executes the action, which must have a timeout (the hand enforces it), and waits for its
 * observation, at most timeout + 5 s.  Carries an idempotency key, so that a connection that breaks
 * on the way is made anew without running the action twice.  0 with the observation (the caller
 * ends it with tn_observation_done); or -1 with err when there is none, and *observation is not
 * touched.  An `error` observation is one. */
int tn_hand_client_execute(struct tn_hand_client *h, const struct tn_action *action,
                           struct tn_observation *observation, struct tn_error *err);

/* The same for an action that is JSON already. */
struct tn_hand_request {
    const char *body; /* {"action": {...}} */
    size_t len;
    const char *key;     /* its idempotency key */
    bool replay;         /* it was sent before: tell what became of it, and do not carry it out */
    const char *headers; /* further ones, "Name: value\r\n...", or NULL */
    int64_t deadline;
};
/* Statuses of a hand that is to tell of an action. */
enum {
    TN_HAND_NOT_KNOWN = 412,
    TN_HAND_NOT_KEPT = 410,      /* it was done; how it ended is not known any more */
    TN_HAND_KEEPS_NOTHING = 501, /* a hand that knows no keys is not asked */
};
/* The status of the hand with its answer, byte for byte, or -1.  *again (may be NULL): it had been
 * carried out before. */
int tn_hand_client_send(struct tn_hand_client *h, const struct tn_hand_request *r,
                        struct tn_buf *answer, bool *again, struct tn_error *err);

/* What an answer that is no success says, and what is known of whoever stands before the hand. */
void tn_hand_client_refused(const struct tn_hand_client *h, int status, const struct tn_buf *answer,
                            struct tn_error *err);
/* Where names lead in the sandbox, links followed, relative ones in the directory of that session
 * (NULL: the main one): an array with a string for each, or null, which the caller ends.  NULL with
 * err; TN_E_UNSUPPORTED: it is no hand that can tell. */
struct tn_json *tn_hand_client_links(struct tn_hand_client *h, const char *session,
                                     const char *const *names, size_t count, int64_t deadline,
                                     struct tn_error *err);
/* It is behind a service. */
bool tn_hand_client_is_far(const struct tn_hand_client *h);

/* The pieces of a request. */
enum { TN_HAND_KEY_SIZE = 33, TN_HAND_BODY_MAX = 64 << 20 };
int tn_hand_make_key(char out[TN_HAND_KEY_SIZE], struct tn_error *err);
int tn_hand_write_request(const struct tn_action *action, struct tn_buf *out, struct tn_error *err);

#endif
