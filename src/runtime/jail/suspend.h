/* Suspend to disk with CRIU: processes and memory of a jail become files in its directory. */
#ifndef TN_RUNTIME_JAIL_SUSPEND_H
#define TN_RUNTIME_JAIL_SUSPEND_H

#include "runtime/jail/jail.h"

/* Path of the program criu, on the heap; NULL when there is none. */
char *jail_criu_find(void);

/* The running jail ends up in JAIL_SUSPENDED.  When that fails it runs on as before. */
int jail_suspend(struct jail_engine *e, const struct tn_subject *subject, int64_t deadline,
                 struct tn_error *err);
/* The suspended jail runs again, where it was. */
int jail_wake(struct jail_engine *e, const struct tn_subject *subject, struct tn_place *place,
              int64_t deadline, struct tn_error *err);

#endif
