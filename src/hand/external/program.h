/* One running program of a plugin: questions and answers, one at a time. */
#ifndef TN_HAND_EXTERNAL_PROGRAM_H
#define TN_HAND_EXTERNAL_PROGRAM_H

#include "hand/helper.h"
#include "mcp/rpc.h"

/* The longest line in either direction. */
#define PROGRAM_LINE_MAX ((size_t)8 << 20)

struct plugin_program;

/* How long an answer is waited for. */
struct plugin_program_patience {
    int quit; /* readable once the hand is ending */
    int stop; /* readable once the answer is not wanted any more; -1: it always is */
    int64_t deadline;
};

struct plugin_program *plugin_program_start(struct tn_hand *hand, const char *path,
                                            struct tn_error *err);
/* Asks it to end (SIGTERM), kills what is left of it after `grace` seconds. */
void plugin_program_free(struct plugin_program *p, double grace);

struct tn_helper *plugin_program_helper(const struct plugin_program *p);

/* Asks and waits; params is a ready JSON object.  0 with the answer, a result or an error, which
 * the caller ends.  -1 with err: TN_E_TIMEOUT at the deadline and when `stop` became readable (the
 * question stands, see plugin_program_cancel), TN_E_GONE when `quit` did, and TN_E_PEER when it
 * broke down: it ended, said nonsense, or too much. */
int plugin_program_call(struct plugin_program *p, const char *method, const char *params,
                        const struct plugin_program_patience *patience, struct tn_rpc *answer,
                        struct tn_error *err);
/* Takes the question back that was not answered in time, and waits for the last word on it: as
 * plugin_program_call. */
int plugin_program_cancel(struct plugin_program *p, const struct plugin_program_patience *patience,
                          struct tn_rpc *answer, struct tn_error *err);

#endif
