/* What a sandbox reports of its limits, told in the observation of the command that met one:
 * "[The sandbox reports: out of memory: 1 process was killed (limit 64 MiB)]".
 *
 * A report is what the reason of a record is: sentences, with "; " between them.  Those of jails
 * stay there for as long as they are true, so whoever tells one remembers what was known before. */
#ifndef TN_RUNTIME_SANDBOX_REPORT_H
#define TN_RUNTIME_SANDBOX_REPORT_H

#include "event/observation.h"

/* What stands before it, in the suffix of a `run` and the content of an `error`; "]" ends it. */
#define TN_REPORT_BEGIN "\n[The sandbox reports: "

/* The sentences of a report that are not in the other one, or that are; on the heap, NULL for none.
 * Either report may be NULL. */
char *tn_report_without(const char *report, const char *other);
char *tn_report_shared(const char *report, const char *other);

/* Whether what was done has failed, so that a limit may be why. */
bool tn_report_is_due(const struct tn_observation *o);
/* Adds what the observation does not tell yet, whoever told it; nothing for NULL, or where it is
 * not due.  True when that changed it. */
bool tn_report_add(struct tn_observation *o, const char *report);
/* The last report that the observation tells, on the heap; NULL when there is none. */
char *tn_report_of(const struct tn_observation *o);

#endif
