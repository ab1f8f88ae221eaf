/* A command in a sandbox: its output as it comes, its exit status, ctrl-C.
 *
 * For the two threads of a job: one runs it, the other may interrupt it. */
#ifndef TN_CLI_COMMAND_H
#define TN_CLI_COMMAND_H

#include <stdbool.h>

#include "cli/cli.h"
#include "runtime/hand-sessions.h"

struct command {
    struct cli *cli;
    struct tn_sandbox *sb;
    const char *text;    /* for the shell */
    const char *session; /* where it runs */
    double timeout;      /* seconds; 0: as long as it takes */
    bool read_terminal;  /* the command reads standard input also when that is a terminal */
    bool remove_session; /* of its own: removed at the end, whatever happens */

    struct tn_hand_address at; /* of the hand, from command_prepare */
    char *address, *key;       /* what it borrows */
    bool running;              /* atomic */
};

/* Several words are a program and its arguments: each is quoted, so that the shell passes it on as
 * it is.  One is a line for the shell; `once` tells that the shell runs nothing else: then a line
 * that may exit has a shell of its own, which leaves without a word. */
void put_words(struct tn_buf *out, const struct tn_str_list *words, bool once);
/* The word in quotes. */
void put_quoted(struct tn_buf *out, const char *word);

/* Finds out where the hand is. */
int command_prepare(struct command *c, struct tn_error *err);
void command_done(struct command *c);
/* Runs it and prints its output (with --json: one document at the end).  It reads what this program
 * reads, to its end; a terminal stays here, and the command has its own.  The exit status, or -1
 * with err. */
int command_run(struct command *c, struct tn_error *err);
/* From the thread of signals: ctrl-C for the command.  False when nothing runs, or it did not
 * arrive. */
bool command_interrupt(struct command *c);
/* From the thread of signals: kills it. */
void command_kill(struct command *c);

#endif
