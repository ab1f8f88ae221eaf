/* Copying a tree of files as it is: modes, owners, times, attributes, hard links, holes, whiteouts.
 *
 * What is copied holds still meanwhile (its sandbox is frozen or dead), but nobody vouches for its
 * content: names are never followed, and depth and sizes cost only time.  A second thread fills
 * files while the first one creates them, which is most of the work when they are many and small.
 */
#ifndef TN_JAIL_TREE_COPY_H
#define TN_JAIL_TREE_COPY_H

#include <stdint.h>
#include <sys/stat.h>

#include "base/error.h"

struct tn_tree_count {
    uint64_t files; /* and directories, links, ... */
    uint64_t bytes; /* of disk space, about */
};

/* What a file takes: an inode costs, too, also that of an empty one. */
static inline uint64_t tn_tree_bytes(const struct stat *st)
{
    uint64_t bytes = (uint64_t)st->st_blocks * 512;

    return bytes > 4096 ? bytes : 4096;
}

/* Everything in `from` into the empty directory `to`, whose own mode, owner and attributes become
 * those of `from`.  A directory that something is mounted on becomes an empty one.  Both are
 * descriptors for reading, borrowed.  count may be NULL. */
int tn_tree_copy(int from, int to, int64_t deadline, struct tn_tree_count *count,
                 struct tn_error *err);
/* Only counts, an empty file as 4 KiB.  It may change meanwhile.
 * TN_E_TIMEOUT: the count is of what was seen in time. */
int tn_tree_measure(int fd, int64_t deadline, struct tn_tree_count *count, struct tn_error *err);

#endif
