/* The file system of one sandbox, as written down in its directory.
 *
 *     jail.json   this: what lies below, which layers, which snapshots; replaced as a whole
 *     upper/      changed files (disk limit: saved here while it does not run)
 *     work/       overlayfs's own
 *     discarded-N/  on its way out
 *
 * A change that takes several steps is written down before the first one; jail_storage_load
 * finishes or undoes what a killed process left. */
#ifndef TN_RUNTIME_JAIL_STORAGE_H
#define TN_RUNTIME_JAIL_STORAGE_H

#include "base/error.h"
#include "base/field.h"
#include "runtime/jail/image.h"

#define JAIL_STORAGE_FILE "jail.json"

struct jail_snapshot {
    char *name;
    struct tn_str_list layers; /* top first */
};

struct jail_storage {
    /* Below all layers: one of these. */
    char *root;              /* a directory with a root file system */
    struct jail_image image; /* layers of an image */
    bool host;               /* the system directories of this machine */

    struct tn_str_list layers; /* top first; below upper */
    struct jail_snapshot *snapshots;
    size_t snapshot_count;

    double ran; /* seconds that it ran before it was started last */

    char *making;               /* a layer that is being copied; belongs to nothing yet */
    char *folding;              /* a layer that upper is becoming: then the first of layers */
    bool discard;               /* upper does not count any more and has to go */
    struct tn_str_list leaving; /* layers that are not needed any more */
};

void jail_storage_init(struct jail_storage *s);
void jail_storage_done(struct jail_storage *s);
#define jail_autostorage TN_CLEANUP(jail_storage_done)

/* TN_E_NOT_FOUND when the sandbox has none.  Under the sandbox's lock. */
int jail_storage_load(const char *state, const char *directory, const char *sandbox,
                      struct jail_storage *s, struct tn_error *err);
int jail_storage_save(const char *directory, const struct jail_storage *s, struct tn_error *err);
/* Exactly what is written, without repairing anything. */
int jail_storage_read(const char *directory, struct jail_storage *s, struct tn_error *err);

struct jail_snapshot *jail_storage_find(const struct jail_storage *s, const char *name);
void jail_storage_add(struct jail_storage *s, const char *name, const struct tn_str_list *layers);
void jail_storage_drop(struct jail_storage *s, const char *name);
/* Those of `layers` and of all snapshots, each once.  The caller ends it (jail_list_done). */
struct tn_str_list jail_storage_all_layers(const struct jail_storage *s);
/* Moves those of the layers that neither `layers` nor a snapshot needs to `leaving`. */
void jail_storage_release(struct jail_storage *s, const struct tn_str_list *layers);
/* Does what is written down as to be done, and then writes that it is. */
int jail_storage_settle(const char *state, const char *directory, const char *sandbox,
                        struct jail_storage *s, struct tn_error *err);

/* A copy with `top` (may be NULL) before all others. */
struct tn_str_list jail_list_copy(const char *top, const struct tn_str_list *list);
void jail_list_done(struct tn_str_list *list);

/* Moves upper and work out of the way (the launcher removes them after the next start) and makes
 * sure that there is an empty upper. */
int jail_storage_empty(const char *directory, struct tn_error *err);
/* Removes what was moved out of the way, now. */
void jail_storage_clear_trash(const char *directory);

#endif
