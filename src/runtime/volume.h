/* One entry of spec.volumes: HOST:INSIDE[:MODE].
 *
 * An absolute HOST is a bind mount; anything else names a volume of the engine ("volume:NAME" is
 * the long form).  MODE is a comma list of rw (default), ro, overlay (writes go to a throw-away
 * layer), z, Z. */
#ifndef TN_RUNTIME_VOLUME_H
#define TN_RUNTIME_VOLUME_H

#include <stdbool.h>

#include "base/error.h"

struct tn_volume {
    char *host;   /* absolute path, or name of a volume */
    char *inside; /* absolute */
    bool named, read_only, overlay;
    char *mode; /* as given, or "rw" */
};

int tn_volume_parse(const char *text, struct tn_volume *out, struct tn_error *err);
void tn_volume_done(struct tn_volume *v);
#define tn_autovolume TN_CLEANUP(tn_volume_done)

#endif
