/* What is known of a sandbox, for printing. */
#ifndef TN_CLI_RECORD_H
#define TN_CLI_RECORD_H

#include "cli/cli.h"

/* How people call it. */
const char *record_label(const struct tn_record *r);
/* "running" and the colour that fits. */
const char *status_word(enum tn_status status);
const char *status_style(enum tn_status status);
/* Seconds since then. */
double seconds_since(double time);

/* The name or id of a new sandbox on a line of its own. */
int print_new(struct cli *cli, struct tn_sandbox *sb, struct tn_error *err);

#endif
