/* The inside of a session, shared by its files: session.c (life), session-start.c (its shell),
 * session-events.c (what that tells), session-run.c (the rules of an action), session-send.c and
 * session-report.c (what goes in, what is told) and session-terminal.c (people).  Everything below
 * `lock` is guarded by it. */
#ifndef TN_HAND_SHELL_SESSION_INTERNAL_H
#define TN_HAND_SHELL_SESSION_INTERNAL_H

#include <pthread.h>

#include "base/clock.h"
#include "hand/shell/process-limit.h"
#include "hand/shell/process.h"
#include "hand/shell/session.h"
#include "hand/shell/transcript.h"

enum {
    SCREEN_COLUMNS = 1000,
    SCREEN_ROWS = 1000,
    /* What is kept is what tmux keeps under OpenHands, to the row.  Its history of 10000 rows loses
     * a tenth of itself when it is full; above the screen and on it stand two prompts besides: one
     * before the command, which goes with the first rows, and one behind it. */
    PROMPT_ROWS = 12,
    WINDOW_ROWS = 10000 + SCREEN_ROWS - PROMPT_ROWS,
    WINDOW_BATCH = 1000,
    WINDOW_BYTES = 4 << 20,
    OUTPUTS_KEPT = 32,
    TAPE_SIZE = 256 << 10,
    TAPE_LINE_MAX = 4 << 10,
};

#define SESSION_START_SECONDS 60.0

struct turn {
    struct turn *next;
};

struct tn_session {
    int refs;
    struct tn_session_options options; /* strings are ours */
    pthread_mutex_t lock;
    pthread_cond_t changed; /* any state below */

    struct turn *turns; /* first come, first served */

    struct tn_shell *shell; /* replaced only by whoever has the turn */
    bool exited;            /* that shell is gone */
    bool starting;          /* its first line has not ended */
    int64_t start_by;       /* when it is given up */
    char *start_file;       /* its first script, when that is long */
    int wait_status;
    bool forget; /* the next shell starts in the initial state */

    uint64_t seq;          /* of the latest line sent */
    uint64_t snapshot_seq; /* the line after which the environment was last asked for */
    uint64_t snapshot_got; /* and last told */
    bool active;           /* that line has not ended */
    bool running;          /* the agent was told that a command is still running */
    bool reported;         /* it has seen some of its output */
    int status;            /* of the latest line */
    int status_before;     /* of the line before a shell was started */
    bool errexit;          /* `set -e` is on */
    int background_pid;
    char *cwd;
    char *path;        /* $PATH */
    char *environment; /* exported variables, as text for eval */
    char *functions;   /* exported ones, as the shell shows them; not kept for another shell */
    uint64_t commands;

    struct tn_buf pending; /* an unfinished command being typed line by line */
    bool collecting;
    bool sent;           /* the latest command has reached the shell */
    bool report_due;     /* the report alone has not been sent after it */
    bool evaluated;      /* it has ended, but the shell may yet tell about its jobs */
    bool jobs;           /* the shell has, or had, programs in the background */
    bool rescued;        /* the shell has been sent its rescue line */
    bool input_was_pipe; /* of the last command: the shell has it open yet */

    struct tn_transcript *transcript;
    int64_t last_change; /* when its text last changed */
    uint64_t seen_changes;
    uint64_t taken_changes;                  /* value at the last take */
    struct tn_output *outputs[OUTPUTS_KEPT]; /* newest last */
    size_t output_count;

    int64_t started; /* of the latest command */
    int64_t ended, made;
    double base_user, base_system;
    bool have_base;
    int64_t peak_memory;

    struct tn_process_limit process_limit;
    int64_t process_limit_met; /* which is to be told; 0: none */

    uint64_t deliveries;
    uint64_t unsettled; /* the delivery whose reader may turn out to be gone; 0: none */
    struct {
        bool running, reported;
        int64_t process_limit_met;
    } before_delivery;

    int terminals;
    bool interactive;    /* a person's prompt loop is the active line */
    bool prompt_waiting; /* and it waits for a line */
    bool prompt_running; /* or runs one (neither: it is just coming up) */
    char *tape;          /* ring of TAPE_SIZE raw bytes; NULL until somebody attaches */
    uint64_t tape_end;   /* bytes ever put on it */
    uint64_t tape_line;  /* where the line that the cursor is in began, perhaps with a prompt */
    bool prompt_ending;  /* what waits there is just being put away */
    bool hush;           /* a Ctrl-C of ours is about to be echoed */
    uint64_t wakes;
};

static inline struct tn_output *current_output(struct tn_session *s)
{
    return s->output_count ? s->outputs[s->output_count - 1] : NULL;
}

/* A line for the shell with the current number. */
static inline struct tn_line session_line(const struct tn_session *s)
{
    return (struct tn_line){.token = tn_shell_token(s->shell), .seq = s->seq};
}

/* All with the lock held; those that wait release it meanwhile. */

/* Waits until the line in progress has ended or the deadline passed; true when it has ended. */
bool session_wait_line(struct tn_session *s, int64_t deadline);
/* Makes sure that a shell is there, perhaps still starting, or has ended while it did. */
int session_begin_shell(struct tn_session *s, struct tn_error *err);
/* Makes sure that a shell is there and set up; one that is not ready by the deadline goes on
 * starting. */
int session_ensure_shell(struct tn_session *s, int64_t deadline, struct tn_error *err);
void session_remove_start_file(struct tn_session *s);
struct tn_shell_events session_events(struct tn_session *s);
void session_set_text(char **to, const char *text);
/* Sends ready script text as the new active line. */
int session_send_line(struct tn_session *s, const struct tn_buf *text, int64_t deadline,
                      struct tn_error *err);
/* Sends the report alone, if the shell takes it now. */
void session_send_report(struct tn_session *s);
/* Appends the line that asks for the exported environment. */
void session_put_snapshot(struct tn_session *s, struct tn_buf *line);
/* A command and its standard input, NULL for the terminal. */
struct script {
    const char *text;
    size_t len;
    const char *input_path;
};
/* Sends the line that runs it as seq + 1 and makes it active.  Refuses what is too long. */
int session_send_command(struct tn_session *s, const struct script *script, int64_t deadline,
                         struct tn_error *err);
/* With the turn: ends a person's waiting prompt so that a command can run; false when something
 * else is running there. */
bool session_end_prompt(struct tn_session *s, int64_t deadline);
/* Starts a person's prompt if people are attached and nothing runs. */
void session_offer_prompt(struct tn_session *s);

struct text {
    const char *at;
    size_t len;
};

/* Fill in the report of an action: its command has ended (sent: the input, or the key, it ended
 * with); it runs on (echo: input that the terminal shows again); another one was given meanwhile
 * and is refused, with or without what was written since; or there is nothing but a sentence to
 * tell. */
void session_report_completed(struct tn_session *s, struct tn_shell_result *r, struct text sent,
                              bool key);
void session_report_running(struct tn_session *s, struct tn_shell_result *r, enum tn_shell_end end,
                            double timeout, struct text echo);
void session_report_continued(struct tn_session *s, struct tn_shell_result *r, struct text command);
void session_report_busy(struct tn_shell_result *r, struct text command);
void session_report_plain(struct tn_shell_result *r, enum tn_shell_end end, const char *text);
/* Space in the C locale. */
bool session_is_space(char c);
int session_refuse_length(struct tn_error *err);

bool session_take_turn(struct tn_session *s, struct turn *me, int64_t deadline);
void session_leave_turn(struct tn_session *s, struct turn *me);

#endif
