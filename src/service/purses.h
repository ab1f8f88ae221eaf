/* Bytes of memory that requests may hold: together, those of one tenant, and those of clients
 * without a key. */
#ifndef TN_SERVICE_PURSES_H
#define TN_SERVICE_PURSES_H

#include "base/purse.h"

struct purses;

/* bytes: for all together; a tenant has half of them, all strangers a sixteenth. */
struct purses *purses_new(size_t bytes);
void purses_free(struct purses *all); /* when all are released */

/* The purse of a tenant; "" is that of strangers.  Released when nothing is held any more. */
struct tn_purse *purse_get(struct purses *all, const char *tenant);
void purse_release(struct purses *all, struct tn_purse *purse);

#endif
