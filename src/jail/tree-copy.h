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
/* Only counts: an empty file as 4 KiB, one with several names once.  It may change meanwhile.
 * TN_E_TIMEOUT: the count is of what was seen in time. */
int tn_tree_measure(int fd, int64_t deadline, struct tn_tree_count *count, struct tn_error *err);

/* What somebody took pains to hide weighs: more than any limit. */
#define TN_TREE_HIDDEN (UINT64_C(1) << 40)

/* The same in pieces.  A walk has open the directories from the top to where it is, at most 128, so
 * that renaming them does not lead it astray. */
struct tn_tree_walk *tn_tree_walk_new(int fd, struct tn_error *err);
/* Whether that is the directory it began at. */
bool tn_tree_walk_is_of(const struct tn_tree_walk *w, int fd);
/* Goes on until the deadline; *count is of all that was seen so far.  0: that is everything;
 * TN_E_TIMEOUT: there is more. */
int tn_tree_walk_on(struct tn_tree_walk *w, int64_t deadline, struct tn_tree_count *count,
                    struct tn_error *err);
void tn_tree_walk_free(struct tn_tree_walk *w);

#endif
