/* The environment of a sandbox: where it comes from, and the command that sets it. */
#ifndef TN_RUNTIME_SETUP_ENV_H
#define TN_RUNTIME_SETUP_ENV_H

#include "runtime/config.h"
#include "runtime/setup/git.h"

/* Variables with upper-case names, in the order they were first set; a later value of the same name
 * replaces the earlier one. */
struct setup_env {
    struct {
        char *name, *value;
    } * items;
    size_t count;
};
void setup_env_done(struct setup_env *env);
#define autoenv TN_CLEANUP(setup_env_done)

/* -1 when the name is none, is one that shells keep for themselves, or the value is too long for
 * any program to be started with it.  The message has the name only. */
int setup_env_set(struct setup_env *env, const char *name, const char *value, struct tn_error *err);
/* All members of an object of texts (NULL: none). */
int setup_env_add(struct setup_env *env, const struct tn_json *object, struct tn_error *err);

/* The four sources of a new sandbox, each going before the one above: SANDBOX_ENV_X of this
 * process, ENABLE_AUTO_LINT, what the caller wants, tokens of git providers; and at last
 * sandbox.runtime_startup_env_vars. */
int setup_env_initial(struct setup_env *env, const struct tn_config *config,
                      const struct tn_json *caller, const struct tn_git_token *tokens,
                      size_t token_count, struct tn_error *err);

/* What one call sets up. */
struct setup_batch {
    const struct setup_env *env;
    bool persist;                     /* also for shells to come: files in the home directory */
    const char *directory;            /* made if missing; NULL: none */
    const char *git_name, *git_email; /* git's identity; NULL: left alone */
};
/* Appends one command for the main shell.  It prints a line that setup_batch_failed reads. */
void setup_batch_put(const struct setup_batch *batch, struct tn_buf *out);
enum setup_part { SETUP_ENV, SETUP_PERSIST, SETUP_DIRECTORY, SETUP_GIT, SETUP_PARTS };
/* True when that part of the batch failed, or nothing is said about it in what it printed. */
bool setup_batch_failed(const char *printed, enum setup_part part);

/* Appends the same for an IPython kernel: one cell. */
void setup_env_put_cell(const struct setup_env *env, struct tn_buf *out);

#endif
