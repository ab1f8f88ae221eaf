/* Files of private keys that a user names: who else may have a hand in them. */
#ifndef TN_BASE_KEY_FILE_H
#define TN_BASE_KEY_FILE_H

#include "base/buf.h"
#include "base/error.h"

enum { TN_KEY_FILE_MAX = 64 << 10 };

enum tn_key_file_others {
    TN_KEY_FILE_OURS,    /* nobody else may read it, as ssh has it */
    TN_KEY_FILE_READABLE /* others may read it: keys that are handed out by group or by mount */
};

/* Reads the whole file into out, which is TN_KEY_FILE_INIT.  It must be a regular file of the
 * user's own or of root's that nobody else can write: else -1 with TN_E_DENIED, which says what to
 * do about it. */
int tn_key_file_read(const char *path, enum tn_key_file_others others, struct tn_buf *out,
                     struct tn_error *err);

#define TN_KEY_FILE_INIT TN_BUF_INIT(TN_KEY_FILE_MAX)
#define tn_autokeyfile TN_CLEANUP(tn_key_file_done)

/* Wipes the key, then frees it. */
void tn_key_file_done(struct tn_buf *text);

#endif
