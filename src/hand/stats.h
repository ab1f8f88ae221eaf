/* What /server_info tells: the server's own use of the machine. */
#ifndef TN_HAND_STATS_H
#define TN_HAND_STATS_H

#include "base/json.h"

/* Writes the stats object.  CPU use is taken over the time since the previous call: nothing sleeps.
 */
void tn_stats_write(struct tn_jw *w);

#endif
