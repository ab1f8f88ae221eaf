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

/* The members of the JSON object that ls and inspect print; never the key. */
void put_record(struct tn_jw *w, const struct tn_record *r);
/* -1 is null. */
void put_usage(struct tn_jw *w, const struct tn_usage *u);
/* A member that is JSON text in the store; null when it is none. */
void put_raw(struct tn_jw *w, const char *key, const char *json);

/* The name or id of a new sandbox on a line of its own. */
int print_new(struct cli *cli, struct tn_sandbox *sb, struct tn_error *err);

#endif
