/* The network of a jail that has one behind a gate: j->gate (gate/keeper.h), filled by the plan. */
#ifndef TN_JAIL_GATE_H
#define TN_JAIL_GATE_H

#include "jail/jail.h"

bool jail_is_gated(const struct jail *j);
/* In the launcher: what every gate of this jail will be given. */
int jail_gate_begin(struct jail *j, struct tn_error *err);
/* The kernel cannot have one: the plan is a network of its own, from now on. */
void jail_gate_do_without(struct jail *j);
/* New rules are in TN_JAIL_RULES of the directory. */
int jail_gate_reload(struct jail *j, struct tn_error *err);

#endif
