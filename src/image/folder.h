/* A build folder: everything that `docker build DIR` needs, on any machine. */
#ifndef TN_IMAGE_FOLDER_H
#define TN_IMAGE_FOLDER_H

#include "base/error.h"

/* Writes the Dockerfile to the directory (made if missing), after the files of context (walk.h),
 * which may be NULL.  What is there under the same names is replaced, the rest
 * stays.  -1 (TN_E_INVALID) when the directory is the context or lies in it. */
int tn_folder_write(const char *directory, const char *dockerfile, const char *context,
                    struct tn_error *err);

#endif
