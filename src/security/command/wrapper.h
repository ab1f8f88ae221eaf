/* Commands that run other commands: a row for each tells which of its words those are. */
#ifndef TN_SECURITY_COMMAND_WRAPPER_H
#define TN_SECURITY_COMMAND_WRAPPER_H

#include <stdbool.h>
#include <stddef.h>

enum how {
    RUN_WORDS,   /* the words behind its options and operands are a command */
    RUN_ARGS,    /* the same with words added or replaced that are not known */
    RUN_JOINED,  /* these words, with spaces between, are a text for a shell */
    RUN_EVAL,    /* the same for the shell itself */
    RUN_FIRST,   /* the first operand is a text for the shell itself */
    RUN_CARRIED, /* an option carries a text for a shell */
    RUN_SHELL,   /* a shell: the first operand is a text (-c) or a file, or it reads its input */
    RUN_PROGRAM, /* an interpreter: an option carries the program, or as with a shell */
    RUN_OPERAND, /* an interpreter whose first operand is the program */
    RUN_FILE,    /* the first operand is a file for the shell itself */
    RUN_BEHIND,  /* commands stand behind its longs, up to ; or +; further rows may fit as well */
    RUN_OPTIONS, /* options, wherever they stand, carry texts for a shell */
    RUN_SED,     /* the first operand, or options, are a script for sed */
    RUN_INPUT,   /* what it reads is a program; with bare also what is not known */
    RUN_PWSH,    /* PowerShell */
    RUN_VERBS,   /* its options before a verb, for the rows of that name behind this one */
};

/* Options are as for getopt: a colon behind a letter that takes an argument, two if that can only
 * stand in the same word; a = behind such long ones, a ! where that is a text for a shell (behind
 * the ! stands what the text begins with then).  What is not listed is not known; RUN_OPTIONS and
 * what is foreign take it for harmless. */
struct wrapper {
    const char *name; /* or several, with a space between */
    const char *sub;  /* its words before the options that follow: docker *exec* */
    enum how how;
    unsigned flags;    /* of what it runs */
    unsigned operands; /* words before the command */
    const char *letters, *longs;
    const char *carry; /* letters of the options that carry the text */
    const char *bare;  /* without a command it is a shell; with these letters, or * always.
                        * Of RUN_BEHIND: words that are not known may be one of the longs */
    const char *language;
    const char *nothing; /* letters with which it runs no text: its version, a list, a module */
    bool bundle;         /* its first word may be letters without a dash: tar xf */
    const char *foreign; /* nobody here reads its language: words that may run a command; "" any.
                          * Of RUN_OPTIONS: what options carry is in it, -f is a file of it */
};

extern const struct wrapper wrappers[];
extern const size_t wrapper_count;

#endif
