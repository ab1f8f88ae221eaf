/* What we say to a shell, and what it says back.
 *
 * The shell reads its script from a socket on descriptor 0, never from the terminal: a command is
 * one line that evals the quoted text with the terminal as its standard input and reports to the
 * same socket.  Nothing the text can do reaches the report: prompts, PROMPT_COMMAND, traps,
 * redirections by exec and closed descriptors do not matter, and child processes never hold the
 * socket. */
#ifndef TN_HAND_SHELL_DIALECT_H
#define TN_HAND_SHELL_DIALECT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

/* A command for the shell, or a question. */
struct tn_line {
    const char
        *token; /* begins every record, so that what traps print into the socket is told apart */
    uint64_t seq;
    int previous;     /* the status that `$?` shall show; 0 to leave it */
    const char *text; /* of a command */
    size_t len;
    const char *input_path; /* its standard input; NULL: the terminal */
    bool input_is_pipe;     /* and that is a named pipe */
    bool input_was_pipe;    /* that of the command before was one: the shell has it open */
};

struct tn_dialect {
    const char *name;             /* "bash", "sh" */
    const char *const *argv_tail; /* arguments after the program, NULL-terminated */
    int tty_fd;                   /* where the shell finds its terminal besides 1 and 2 */
    bool forgetful;               /* an interrupt makes it forget the lines it has read ahead */
    const char *setup;            /* the first line of a new shell: quiet prompts, helpers */
    const char *snapshot_start;   /* what the text of an environment begins with */
    /* A line that undoes what could keep reports from coming, or NULL. */
    const char *rescue;

    /* Append lines: one that runs text and reports; the report alone, in case an interrupt or an
     * error in the text takes the rest of that line with it (one too many does no harm); one that
     * tells the exported environment; and those that let a person use the shell through line
     * editing until end of file or interrupt, and then report (NULL when the shell has no line
     * editor). */
    void (*put_run)(struct tn_buf *out, const struct tn_line *line);
    void (*put_report)(struct tn_buf *out, const struct tn_line *line);
    void (*put_snapshot)(struct tn_buf *out, const struct tn_line *line);
    void (*put_interactive)(struct tn_buf *out, const struct tn_line *line);
    /* Appends text quoted as one shell word. */
    void (*put_word)(struct tn_buf *out, const char *text, size_t len);
};

extern const struct tn_dialect tn_dialect_bash;
extern const struct tn_dialect tn_dialect_sh;

/* The dialect for a shell program's name ("bash", "/bin/dash", ...). */
const struct tn_dialect *tn_dialect_for(const char *program);

/* --- records: NUL-terminated fields -------------------------------------------------------- */

enum tn_record_kind {
    TN_RECORD_EVALUATED,   /* a command ended; the shell may yet tell about its jobs */
    TN_RECORD_DONE,        /* the shell is past that, and reads the next line */
    TN_RECORD_SNAPSHOT,    /* the exported environment */
    TN_RECORD_INTERACTIVE, /* a person's prompt: status 0 waiting for a line, 1 running one */
};

/* All strings borrow from the buffer the record was parsed from; a kind fills only its own fields.
 */
struct tn_record {
    enum tn_record_kind kind;
    uint64_t seq;
    int status;              /* evaluated, interactive; done, of a line that was cut short */
    int background_pid;      /* evaluated, done: of the last background job, or -1 */
    bool errexit;            /* evaluated, done: `set -e` is on */
    const char *cwd;         /* evaluated, done */
    const char *path;        /* evaluated, done: $PATH */
    const char *environment; /* snapshot: variables, as text the shell can eval */
    const char *functions;   /* snapshot: definitions of the exported ones */
};

/* Takes the first record from bytes, with whatever stands before it: the length of both with
 * *record filled, or 0 when there is no whole record yet. */
size_t tn_record_parse(const char *bytes, size_t n, const char *token, struct tn_record *record);

#endif
