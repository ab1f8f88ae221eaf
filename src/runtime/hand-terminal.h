/* A person's terminal on a session of a sandbox, through its hand (WebSocket).
 *
 * One thread uses it: it polls tn_hand_terminal_fd together with the keyboard, and calls
 * tn_hand_terminal_next whenever that is readable or tn_hand_terminal_buffered says so.  When the
 * connection breaks, tn_hand_terminal_resume takes it up where it broke off. */
#ifndef TN_RUNTIME_HAND_TERMINAL_H
#define TN_RUNTIME_HAND_TERMINAL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

struct tn_hand_terminal;

enum tn_terminal_event {
    TN_TERMINAL_QUIET,  /* nothing yet */
    TN_TERMINAL_BYTES,  /* output for the screen, in out */
    TN_TERMINAL_NOTE,   /* the hand did not like something: why, in out */
    TN_TERMINAL_ENDED,  /* the shell has ended: see tn_hand_terminal_exit_code */
    TN_TERMINAL_BROKEN, /* the connection is gone */
};

/* Makes sure that the session exists (shell NULL: the usual one, when it must be made) and
 * attaches. history: what the terminal showed lately comes first.  NULL with err. */
struct tn_hand_terminal *tn_hand_terminal_open(const char *address, const char *key,
                                               const char *session, const char *shell, bool history,
                                               int64_t deadline, struct tn_error *err);
void tn_hand_terminal_close(struct tn_hand_terminal *t);

int tn_hand_terminal_fd(const struct tn_hand_terminal *t);
bool tn_hand_terminal_buffered(const struct tn_hand_terminal *t);
/* What has come by the deadline.  -1 with err only when the hand breaks the protocol. */
int tn_hand_terminal_next(struct tn_hand_terminal *t, struct tn_buf *out, int64_t deadline,
                          struct tn_error *err);
/* All return -1 when the connection is gone. */
int tn_hand_terminal_type(struct tn_hand_terminal *t, const void *bytes, size_t n,
                          int64_t deadline);
int tn_hand_terminal_resize(struct tn_hand_terminal *t, int columns, int rows, int64_t deadline);
/* Shows the hand that somebody is there; to be called at least every 30 seconds. */
int tn_hand_terminal_beat(struct tn_hand_terminal *t, int64_t deadline);

/* A new connection in place of the broken one; nothing of the output is lost. */
int tn_hand_terminal_resume(struct tn_hand_terminal *t, int64_t deadline, struct tn_error *err);

/* Of the shell, once it has ended; -1 when the hand did not say. */
int tn_hand_terminal_exit_code(const struct tn_hand_terminal *t);

#endif
