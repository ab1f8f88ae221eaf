/* This program, to be started again: by whoever replaced its file meanwhile. */
#ifndef TN_CLI_PROGRAM_H
#define TN_CLI_PROGRAM_H

#include "base/error.h"

struct own_program;
/* File and arguments of this process; asked at the start, before the file can be replaced. */
struct own_program *own_program_here(struct tn_error *err);
void own_program_free(struct own_program *p);
/* Runs it with the same arguments and --check: 0 when that succeeds. */
int own_program_check(const struct own_program *p, struct tn_error *err);
/* Becomes it.  Returns only when that fails. */
void own_program_exec(const struct own_program *p, struct tn_error *err);

#endif
