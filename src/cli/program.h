/* This program, to be started again: by whoever replaced its file meanwhile. */
#ifndef TN_CLI_PROGRAM_H
#define TN_CLI_PROGRAM_H

#include "base/error.h"

struct program;
/* File and arguments of this process; asked at the start, before the file can be replaced. */
struct program *program_here(struct tn_error *err);
void program_free(struct program *p);
/* Runs it with the same arguments and --check: 0 when that succeeds. */
int program_check(const struct program *p, struct tn_error *err);
/* Becomes it.  Returns only when that fails. */
void program_exec(const struct program *p, struct tn_error *err);

#endif
