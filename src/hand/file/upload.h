/* POST /upload_file without its HTTP. */
#ifndef TN_HAND_FILE_UPLOAD_H
#define TN_HAND_FILE_UPLOAD_H

#include <stdbool.h>

#include "base/error.h"
#include "hand/file/path.h"
#include "hand/file/zip-read.h"
#include "net/multipart.h"

struct tn_upload {
    const char *destination; /* absolute; made when missing */
    const char *filename;    /* as sent; only what follows its last slash counts */
    bool recursive;          /* the file must be an archive */
    const struct tn_file_user *user;
    const struct tn_zip_limits *limits; /* NULL: TN_ZIP_LIMITS_DEFAULT */
};

/* Stores the bytes of source in destination under the file's name, in one step; or unpacks them
 * there when the name ends in `.zip`.  A new file belongs to the user and has mode 0644; a file
 * that is replaced leaves its mode and owner to its successor, a symbolic link does not.  With the
 * server's rights, in constant memory.  The code of err says which HTTP status a refusal deserves
 * (400 for both texts of the specification). */
int tn_upload(const struct tn_upload *upload, tn_source_fn source, void *ctx, struct tn_error *err);

#endif
