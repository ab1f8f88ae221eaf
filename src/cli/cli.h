/* What every verb gets: the options that all verbs have, and what follows from them. */
#ifndef TN_CLI_CLI_H
#define TN_CLI_CLI_H

#include <stdbool.h>

#include "base/error.h"
#include "base/field.h"
#include "runtime/sandbox.h"

/* The options that may stand before and after every verb. */
struct globals {
    char *config;
    struct tn_str_list set;
    char *state;
    char *runtime;
    bool json, quiet;
};
extern const struct tn_fields global_fields;

struct cli {
    struct globals globals;
    bool json;           /* results as JSON on standard output, errors as JSON on standard error */
    bool quiet;          /* results and errors only */
    bool terminal_taken; /* the command reads it: nobody is asked there */
    struct cli_private *private;
};

void cli_init(struct cli *cli, const struct globals *given);
void cli_done(struct cli *cli);

/* All of these are made when first asked for, belong to cli, and are NULL with err when they cannot
 * be made.  The configuration has the flags --set, --state and --runtime in it. */
const struct tn_config *cli_config(struct cli *cli, struct tn_error *err);
struct tn_runtime *cli_runtime(struct cli *cli, struct tn_error *err);
/* The same for one who creates such a sandbox next. */
struct tn_runtime *cli_runtime_for(struct cli *cli, const struct tn_spec *expect,
                                   struct tn_error *err);

/* The sandbox of that id, name or prefix; which NULL: the only one there is.  The error for an
 * unknown one names the nearest, or says how to make one.  The caller frees it. */
struct tn_sandbox *cli_sandbox(struct cli *cli, const char *which, struct tn_error *err);

/* Its name, or else its id: how people call it. */
const char *sandbox_label(const struct tn_sandbox *sb);
/* Its host is a Service's name, which is known inside of the cluster alone. */
bool url_is_of_cluster(const char *url);

/* A spec from flags: those of the template (NULL: none), then those given on the command line,
 * which the caller has in `given` and which weigh more.  spec is initialised here. */
int cli_spec(struct cli *cli, const char *template, const struct tn_spec *given,
             struct tn_spec *spec, struct tn_error *err);

/* By when something that starts (stops) a sandbox must be done. */
int64_t cli_start_deadline(struct cli *cli);
int64_t cli_stop_deadline(struct cli *cli);

/* A sentence for people on standard error, unless --quiet or --json. */
void cli_note(const struct cli *cli, const char *fmt, ...) TN_PRINTF(2, 3);
/* What went wrong besides, also with --quiet. */
void cli_warn(const struct tn_error *err);

/* Prints the buffer and a line break on standard output. */
int cli_print(const struct tn_buf *text, struct tn_error *err);

#endif
