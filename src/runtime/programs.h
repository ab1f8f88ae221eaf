/* Programs: where our own lie, and what one says. */
#ifndef TN_RUNTIME_PROGRAMS_H
#define TN_RUNTIME_PROGRAMS_H

#include "base/buf.h"
#include "base/child.h"
#include "base/error.h"

/* Absolute path of the program: the given one, or the first of: beside the running program, in
 * ../lib/tendon from there, in $PATH.  The caller frees it; NULL with err. */
char *tn_program_find(const char *name, const char *given, struct tn_error *err);

/* What a person types to start the running program again: its name if PATH leads to it, or else the
 * path that it was started by.  The caller frees it. */
char *tn_program_called(void);

/* Runs it: what it prints goes to words (what does not fit is lost).  Its exit code, or -1. */
int tn_program_ask(const char *file, const char *const *argv, struct tn_buf *words,
                   int64_t deadline, struct tn_error *err);
/* The same with descriptors of this process beside its output. */
int tn_program_ask_with(const char *file, const char *const *argv, const struct tn_child_fd *given,
                        size_t count, struct tn_buf *words, int64_t deadline, struct tn_error *err);

#endif
