/* The server's directory of its own, and what a killed server leaves behind.
 *
 * The directory holds outputs, undo history and a journal of temporary paths elsewhere.  A lock
 * file in it is held for as long as the process lives, so any later start can tell a dead server's
 * directory and clean up: its processes (known by their TENDON_HAND variable), its temporary paths,
 * its directory. */
#ifndef TN_HAND_STATE_H
#define TN_HAND_STATE_H

#include <sys/types.h>

#include "base/error.h"
#include "base/fs.h"

struct tn_state;

/* Cleans up after the dead, then makes a directory below `parent` (NULL: $TMPDIR or /tmp), unless
 * this is PID 1: all that must be there before the first process that carries the mark. */
struct tn_state *tn_state_new(const char *parent, struct tn_error *err);
/* The rest of it, before the first action: the outputs, which group may enter and read, and the
 * journal. */
int tn_state_complete(struct tn_state *s, gid_t group, struct tn_error *err);
/* Removes the directory. */
void tn_state_free(struct tn_state *s);

const char *tn_state_id(const struct tn_state *s); /* the value of TENDON_HAND */
const char *tn_state_outputs(const struct tn_state *s);
const char *tn_state_undo(const struct tn_state *s); /* for the editor, which makes it */
/* A directory in it, made when it is not there yet, that nobody but this user (and root) can enter.
 * The caller frees the path; NULL with err. */
char *tn_state_private(const struct tn_state *s, const char *name, uid_t uid, gid_t gid,
                       struct tn_error *err);

/* Where temporary paths are announced before they exist. */
const struct tn_fs_journal *tn_state_journal(const struct tn_state *s);

#endif
