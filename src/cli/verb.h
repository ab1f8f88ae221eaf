/* A verb of the `tendon` program: `tendon run`, `tendon help`, ...  One file per verb.
 *
 * The list in verbs.c is everything there is: help, the man page and the completions of shells are
 * made from it. */
#ifndef TN_CLI_VERB_H
#define TN_CLI_VERB_H

#include "base/error.h"
#include "base/field.h"
#include "cli/cli.h"

enum verb_group {
    VERB_WORK,   /* runs something */
    VERB_LIFE,   /* makes, changes and ends sandboxes */
    VERB_LOOK,   /* tells about them */
    VERB_SYSTEM, /* is about this machine and this program */
    VERB_GROUPS
};
extern const char *const verb_group_titles[VERB_GROUPS];

struct verb {
    const char *name;
    enum verb_group group;
    const char *summary; /* one line, for the list of verbs */
    const char *details; /* paragraphs for its own help, or NULL */
    const struct tn_fields *options;
    size_t options_size; /* of the struct that the options fill */
    const char *doing;   /* what is said of it when it takes long; NULL: it says that itself, or
                          * prints all the time */
    /* The exit status of the program, or -1 with err (then the code of err decides). */
    int (*run)(struct cli *cli, const void *options, struct tn_error *err);
};

/* All of them, in the order of the help text; NULL at the end. */
extern const struct verb *const verbs[];

/* The verb, or NULL with err, which names the nearest one. */
const struct verb *find_verb(const char *name, struct tn_error *err);

/* What `tendon help` and `tendon help VERB` (or `tendon VERB --help`) say. */
void put_program_help(struct tn_buf *out);
void put_verb_help(const struct verb *v, struct tn_buf *out);

/* Words that stand for something on the command line; completions know what to offer. */
#define VALUE_SANDBOX "SANDBOX" /* .value of a positional row: id or name of a sandbox */
#define VALUE_PLACE "PLACE"     /* the same of `cp`: PATH here, or SANDBOX:PATH */

#endif
