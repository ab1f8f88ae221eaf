/* Changing a file as the sandbox's user would. */
#ifndef TN_HAND_FILE_REPLACE_H
#define TN_HAND_FILE_REPLACE_H

#include "base/error.h"
#include "hand/file/path.h"
#include "hand/file/text.h"

/* Gives the file new contents, in one step where that can be, with the user's rights.  A file that
 * exists keeps mode, owner and attributes; a new one has exactly the mode given, belongs to the
 * user, and gets its missing parent directories (mode 0755).  -1 with err; the file is then as it
 * was. */
int file_replace(const struct tn_file_user *user, const char *path, struct tn_slice bytes,
                 mode_t mode, struct tn_error *err);

/* Removes a file; a symbolic link to it stays. */
int file_remove(const struct tn_file_user *user, const char *path, struct tn_error *err);

#endif
