/* Which names an address was given for, and how long that holds.
 *
 * The table lies in a file in memory that the keeper owns, so that it outlives a gate that is
 * killed or has nothing to do.  It has a fixed size: the entry that would be over soonest makes
 * room.  What a gate left half written is not taken for an entry. */
#ifndef TN_GATE_PINS_H
#define TN_GATE_PINS_H

#include "gate/rules.h"

struct tn_pins;

/* A file for the table, or -1. */
int tn_pins_create(struct tn_error *err);
/* Maps it; NULL with err.  The file is still the caller's. */
struct tn_pins *tn_pins_open(int fd, struct tn_error *err);
void tn_pins_close(struct tn_pins *p);

void tn_pins_add(struct tn_pins *p, const struct tn_address *a, const char *name, int64_t until);
bool tn_pins_have(const struct tn_pins *p, const struct tn_address *a, const char *name,
                  int64_t now);
/* Calls fn for each name of the address. */
void tn_pins_each(const struct tn_pins *p, const struct tn_address *a, int64_t now,
                  void (*fn)(const char *name, void *ctx), void *ctx);

#endif
