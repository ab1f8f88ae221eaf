/* One file of a tree that is copied: between the files of tree-copy. */
#ifndef TN_JAIL_TREE_FILE_H
#define TN_JAIL_TREE_FILE_H

#include <stdint.h>
#include <sys/stat.h>

#include "base/error.h"

/* A directory of the source that files still have to be read from. */
struct tree_dir {
    int fd;
    int references; /* atomic */
};
void tree_dir_ref(struct tree_dir *dir);
void tree_dir_unref(struct tree_dir *dir);

/* Who copies. */
struct tree_self {
    uid_t uid;
    gid_t gid;
};

/* A regular file that has been created and waits for its content. */
struct tree_job {
    struct tree_dir *dir; /* a reference */
    char *name;           /* owned */
    struct stat st;       /* of the source */
    int to;               /* the new file, owned */
    const struct tree_self *self;
    unsigned late_mode; /* mode bits that creating it could not set */
};

/* Content, owner, attributes, mode and time; ends the job in every case. */
int tree_fill(struct tree_job *job, struct tn_error *err);

/* Goes up: a descriptor of the directory above, which must be the inode. */
int tree_open_above(int fd, ino_t inode, struct tn_error *err);

/* Attributes of an open file, one by one; those that overlayfs keeps about an upper layer alone are
 * left out. */
struct tree_xattr {
    const char *name, *value;
    size_t size;
    bool structure; /* of the layers: it must not be lost */
};
typedef int (*tree_xattr_fn)(const struct tree_xattr *x, void *ctx, struct tn_error *err);
int tree_each_xattr(int fd, tree_xattr_fn fn, void *ctx, struct tn_error *err);
/* The same attributes from one open file to the other. */
int tree_copy_xattrs(int from, int to, struct tn_error *err);
/* Nothing when it is right already. */
int tree_copy_owner(int to, const struct stat *st, const struct tree_self *self);

/* --- tree-queue.c: the second thread -------------------------------------------------------- */

struct tree_queue;

/* Never fails: without a second thread the caller does everything. */
struct tree_queue *tree_queue_new(int64_t deadline);
/* Takes the job over.  May do a job itself.  -1 when any job so far has failed. */
int tree_queue_add(struct tree_queue *q, struct tree_job *job, struct tn_error *err);
/* Waits for all jobs; -1 with the first failure.  Frees q. */
int tree_queue_end(struct tree_queue *q, struct tn_error *err);

#endif
