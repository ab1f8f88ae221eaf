/* Actions that wait for their confirmation, at a terminal. */
#ifndef TN_CLI_ASK_H
#define TN_CLI_ASK_H

#include "cli/cli.h"
#include "runtime/pending.h"

/* Shows the action on standard error: why it waits, what it would do, the lines of an edit. */
void ask_show(const char *sandbox, const char *directory, const struct tn_pending *p);
/* Whether a person can be asked: standard input and standard error are a terminal. */
bool ask_can(const struct cli *cli);
/* Asks until there is a line, or nobody may answer any more: then it still awaits it. */
enum tn_confirmation ask_person(const struct tn_pending *p);

/* The function for tn_runtime_options.ask; ctx is the struct cli. */
enum tn_confirmation ask_at_terminal(void *ctx, const char *sandbox, const char *directory,
                                     const struct tn_pending *p);

#endif
