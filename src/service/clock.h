/* Time of day for what is kept: when a box was made, used, and when it ends.
 *
 * Taken from the wall clock once and then moved by the clock that nobody sets, so that an
 * administrator, or a machine that learns the time late, cannot make a thousand sandboxes old in a
 * moment.  Waits use base/clock.h. */
#ifndef TN_SERVICE_CLOCK_H
#define TN_SERVICE_CLOCK_H

#include "base/json.h"
#include "runtime/database.h"

/* Seconds since 1970. */
double service_time(void);
/* Writes such a time as member `key`; 0 is never: null. */
void put_time(struct tn_jw *w, const char *key, double time);

/* Goes on from what the last service of this boot has kept, when the wall clock has been set since
 * then; before any time is read.  service_clock_keep writes it down again, now and then. */
int service_clock_start(struct tn_db *db, struct tn_error *err);
/* For another program beside it: its time from now on, as far as it was kept. */
int service_clock_join(struct tn_db *db, struct tn_error *err);
int service_clock_keep(struct tn_db *db, struct tn_error *err);

/* What it is made of.  `up` is the time since boot. */
struct clock_note {
    double time, up;
    char boot[40];
};
/* The time to go on with at `now`, given what was kept (boot "": nothing). */
double clock_go_on(const struct clock_note *kept, const struct clock_note *now);

#endif
