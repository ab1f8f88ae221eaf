/* A verb of the `tendon` program: `tendon run`, `tendon help`, ...  One file per verb. */
#ifndef TN_CLI_VERB_H
#define TN_CLI_VERB_H

#include "base/error.h"
#include "base/field.h"

struct verb {
    const char *name;
    const char *summary; /* one line, for the list of verbs */
    const char *details; /* a paragraph for its own help, or NULL */
    const struct tn_fields *options;
    size_t options_size; /* of the struct that the options fill */
    /* The exit status of the program, or -1 with err (then the code of err decides). */
    int (*run)(const void *options, struct tn_error *err);
};

extern const struct verb verb_help;
extern const struct verb verb_run;
extern const struct verb verb_version;

/* All of them, in the order of the help text; NULL at the end. */
extern const struct verb *const verbs[];

/* The verb, or NULL with err, which names the nearest one. */
const struct verb *find_verb(const char *name, struct tn_error *err);

/* What `tendon help` and `tendon help VERB` (or `tendon VERB --help`) say. */
void put_program_help(struct tn_buf *out);
void put_verb_help(const struct verb *v, struct tn_buf *out);

#endif
