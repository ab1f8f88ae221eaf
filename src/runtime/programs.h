/* Where our own programs lie. */
#ifndef TN_RUNTIME_PROGRAMS_H
#define TN_RUNTIME_PROGRAMS_H

#include "base/error.h"

/* Absolute path of the program: the given one, or the first of: beside the running program, in
 * ../lib/tendon from there, in $PATH.  The caller frees it; NULL with err. */
char *tn_program_find(const char *name, const char *given, struct tn_error *err);

/* What a person types to start the running program again: its name if PATH leads to it, or else the
 * path that it was started by.  The caller frees it. */
char *tn_program_called(void);

#endif
