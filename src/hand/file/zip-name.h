/* Names in archives, made safe to be used as paths below a directory. */
#ifndef TN_HAND_FILE_ZIP_NAME_H
#define TN_HAND_FILE_ZIP_NAME_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/error.h"

/* Directories in one name. */
#define ZIP_NAME_DEPTH 100

/* Checks the name of an entry and replaces out by it, in UTF-8 and without the final slash that
 * marks a directory (*is_dir says so).  utf8 is what the entry says about its name; without it the
 * bytes are taken for UTF-8 when they are that, else for code page 437.  -1 with err for anything
 * that is not a plain relative path: absolute, with `..`, `.` or empty parts, backslashes, drive
 * letters, control characters, too long or too deep. */
int zip_name(const char *bytes, size_t n, bool utf8, struct tn_buf *out, bool *is_dir,
             struct tn_error *err);

#endif
