/* Copying files and directories between here and a sandbox.
 *
 * Everything streams; symbolic links stay links, permission bits stay (what comes out of a sandbox
 * loses set-uid, set-gid and sticky bits).  Nothing that a sandbox says leads a write outside the
 * destination.  Other kinds of files are skipped and counted in a directory, and refused when they
 * are what was named. */
#ifndef TN_CLI_COPY_H
#define TN_CLI_COPY_H

#include <stdint.h>

#include "base/error.h"
#include "runtime/hand-files.h"

struct copy {
    struct tn_hand_files *files;
    int64_t bytes, count, skipped; /* so far */
    int64_t total;                 /* bytes in all, or -1 */
};

/* The file or directory `path` here becomes `to` inside. */
int copy_in(struct copy *c, const char *path, const char *to, struct tn_error *err);
/* The file or directory `from` inside becomes `name` in the directory dir here. */
int copy_out(struct copy *c, const char *from, int dir, const char *name, struct tn_error *err);

/* A stream: what fd gives becomes the file; the file goes to fd. */
int copy_stream_in(struct copy *c, int fd, const char *to, struct tn_error *err);
int copy_stream_out(struct copy *c, const char *from, int fd, struct tn_error *err);

#endif
