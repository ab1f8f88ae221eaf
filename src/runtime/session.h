/* A session: what an agent has of a sandbox, from its first variable to its last action.
 *
 * It needs nothing but something that executes actions (a sandbox, a client of a hand, a test), and
 * does the rest with actions: environment, git identity, clone, set-up script, hooks, microagents,
 * git changes; and it decides what becomes of an action: executed, rejected, left waiting, answered
 * by the host.  One action is under way at a time; calls may come from several threads. */
#ifndef TN_RUNTIME_SESSION_H
#define TN_RUNTIME_SESSION_H

#include "event/stream.h"
#include "runtime/config.h"
#include "runtime/setup/git.h"
#include "runtime/setup/microagent.h"
#include "runtime/setup/shell.h"
#include "runtime/status.h"
#include "runtime/toolbox.h"

struct tn_session;

/* Told when the status changes; level is "info" or "error", message may be "". */
typedef void (*tn_session_status_fn)(const char *level, enum tn_runtime_status status,
                                     const char *message, void *ctx);
/* What went wrong without being a failure, one sentence; never holds a secret. */
typedef void (*tn_session_note_fn)(const char *text, void *ctx);
/* A fresh token of that provider, on the heap; NULL with err. */
typedef char *(*tn_token_refresh_fn)(enum tn_git_provider provider, const char *session, void *ctx,
                                     struct tn_error *err);

/* Whatever executes actions keeps a journal of its own, which is not to show this. */
typedef void (*tn_session_hide_fn)(void *ctx, const struct tn_secret *secret);

struct tn_session_options {
    const struct tn_config *config; /* must outlive the session */
    tn_execute_fn execute;          /* of set-up: tn_session_setup_in_sandbox, with the sandbox */
    tn_execute_fn execute_judged;   /* of the agent: tn_session_in_sandbox; NULL: as `execute` */
    tn_session_hide_fn hide;        /* tn_session_hide_in_sandbox; or NULL */
    void *execute_ctx;              /* of all three */

    const char *id;             /* NULL: "default" */
    const char *workspace;      /* inside; NULL: core.workspace_mount_path_in_sandbox */
    const char *directory;      /* of the session on this machine, for TASKS.md; NULL: none */
    struct tn_stream *stream;   /* must outlive the session; NULL: none */
    bool attached;              /* the sandbox was there before: its environment is left alone */
    bool shared_home;           /* it lives in somebody's real home (local, cli): nothing there, and
                                   nothing of git's global configuration, is changed */
    struct tn_toolbox *toolbox; /* is told of the MCP servers that microagents bring; must outlive
                                   the session; or NULL: they are left out */
    const struct tn_str_list *plugins; /* or NULL; "jupyter" gets the environment too */

    const struct tn_json *env;         /* an object of texts, or NULL */
    const struct tn_git_token *tokens; /* copied */
    size_t token_count;
    bool token_in_url; /* clones keep the token in the URL of origin, as OpenHands' do, instead of
                          asking the provider's variable for it */
    tn_token_refresh_fn refresh; /* or NULL: tokens stay as they are */
    void *refresh_ctx;

    tn_session_status_fn status; /* or NULL */
    tn_session_note_fn note;     /* or NULL */
    void *ctx;                   /* of both */
};

struct tn_session *tn_session_new(const struct tn_session_options *options, struct tn_error *err);
/* Ends the subscription.  Leaves sandbox and stream alone. */
void tn_session_free(struct tn_session *s);
static inline void tn_guard_session(struct tn_session **s)
{
    tn_session_free(*s);
}
#define tn_autosession TN_CLEANUP(tn_guard_session)

/* tn_execute_fn for a struct tn_sandbox: of what an agent wants, and of what the host does itself,
 * which nobody judges. */
int tn_session_in_sandbox(void *sandbox, const struct tn_action *action,
                          struct tn_observation *observation, struct tn_error *err);
int tn_session_setup_in_sandbox(void *sandbox, const struct tn_action *action,
                                struct tn_observation *observation, struct tn_error *err);
void tn_session_hide_in_sandbox(void *sandbox, const struct tn_secret *secret);
/* tn_token_refresh_fn: asks https://$WEB_HOST for it, with the key $SESSION_API_KEY. */
char *tn_session_refresh_token(enum tn_git_provider provider, const char *session, void *ctx,
                               struct tn_error *err);

enum tn_runtime_status tn_session_status(struct tn_session *s);
/* Notes the status and tells the callback. */
void tn_session_tell(struct tn_session *s, enum tn_runtime_status status, const char *level,
                     const char *message);

/* --- the sandbox ---------------------------------------------------------------------------- */

/* One call sets everything: the environment of all four sources (for this shell, and for those to
 * come), the workspace, git's identity.  Status READY in the end.  Only an environment that could
 * not be set is a failure; the rest is noted.  Attached: nothing is done. */
int tn_session_setup(struct tn_session *s, struct tn_error *err);
/* Sets further variables; names become upper case.  Values replace those of before, also for shells
 * to come, and are never evaluated and never in messages. */
int tn_session_add_env(struct tn_session *s, const struct tn_json *env, struct tn_error *err);

/* --- the workspace -------------------------------------------------------------------------- */

struct tn_repository {
    const char *name;              /* OWNER/NAME or a URL; NULL: none */
    enum tn_git_provider provider; /* TN_GIT_PROVIDERS: as fits */
    const char *branch;            /* NULL: a new one, openhands-workspace-XXXXXXXX */
};

/* Clones the repository into the workspace, on its branch, and goes there; *directory is its
 * directory in the workspace.  One that is there already, from the same place, is used.  Without a
 * repository the workspace becomes one, if core.init_git_in_empty_workspace says so, and *directory
 * is "".  The caller frees it. */
int tn_session_clone(struct tn_session *s, const struct tn_repository *repository, char **directory,
                     struct tn_error *err);
/* Runs .openhands/setup.sh of the directory (in the workspace; "": the workspace itself), at most
 * 600 s.  1 when it ran, 0 when there is none, -1. */
int tn_session_run_setup_script(struct tn_session *s, const char *directory, struct tn_error *err);
/* Installs .openhands/pre-commit.sh as hook; a hook that was there is kept and still runs.  1, 0 or
 * -1 as above. */
int tn_session_install_hooks(struct tn_session *s, const char *directory, struct tn_error *err);
/* Adds the microagents of the directory to the list, and before them those of the repository's
 * owner (which are looked for quietly: an owner who has none is nothing to speak of).  repository
 * may be NULL. */
int tn_session_microagents(struct tn_session *s, const struct tn_repository *repository,
                           const char *directory, struct tn_microagents *out, struct tn_error *err);
/* All of that in the order of OpenHands' server: clone, set-up script, hooks, microagents. */
int tn_session_prepare(struct tn_session *s, const struct tn_repository *repository,
                       char **directory, struct tn_microagents *out, struct tn_error *err);

/* --- what git says ---------------------------------------------------------------------------- */

/* Appends a JSON list of {"status": M, A or D, "path"} relative to cwd (absolute, or in the
 * workspace; NULL: the workspace), of the repository there and those right below it. */
int tn_session_git_changes(struct tn_session *s, const char *cwd, struct tn_buf *json,
                           struct tn_error *err);
/* Appends {"original", "modified"}: the file as it was and as it is. */
int tn_session_git_diff(struct tn_session *s, const char *file, const char *cwd,
                        struct tn_buf *json, struct tn_error *err);
/* The branch that is checked out, on the heap; NULL with err when there is none. */
char *tn_session_git_branch(struct tn_session *s, const char *cwd, struct tn_error *err);

/* --- actions -------------------------------------------------------------------------------- */

/* What becomes of an action.  There is always an observation (the caller ends it): that of the
 * hand, that of the host (a thought, a task list, a rejection), `null` for one that nobody answers
 * or that waits for its confirmation, or `error`.  Sets the timeout of an action that has none; a
 * token that a command uses is refreshed before.
 * Returns 0, or -1 with err when the sandbox could not be asked; the status says so, too. */
int tn_session_run_action(struct tn_session *s, struct tn_action *action,
                          struct tn_observation *observation, struct tn_error *err);

/* From now on actions that others add to the stream are executed, in their order, and their
 * observations added. */
int tn_session_subscribe(struct tn_session *s, struct tn_error *err);

#endif
