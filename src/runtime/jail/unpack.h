/* A tar becomes a directory: the root file system of a jail, or one layer of an image.
 *
 * Nobody vouches for the archive.  Every path is resolved inside the directory by the kernel, so
 * neither "..", nor an absolute name, nor a link leads out of it; nothing that exists is written
 * through; devices are left out; attributes are taken only from the user namespace and never those
 * that overlayfs gives a meaning to; sizes and numbers have limits. */
#ifndef TN_RUNTIME_JAIL_UNPACK_H
#define TN_RUNTIME_JAIL_UNPACK_H

#include <stdint.h>

#include "base/error.h"
#include "runtime/jail/tar-stream.h"

struct jail_unpack {
    int root;         /* an empty directory, borrowed */
    bool layer;       /* .wh. names are whiteouts */
    uint64_t bytes;   /* of content at most */
    uint64_t entries; /* at most */
    int64_t deadline;
};

int jail_unpack(struct jail_tar *tar, const struct jail_unpack *how, struct tn_error *err);

#endif
