/* The network of a jail that has one behind a gate (src/gate), as the keeper sees it. */
#ifndef TN_JAIL_GATE_H
#define TN_JAIL_GATE_H

#include <poll.h>

#include "jail/jail.h"

/* Which descriptors the keeper polls for it: sockets of the wall, then these. */
enum { JAIL_GATE_END = 4, JAIL_GATE_SAYS, JAIL_GATE_POLLS };

bool jail_is_gated(const struct jail *j);
/* In the launcher: what every gate of this jail will be given. */
int jail_gate_begin(struct jail *j, struct tn_error *err);
/* New rules are in TN_JAIL_RULES of the directory.  The gate that runs gets them, and connections
 * that it has stay. */
int jail_gate_reload(struct jail *j, struct tn_error *err);
/* At the end of the jail. */
void jail_gate_end(struct jail *j);

/* Fills p; returns when it wants to be called again. */
int64_t jail_gate_watch(const struct jail *j, struct pollfd p[JAIL_GATE_POLLS]);
void jail_gate_serve(struct jail *j, const struct pollfd p[JAIL_GATE_POLLS]);
/* Takes what the gate has said. */
void jail_gate_listen(struct jail *j);
/* The answer to TN_KEEPER_NETWORK. */
void jail_gate_tell(struct jail *j, struct tn_jw *w);

#endif
