/* POST /list_files without its HTTP. */
#ifndef TN_HAND_FILE_LIST_H
#define TN_HAND_FILE_LIST_H

#include <stdint.h>

#include "base/error.h"
#include "hand/file/text.h"

/* Called for each name in order; non-zero stops. */
typedef int (*tn_list_fn)(const char *name, void *ctx);

/* The names in a directory: directories first, with a slash at the end, then the rest, each sorted
 * without regard to (ASCII) case.  Hidden ones are included, dangling links left out.  A relative
 * or missing path (s is NULL) is taken from workdir.  With the server's rights.  -1 with err when
 * there is no such directory, it has more than 16 MiB of names, or the deadline passes: then fn has
 * not been called.  A non-zero answer of fn is the result. */
int tn_file_list(struct tn_slice path, const char *workdir, int64_t deadline, tn_list_fn fn,
                 void *ctx, struct tn_error *err);

#endif
