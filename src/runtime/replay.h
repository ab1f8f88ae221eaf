/* Doing a recorded session again, and comparing what comes back.
 *
 * Every action that a hand executes is executed, in the recorded order, each after the one before
 * it; the observation is compared with the recorded one, apart from what is different every time
 * (docs/events.md lists it).  An action that was not executed then (rejected, waiting for a user)
 * or that cannot be the same now (a secret in it was hidden) is skipped. */
#ifndef TN_RUNTIME_REPLAY_H
#define TN_RUNTIME_REPLAY_H

#include <stdint.h>

#include "event/observation.h"
#include "runtime/recording.h"

enum tn_replay_outcome {
    TN_REPLAY_SAME,
    TN_REPLAY_DIFFERENT,
    TN_REPLAY_UNANSWERED, /* executed; there is no recorded observation to compare with */
    TN_REPLAY_SKIPPED,    /* not executed: see reason */
    TN_REPLAY_OUTCOMES
};
extern const char *const tn_replay_outcome_words[]; /* "same", ...; ends with NULL */

/* One action; everything is borrowed for the call. */
struct tn_replay_step {
    size_t number, count; /* from 1; of all */
    int64_t id;           /* of the recorded action, or -1 */
    const char *name;     /* "run" */
    const char *message;  /* "Running command: ls" */
    enum tn_replay_outcome outcome;
    const char *diff;                      /* unified, when different; else "" */
    const char *reason;                    /* when skipped; else "" */
    const struct tn_observation *replayed; /* NULL when skipped */
    int64_t nanoseconds;
};

struct tn_replay_summary {
    size_t outcomes[TN_REPLAY_OUTCOMES];
};

/* As tn_sandbox_execute. */
typedef int (*tn_replay_execute_fn)(void *ctx, const struct tn_action *action,
                                    struct tn_observation *observation, struct tn_error *err);
/* Told about each step; non-zero ends the replay, which then returns 0. */
typedef int (*tn_replay_step_fn)(const struct tn_replay_step *step, void *ctx);

struct tn_replay {
    tn_replay_execute_fn execute;
    void *execute_ctx;
    tn_replay_step_fn step; /* may be NULL */
    void *step_ctx;
    double timeout; /* seconds for actions that say none */
};

/* 0 when all was done, whatever came out; -1 when an action got no observation at all. */
int tn_replay(const struct tn_recording *recording, const struct tn_replay *how,
              struct tn_replay_summary *summary, struct tn_error *err);

#endif
