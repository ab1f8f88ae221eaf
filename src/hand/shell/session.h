/* A shell session: one long-lived shell on a terminal, and the rules by which an agent talks to it.
 *
 * Actions take turns in the order they came.  Everything blocks, with a deadline.  A reader thread
 * drains the terminal at all times, so a program never waits for us.  A shell that dies is replaced
 * at the next command, in its last directory and with its last exported environment. */
#ifndef TN_HAND_SHELL_SESSION_H
#define TN_HAND_SHELL_SESSION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/error.h"
#include "hand/shell/output.h"

struct tn_session;

struct tn_session_options {
    const char *name;    /* for ids and logs */
    const char *program; /* "bash", "sh", or a path */
    const char *cwd;     /* initial directory */
    char *const *env;    /* environment of the shell */
    uid_t uid;           /* who runs it */
    gid_t gid;
    const gid_t *groups;
    size_t group_count;
    bool switch_user;             /* set uid, gid and groups at all */
    double no_change_seconds;     /* the soft timeout */
    const char *output_directory; /* both must outlive the session, as env and groups */
    const char *setup;            /* script run in every new shell, or NULL */
    bool must_enter;              /* a shell that cannot enter cwd is a failure */
    const bool *closing;          /* atomic: once true, no shell is started any more; may be NULL */
};

struct tn_shell_request {
    const char *command; /* length given: may hold any byte but NUL */
    size_t command_len;
    bool is_input;
    bool blocking;
    bool script;            /* several commands at once are fine */
    bool literal;           /* input is text, never a key name */
    const char *input_path; /* standard input of a command; NULL: the terminal */
    double timeout;         /* seconds; 0 for none */
    int client; /* socket of who asks, or -1: an action whose client is gone makes way for the next
                   one */
};

enum tn_shell_end {
    TN_END_COMPLETED,
    TN_END_NO_CHANGE, /* soft timeout: still running */
    TN_END_TIMEOUT,   /* hard timeout: still running */
    TN_END_REJECTED,  /* another command is still running: nothing was sent */
    TN_END_NOTHING,   /* a poll or input without a running command */
    TN_END_MULTIPLE,  /* several commands: content is the error text */
    TN_END_SHELL_EXITED,
    TN_END_FAILED,    /* no shell could be started: content says why */
    TN_END_STARTING,  /* the shell is not ready yet: nothing was sent, it goes on starting */
    TN_END_ABANDONED, /* the client is gone and another action came: it goes on unreported */
};
const char *tn_shell_end_name(enum tn_shell_end end);

struct tn_shell_result {
    enum tn_shell_end end;
    char *command; /* as it was sent: without blanks around it, "" when nothing was */
    struct tn_buf content;
    struct tn_buf prefix;
    struct tn_buf suffix;
    int exit_code; /* -1 while running */
    int background_pid;
    char *cwd;    /* NULL unless completed */
    char *python; /* path of python in the shell's PATH, "" when none; NULL unless completed */
    double duration;
    double user_time, system_time; /* negative: not measured */
    int64_t peak_memory;           /* bytes; negative: not measured */
    uint64_t output_bytes;
    uint64_t output_dropped;
    char *command_id;  /* NULL when nothing ran */
    char *output_path; /* NULL when all of it is in memory */
    uint64_t delivery; /* for tn_session_delivered */
};
void tn_shell_result_init(struct tn_shell_result *r);
void tn_shell_result_done(struct tn_shell_result *r);

struct tn_session *tn_shell_session_new(const struct tn_session_options *options);
struct tn_session *tn_session_ref(struct tn_session *s);
/* The last owner's unref kills everything on the terminal and waits for it. */
void tn_session_unref(struct tn_session *s);

/* Starts the shell if none runs, for tn_session_start to wait for later. */
void tn_session_begin(struct tn_session *s);
/* Starts the shell if none runs (the first action does it too) and waits for its start-up files. At
 * the deadline TN_E_TIMEOUT: the shell goes on starting. */
int tn_session_start(struct tn_session *s, int64_t deadline, struct tn_error *err);

/* Runs an action.  Never fails: the result says what happened.  Returns by the hard timeout + 1 s.
 */
void tn_session_run(struct tn_session *s, const struct tn_shell_request *request,
                    struct tn_shell_result *result);
/* One of these two follows a run on behalf of a client: the result has reached its reader, or it
 * has not and its output counts as unreported again.  A poll waits a moment for that. */
void tn_session_delivered(struct tn_session *s, uint64_t delivery);
void tn_session_undeliver(struct tn_session *s, uint64_t delivery);

struct tn_session_state {
    char name[64];
    char program[64];
    pid_t pid;         /* 0: no shell now */
    int exit_code;     /* of the shell that ended last, as a shell would say it */
    bool running;      /* a command is being executed */
    uint64_t commands; /* how many so far */
    int terminals;     /* people attached */
    double idle_seconds, age_seconds;
};
void tn_session_inspect(struct tn_session *s, struct tn_session_state *state);
const char *tn_session_name(const struct tn_session *s);
/* Current directory; the caller frees it. */
char *tn_session_cwd(struct tn_session *s);
/* What its shell exports, in the words of the shell: variables (`declare -px`), then functions
 * (`declare -fx`); the caller frees it.
 * Waits until the deadline for a shell that is just starting, and a moment for an idle one to tell;
 * of a busy one it is what was known last.  A deadline of 0 asks nobody.  NULL: not known. */
char *tn_session_exports(struct tn_session *s, int64_t deadline);

/* Sends a signal to the foreground process group of the terminal (the running program). */
int tn_session_signal(struct tn_session *s, int signo, struct tn_error *err);
/* Kills the shell and everything on its terminal; the next action starts afresh.  keep: in the last
 * directory with the last environment, else in the initial ones. */
void tn_session_reset(struct tn_session *s, bool keep);

/* The output of a command by its id, or of the latest one for NULL; the caller unrefs it.  NULL
 * when unknown. */
struct tn_output *tn_session_output(struct tn_session *s, const char *id);
/* Calls fn for each kept output, oldest first. */
void tn_session_each_output(struct tn_session *s, void (*fn)(struct tn_output *o, void *ctx),
                            void *ctx);

/* --- a person's terminal on the session ---------------------------------------------------- */

/* Attaches: from now on the raw terminal stream is kept for resuming.  An offset beyond its end is
 * moved to the start of the line that the cursor is in.  *past: what is before has been shown to
 * others, or to nobody.  When nothing runs, a prompt with line
 * editing is started; an agent's next command ends it. */
int tn_session_attach(struct tn_session *s, uint64_t *offset, uint64_t *past, struct tn_error *err);
void tn_session_detach(struct tn_session *s);
/* How often the session was woken, by tn_session_wake or by the end of its shell: to be asked for
 * before one looks at what the wake is about. */
uint64_t tn_session_wakes(struct tn_session *s);
/* Raw terminal bytes from *offset on (moved past what was dropped): count, 0 when the deadline
 * passed or the session was woken more often than `wakes`. */
size_t tn_session_tape(struct tn_session *s, uint64_t *offset, char *to, size_t n, uint64_t wakes,
                       int64_t deadline);
/* Makes every waiting tn_session_tape look again. */
void tn_session_wake(struct tn_session *s);
int tn_session_type(struct tn_session *s, const char *bytes, size_t n, struct tn_error *err);
void tn_session_resize(struct tn_session *s, int columns, int rows);

#endif
