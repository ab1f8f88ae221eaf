/* Plugins: abilities of the hand beyond shell and files, one row each.
 *
 * The table is where an ability plugs in: the actions it carries out and the routes it adds.  A row
 * without `start` is known by name, because hosts ask for it, but not built in: its actions answer
 * with its `missing` text. */
#ifndef TN_HAND_PLUGIN_H
#define TN_HAND_PLUGIN_H

#include "base/error.h"
#include "event/action.h"
#include "event/observation.h"
#include "net/http-server.h"

struct tn_hand;

struct tn_plugin {
    const char *name;
    const char *help;
    const char *missing; /* why its actions do not work; NULL when they do */
    int (*start)(struct tn_hand *hand, struct tn_error *err);
    void (*stop)(struct tn_hand *hand);
    const struct tn_route *routes; /* ended by {0}, or NULL */
};

/* The row with that name among those a host may ask for, or NULL. */
const struct tn_plugin *tn_plugin_find(const char *name);
/* All rows, ended by one without a name. */
extern const struct tn_plugin tn_plugins[];

#endif
