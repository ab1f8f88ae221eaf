/* Where the time of a request goes, for the header Server-Timing (W3C) of its answer.
 *
 * A request belongs to one thread, and so do these times. */
#ifndef TN_SERVICE_TIMING_H
#define TN_SERVICE_TIMING_H

#include <stddef.h>
#include <stdint.h>

enum timing_part {
    TIMING_QUEUE,   /* in line, before a start */
    TIMING_BACKEND, /* for what makes, changes or is the sandbox, the store not counted */
    TIMING_PARTS,
};

/* A request of this thread begins. */
void timing_begin(void);
/* From here on it waits for that, until timing_leave.  Whoever calls it meanwhile changes nothing
 * about that. */
void timing_enter(enum timing_part part);
void timing_leave(void);

/* "queue;dur=0.00, store;dur=0.12, backend;dur=3.10, total;dur=3.51", milliseconds until now; what
 * took no time is left out. */
enum { TIMING_TEXT = 160 };
void timing_tell(char out[TIMING_TEXT]);

#endif
