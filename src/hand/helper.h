/* A helper: a long-lived process that an ability drives (a kernel bridge, a browser, an MCP
 * server).
 *
 * It runs as the agent's user in a session of its own, talks over two pipes, and its last words on
 * stderr are kept for whoever has to explain its end.  It dies with this process. */
#ifndef TN_HAND_HELPER_H
#define TN_HAND_HELPER_H

#include "base/buf.h"
#include "base/child.h"
#include "hand/hand.h"

struct tn_helper;

/* All of it is copied. */
struct tn_helper_spec {
    const char *name;        /* for people: "the browser" */
    const char *const *argv; /* argv[0] is looked up in PATH of env */
    const char *const *env;  /* NULL: that of new shells */
    const char *cwd;         /* NULL: the working directory */
    int in, out;             /* the child's descriptors to read and to write: 0 and 1, or 3 and 4 */
};

/* Starts it.  NULL with err; TN_E_NOT_FOUND when there is no such program. */
struct tn_helper *tn_helper_start(struct tn_hand *hand, const struct tn_helper_spec *spec,
                                  struct tn_error *err);
/* Kills what is left of it and of its descendants, and waits for that. */
void tn_helper_free(struct tn_helper *h);

/* Our ends of its pipes, non-blocking; they stay the helper's.  Both are to be polled together with
 * a deadline; end of file on `out` means that it has ended, or is about to. */
int tn_helper_to(const struct tn_helper *h);
int tn_helper_from(const struct tn_helper *h);
/* Writes all of it: 0, or -1 with TN_E_TIMEOUT, or TN_E_PEER when it is gone.  One writer at a
 * time. */
int tn_helper_write(struct tn_helper *h, const void *bytes, size_t n, int64_t deadline,
                    struct tn_error *err);
/* No more input: what most programs take as the wish to end. */
void tn_helper_close_input(struct tn_helper *h);

pid_t tn_helper_pid(const struct tn_helper *h);
/* Waits until it has ended: 0, or -1 with TN_E_TIMEOUT.  A deadline of 0 asks without waiting. */
int tn_helper_wait(struct tn_helper *h, int64_t deadline, struct tn_error *err);
int tn_helper_signal(struct tn_helper *h, int signal, struct tn_error *err);
/* Asks it to end (SIGTERM to all of it), kills it at the end of grace seconds. */
void tn_helper_end(struct tn_helper *h, double grace);

/* Appends how it ended, "ended with exit code 1" or "was ended by SIGKILL" or "is still running",
 * and its last words on stderr, if any, after ": ". */
void tn_helper_obituary(struct tn_helper *h, struct tn_buf *out);
/* Resident bytes of it and its descendants; 0 when it has ended. */
int64_t tn_helper_memory(const struct tn_helper *h);

/* --- restarts ------------------------------------------------------------------------------- */

/* What crashed before waits longer and longer: not at all, 0.1 s, 0.3 s, 0.7 s ... at most 5 s. */
struct tn_backoff {
    int failures; /* in a row: half a minute of service ends the row */
    int64_t good; /* when it began to serve; 0: it does not */
    int64_t until;
};

void tn_backoff_good(struct tn_backoff *b); /* it is ready */
void tn_backoff_bad(struct tn_backoff *b);  /* it did not start, or ended by itself */
/* Waits until it may be tried again: 0, or -1 with TN_E_BUSY when that is after the deadline,
 * TN_E_GONE when quit (hand->ending, for example) becomes readable. */
int tn_backoff_wait(const struct tn_backoff *b, int quit, int64_t deadline, struct tn_error *err);

#endif
