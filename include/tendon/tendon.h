/* libtendon: sandboxes for AI agents, from C.
 *
 * A runtime (struct tendon) is configuration, the state on disk and the backends in use; it serves
 * several threads.  A sandbox handle (struct tendon_sandbox) serves one thread at a time.  Specs,
 * actions, observations and descriptions are JSON text in UTF-8, the same that the command line and
 * the HTTP interface of the hand use: docs/config.md lists the fields of a spec, docs/actions.md
 * the actions and observations.
 *
 * A function that can fail returns 0 or -1, or NULL, and takes a struct tendon_error last (NULL
 * when the reason does not matter).  Text that is returned belongs to the caller, who ends it with
 * free().  Every call that waits has a limit in seconds, a negative one is none; or one of its own,
 * where it says so.  Nothing here
 * prints, exits or changes signal handlers. */
#ifndef TENDON_TENDON_H
#define TENDON_TENDON_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TENDON_API __attribute__((visibility("default")))

struct tendon;
struct tendon_sandbox;
struct tendon_session;
struct tendon_events;

struct tendon_error {
    const char *code; /* one word: "not_found", "timeout", "unsupported", ...; lives for ever */
    int sys;          /* errno behind it, or 0 */
    char text[512];   /* one sentence for people */
};

TENDON_API const char *tendon_version(void);

/* --- the runtime ------------------------------------------------------------------------------ */

/* config: a config.toml; NULL: the usual places.  settings: a JSON object of section.key and value
 * that weigh more than the file, {"tendon.runtime": "jail", "jail.memory": "1g"}; or NULL.  What
 * killed processes left behind is cleared away. */
TENDON_API struct tendon *tendon_open(const char *config, const char *settings,
                                      struct tendon_error *err);
/* After the last handle is freed.  Sandboxes stay. */
TENDON_API void tendon_close(struct tendon *t);

/* Who wants to know what becomes of sandboxes while this program makes, stops, wakes and removes
 * them is told in the middle of those calls, in their threads.  status is OpenHands' word,
 * "STATUS$BUILDING_RUNTIME"; message may be "", or tells more: "pulling debian:12".  docs/events.md
 * lists which is told when.  Before the first sandbox; status NULL: nobody. */
TENDON_API void tendon_watch(struct tendon *t,
                             void (*status)(const char *id, const char *status, const char *message,
                                            void *ctx),
                             void *ctx);

/* All sandboxes as a JSON array, oldest first. */
TENDON_API char *tendon_list(struct tendon *t, struct tendon_error *err);
/* Removes what nobody owns any more; how much, or -1. */
TENDON_API int tendon_gc(struct tendon *t, double seconds, struct tendon_error *err);

/* --- sandboxes -------------------------------------------------------------------------------- */

/* Makes one, or takes one that waits.  It ends with this process, however that ends, unless the
 * spec says {"keep": true}.  spec NULL is {}.  After a failure nothing is left. */
TENDON_API struct tendon_sandbox *tendon_create(struct tendon *t, const char *spec, double seconds,
                                                struct tendon_error *err);
/* One that exists, by id, name or unique start of the id. */
TENDON_API struct tendon_sandbox *tendon_attach(struct tendon *t, const char *which,
                                                struct tendon_error *err);
/* Forgets the handle; the sandbox stays as it is. */
TENDON_API void tendon_detach(struct tendon_sandbox *sb);
/* Ends the sandbox with everything in it, and the handle, also after a failure. */
TENDON_API int tendon_remove(struct tendon_sandbox *sb, double seconds, struct tendon_error *err);

/* Lives as long as the handle. */
TENDON_API const char *tendon_id(const struct tendon_sandbox *sb);
/* State, isolation, use of resources, spec, as a JSON object; asks the backend. */
TENDON_API char *tendon_inspect(struct tendon_sandbox *sb, double seconds,
                                struct tendon_error *err);
/* Its network as a JSON object: "network", "gated", "rules", and what the gate has "refused", with
 * the last "refusals".  change: NULL, or a JSON object of rules to "allow" and to "deny" from now
 * on, in lists; connections that are there stay. */
TENDON_API char *tendon_network(struct tendon_sandbox *sb, const char *change, double seconds,
                                struct tendon_error *err);
/* goal: "running", "paused", "stopped" or "suspended", from whatever state it is in. */
TENDON_API int tendon_drive(struct tendon_sandbox *sb, const char *goal, double seconds,
                            struct tendon_error *err);

/* --- work ------------------------------------------------------------------------------------- */

/* Executes an action, {"action": "run", "args": {"command": "ls"}, "timeout": 30}, and returns its
 * observation.  Without a timeout it has 120 seconds.  What an action cannot do is an observation
 * too. */
TENDON_API char *tendon_execute(struct tendon_sandbox *sb, const char *action,
                                struct tendon_error *err);
/* The tools of MCP servers that actions of the type call_tool_mcp can call here, as a JSON array in
 * the form in which language models are told of functions.  A server that does not answer in time
 * is left out. */
TENDON_API char *tendon_tools(struct tendon_sandbox *sb, double seconds, struct tendon_error *err);
/* A line for the shell; the shell keeps its state from call to call, and what it runs finds the end
 * of file where it reads standard input.  Its output as an observation has it (at most 30000
 * characters) in *output, which may be NULL; its exit status, or -1. */
TENDON_API int tendon_run(struct tendon_sandbox *sb, const char *command, double seconds,
                          char **output, struct tendon_error *err);

/* Whole files, with the rights of the sandbox's user.  Paths inside are absolute.  A file is
 * written in one step, missing directories are made.  mode -1: as the file has it, or the usual
 * one. */
TENDON_API int tendon_write_file(struct tendon_sandbox *sb, const char *path, const void *bytes,
                                 size_t n, int mode, double seconds, struct tendon_error *err);
/* "too_large" beyond max bytes; a NUL that is not counted follows them. */
TENDON_API char *tendon_read_file(struct tendon_sandbox *sb, const char *path, size_t max,
                                  size_t *n, double seconds, struct tendon_error *err);

/* A connected stream socket to a TCP port inside, whatever network the sandbox has.  The caller
 * closes it.  A sandbox with a lease counts as used until the handle is given up. */
TENDON_API int tendon_dial(struct tendon_sandbox *sb, int port, double seconds,
                           struct tendon_error *err);

/* --- files as they were ----------------------------------------------------------------------- */

TENDON_API int tendon_snapshot(struct tendon_sandbox *sb, const char *name, double seconds,
                               struct tendon_error *err);
/* Processes end; the files are those of the snapshot. */
TENDON_API int tendon_rollback(struct tendon_sandbox *sb, const char *name, double seconds,
                               struct tendon_error *err);
/* A new sandbox with these files; snapshot NULL: as they are now.  spec may have name, keep, lease
 * and labels; NULL is {}. */
TENDON_API struct tendon_sandbox *tendon_fork(struct tendon_sandbox *sb, const char *snapshot,
                                              const char *spec, double seconds,
                                              struct tendon_error *err);

/* --- events ----------------------------------------------------------------------------------- */

/* What happens in a sandbox, whoever does it, in the order of its journal: each action, and what
 * came of it, as docs/events.md tells.  Several can be open at a time, each for one thread, also
 * another one than the handle's; they outlive the handle. */

/* From the event of that number on; 0: all there are; negative: only those that come. */
TENDON_API struct tendon_events *tendon_events_open(struct tendon_sandbox *sb, long long from,
                                                    struct tendon_error *err);
TENDON_API void tendon_events_close(struct tendon_events *e);
/* Waits for the next one and returns it, a JSON object whose "id" is its number: to go on after it
 * another time, open from id + 1.  NULL: "timeout" when none came, "gone" when none will, because
 * the sandbox is no more. */
TENDON_API char *tendon_events_next(struct tendon_events *e, double seconds,
                                    struct tendon_error *err);

/* --- sessions --------------------------------------------------------------------------------- */

/* What an agent has of a sandbox beyond actions: its environment, a repository with its set-up
 * script, hooks and microagents, actions that wait for a confirmation, a task list. A session uses
 * the handle it was opened with, in one thread at a time like everything else that does, and is
 * closed before that is given up. These calls have limits of their own: a minute for the
 * environment, ten for a clone and ten for its script, an action the one it has, or else
 * sandbox.timeout. docs/workspace.md tells what each step does. */

/* Told in the middle of the calls below, in their thread; each function may be NULL. */
struct tendon_session_watch {
    /* status is OpenHands' word, "STATUS$READY"; level is "info" or "error"; message may be "".
     * Also told in tendon_drive of the handle: STOPPED, and READY when it runs again. */
    void (*status)(const char *level, const char *status, const char *message, void *ctx);
    /* What went wrong and is no failure, in one sentence, without secrets. */
    void (*note)(const char *text, void *ctx);
    void *ctx;
};

/* options is a JSON object or NULL: "id" (of the session), "workspace" (inside; else that of the
 * spec, else where the main shell is), "directory" (on this machine: events and task list are kept
 * there), "attached" (the environment is left alone), "env" (names and values), "tokens"
 * ([{"provider": "github", "token": "...", "host": null}]), "token_in_url". watch may be NULL and
 * is copied. */
TENDON_API struct tendon_session *tendon_session_open(struct tendon_sandbox *sb,
                                                      const char *options,
                                                      const struct tendon_session_watch *watch,
                                                      struct tendon_error *err);
/* The sandbox stays as it is. */
TENDON_API void tendon_session_close(struct tendon_session *s);

/* Environment, workspace and git's identity in one action. */
TENDON_API int tendon_session_setup(struct tendon_session *s, struct tendon_error *err);
/* Sets further variables, {"NAME": "value"}; values are never evaluated, and in no message. */
TENDON_API int tendon_session_add_env(struct tendon_session *s, const char *env,
                                      struct tendon_error *err);
/* Clones the repository, {"name": "OWNER/NAME", "provider": "github", "branch": "..."} (name may be
 * a URL or a path; the others may be missing), and then runs its set-up script, installs its hooks
 * and reads its microagents. Without a name: that of sandbox.selected_repo, or else the workspace
 * itself. NULL is {}. Returns {"directory", "microagents"}. */
TENDON_API char *tendon_session_prepare(struct tendon_session *s, const char *repository,
                                        struct tendon_error *err);
/* Executes an action as an agent's: one that waits for its confirmation is not executed, a rejected
 * one is answered, thoughts and task lists are dealt with here. There is an observation also when
 * the sandbox is gone; NULL only for what is no action. */
TENDON_API char *tendon_session_act(struct tendon_session *s, const char *action,
                                    struct tendon_error *err);

/* [{"status", "path"}] of what differs from the origin; cwd NULL: the workspace. */
TENDON_API char *tendon_session_changes(struct tendon_session *s, const char *cwd,
                                        struct tendon_error *err);
/* {"original", "modified"} of a file. */
TENDON_API char *tendon_session_diff(struct tendon_session *s, const char *file, const char *cwd,
                                     struct tendon_error *err);
TENDON_API char *tendon_session_branch(struct tendon_session *s, const char *cwd,
                                       struct tendon_error *err);

#ifdef __cplusplus
}
#endif

#endif
