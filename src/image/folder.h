/* A build folder: everything that `docker build DIR` needs, on any machine. */
#ifndef TN_IMAGE_FOLDER_H
#define TN_IMAGE_FOLDER_H

#include "base/error.h"

/* Writes the Dockerfile to the directory (made if missing), after the files of context, which may
 * be NULL.  A Dockerfile of the context is left out, links stay links, sockets and devices are left
 * out: as tn_context_new sends them.  What is there under the same names is replaced, the rest
 * stays.  -1 (TN_E_INVALID) when the directory is the context or lies in it. */
int tn_folder_write(const char *directory, const char *dockerfile, const char *context,
                    struct tn_error *err);

#endif
