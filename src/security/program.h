/* Analyzers that are programs of their own: executables tendon-analyzer-NAME that answer JSON-RPC
 * 2.0, one object per line, on their standard input and output (docs/analyzers.md).
 *
 * One is started with its first question and has an environment without secrets.  What breaks it is
 * its own: the question is answered with unknown, and the next one starts it anew. */
#ifndef TN_SECURITY_PROGRAM_H
#define TN_SECURITY_PROGRAM_H

#include "security/analyzer.h"

/* Its path on the heap, or NULL: there is none. */
char *security_program_find(const struct tn_security_settings *s, const char *name);
/* Calls fn with the name of each that there is. */
void security_program_each(const struct tn_security_settings *s, void (*fn)(const char *, void *),
                           void *ctx);

/* The program at that path; starts nothing yet.  *table is its own, and lives as long; table->close
 * ends it. */
void *security_program_new(const struct tn_security_settings *s, const char *name, const char *path,
                           const struct tn_analyzer **table);

#endif
