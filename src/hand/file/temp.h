/* Temporary things inside directories of the user: named so that they can be told apart, announced
 * to the journal before they exist. */
#ifndef TN_HAND_FILE_TEMP_H
#define TN_HAND_FILE_TEMP_H

#include "base/error.h"
#include "base/fs.h"

struct temp {
    char name[48]; /* in the directory */
    char *path;    /* announced, or NULL */
    const struct tn_fs_journal *journal;
};

/* Invents a name in dir and announces it; journal may be NULL.  Nothing is made yet. */
int temp_announce(struct temp *t, int dir, const struct tn_fs_journal *journal,
                  struct tn_error *err);
/* What had the name is gone, or has become something else. */
void temp_withdraw(struct temp *t);

/* An open file in dir that has no name. */
int temp_unlinked(int dir, struct tn_error *err);

#endif
