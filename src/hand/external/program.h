/* One running program of a plugin: questions and answers, one at a time. */
#ifndef TN_HAND_EXTERNAL_PROGRAM_H
#define TN_HAND_EXTERNAL_PROGRAM_H

#include "hand/helper.h"
#include "mcp/rpc.h"

/* The longest line in either direction. */
#define PROGRAM_LINE_MAX ((size_t)8 << 20)

struct program;

/* How long an answer is waited for. */
struct program_patience {
    int quit; /* readable once the hand is ending */
    int stop; /* readable once the answer is not wanted any more; -1: it always is */
    int64_t deadline;
};

struct program *program_start(struct tn_hand *hand, const char *path, struct tn_error *err);
/* Asks it to end (SIGTERM), kills what is left of it after `grace` seconds. */
void program_free(struct program *p, double grace);

struct tn_helper *program_helper(const struct program *p);

/* Asks and waits; params is a ready JSON object.  0 with the answer, a result or an error, which
 * the caller ends.  -1 with err: TN_E_TIMEOUT at the deadline and when `stop` became readable (the
 * question stands, see program_cancel), TN_E_GONE when `quit` did, and TN_E_PEER when it broke
 * down: it ended, said nonsense, or too much. */
int program_call(struct program *p, const char *method, const char *params,
                 const struct program_patience *patience, struct tn_rpc *answer,
                 struct tn_error *err);
/* Takes the question back that was not answered in time, and waits for the last word on it: as
 * program_call. */
int program_cancel(struct program *p, const struct program_patience *patience,
                   struct tn_rpc *answer, struct tn_error *err);

#endif
