/* The store of layers: changed files that sandboxes share and never write to.
 *
 *     STATE/layers/LAYER/tree            what was an upper directory at some time: a directory, or
 *                                        a file that is an image of one (jail/erofs.h)
 *     STATE/layers/LAYER/writing         an image that is not complete
 *     STATE/layers/LAYER/users/SANDBOX   one empty file for each sandbox that builds on it
 *     STATE/layers/LAYER/size            bytes of the files in tree, as text
 *     STATE/layers/gone-LAYER            on its way out
 *
 * LAYER is SANDBOX-NUMBER, with the sandbox that made it: a layer without `users` is one whose
 * maker was killed while it began, and counts as the maker's.  A sandbox joins the users of a layer
 * only while another user of it is locked, so the last user can remove it without asking anybody.
 */
#ifndef TN_RUNTIME_JAIL_LAYER_H
#define TN_RUNTIME_JAIL_LAYER_H

#include <stdint.h>

#include "base/error.h"
#include "base/field.h"

#define JAIL_LAYER_NAME 40
#define JAIL_LAYER_TREE "tree"

/* A new name; nothing is made yet, so that it can be written down first. */
int jail_layer_name(const char *sandbox, char out[JAIL_LAYER_NAME], struct tn_error *err);

/* Makes the layer with one user and without a tree.  Returns a descriptor of it, or -1. */
int jail_layer_make(const char *state, const char *layer, const char *sandbox,
                    struct tn_error *err);
/* The same with a tree, which is moved: the directory `name` of dir, of that size.  Whenever it is
 * killed, a tree that is there has its size. */
int jail_layer_take(const char *state, const char *layer, const char *sandbox, int dir,
                    const char *name, uint64_t bytes, struct tn_error *err);
int jail_layer_set_size(const char *state, const char *layer, uint64_t bytes, struct tn_error *err);
/* 0 when nobody knows. */
uint64_t jail_layer_size(const char *state, const char *layer);

bool jail_layer_exists(const char *state, const char *layer);
/* Path of the tree, on the heap. */
char *jail_layer_path(const char *state, const char *layer);

/* The sandbox becomes a user; TN_E_NOT_FOUND when there is no such layer. */
int jail_layer_join(const char *state, const char *layer, const char *sandbox,
                    struct tn_error *err);
/* It is one no more; the last one takes the layer along.  Nothing there is fine. */
int jail_layer_leave(const char *state, const char *layer, const char *sandbox,
                     struct tn_error *err);
/* Leaves every layer, for a sandbox that nothing is known about.  Looks at all of them. */
int jail_layer_leave_all(const char *state, const char *sandbox, struct tn_error *err);

/* Calls fn with each user of each layer (a user several times, perhaps), and clears what others
 * left half removed.  Non-zero from fn stops and is returned. */
typedef int (*jail_user_fn)(const char *sandbox, void *ctx);
int jail_layer_users(const char *state, jail_user_fn fn, void *ctx, struct tn_error *err);

/* Asks ext4 to place the directories that are made in this one far from each other.  Removing many
 * files and creating as many in the same place within minutes is ten times slower there. */
void jail_spread_directories(int dir);

#endif
