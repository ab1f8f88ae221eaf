/* Commands for the shell of a sandbox: composed so that nothing is evaluated that should not be,
 * run through whatever executes actions. */
#ifndef TN_RUNTIME_SETUP_SHELL_H
#define TN_RUNTIME_SETUP_SHELL_H

#include <pthread.h>

#include "event/action.h"
#include "event/observation.h"

/* Executes one action; as tn_hand_client_execute and tn_sandbox_execute do it. */
typedef int (*tn_execute_fn)(void *ctx, const struct tn_action *action,
                             struct tn_observation *observation, struct tn_error *err);

/* One action at a time, whoever asks: the lock is held during the call and never longer, so that
 * what an action causes (a refreshed token, say) may execute further ones. */
struct setup_executor {
    tn_execute_fn execute;
    void *ctx;
    pthread_mutex_t *lock;
};
int setup_execute(const struct setup_executor *x, const struct tn_action *action,
                  struct tn_observation *observation, struct tn_error *err);

/* Appends text as one word that no shell expands: in single quotes. */
void setup_put_quoted(struct tn_buf *out, const char *text);
/* " NAME='value'" for each member of an object of texts. */
void setup_put_assignments(struct tn_buf *out, const struct tn_json *env);

struct setup_command {
    const char *text;
    const char
        *cwd;       /* not NULL: in a shell of its own there, which knows nothing of the main one */
    double timeout; /* seconds */
};

/* Runs the command unseen and waits for its end; what it printed goes to out (may be NULL). Returns
 * its exit status; or -1 with err when it could not be run or did not end in time, which then was
 * interrupted.  Messages never hold the command. */
int setup_run(const struct setup_executor *x, const struct setup_command *command,
              struct tn_buf *out, struct tn_error *err);

/* The same for commands that end in `| base64`: out gets the bytes. */
int setup_run_bytes(const struct setup_executor *x, const struct setup_command *command,
                    struct tn_buf *out, struct tn_error *err);
/* What turns the bytes of a pipe into one line of base64, with any base64 there is. */
#define SETUP_TO_BASE64 " | base64 | tr -d '\\n'"

#endif
