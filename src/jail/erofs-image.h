/* An image while it is written: between the files of erofs-*.
 *
 * Places are given away from front to back; what lies in them may come later and in any order. */
#ifndef TN_JAIL_EROFS_IMAGE_H
#define TN_JAIL_EROFS_IMAGE_H

#include <stdint.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/error.h"
#include "jail/tree-file.h"

struct erofs_image {
    int fd;          /* borrowed */
    uint64_t end;    /* everything before it is given away; a multiple of a block */
    uint64_t piece;  /* where the piece of inodes that is in memory belongs, ... */
    size_t room;     /* ... its size, ... */
    size_t used;     /* ... and how much of it is given away */
    char *bytes;     /* the piece */
    uint64_t inodes; /* so far */
};

/* Where an inode and its content are. */
struct erofs_place {
    uint64_t nid;
    uint64_t content;
};

/* The file is empty. */
void erofs_image_begin(struct erofs_image *image, int fd);
/* The first inode that was added is the root. */
int erofs_image_end(struct erofs_image *image, struct erofs_place root, struct tn_error *err);
void erofs_image_done(struct erofs_image *image);

/* One more inode with one name and the mode, owner, time and device of st; its content will have
 * `size` bytes.  xattrs is what erofs_xattr_add wrote. */
int erofs_image_add(struct erofs_image *image, const struct stat *st, const struct tn_buf *xattrs,
                    uint64_t size, struct erofs_place *out, struct tn_error *err);
/* Content, or a part of it, at a position of the image. */
int erofs_image_put(struct erofs_image *image, uint64_t at, const void *bytes, size_t n,
                    struct tn_error *err);
/* It has that many names. */
int erofs_image_set_links(struct erofs_image *image, uint64_t nid, uint32_t links,
                          struct tn_error *err);

/* A tree_xattr_fn; ctx is a struct tn_buf whose maximum is EROFS_XATTRS_MAX.  Attributes that the
 * format has no name for are lost, as on any other file system. */
int erofs_xattr_add(const struct tree_xattr *x, void *ctx, struct tn_error *err);

/* --- erofs-dir.c: the content of a directory -------------------------------------------------- */

struct erofs_entry {
    char *name;         /* owned */
    unsigned char type; /* DT_... */
    uint64_t nid;       /* 0: not known yet */
};

struct erofs_dir {
    struct erofs_entry *entries;
    size_t count, room;
};

void erofs_dir_add(struct erofs_dir *dir, const char *name, unsigned char type);
/* Once all of them are there, "." and ".." too. */
void erofs_dir_sort(struct erofs_dir *dir);
uint64_t erofs_dir_size(const struct erofs_dir *dir);
/* Once every nid is known. */
int erofs_dir_put(const struct erofs_dir *dir, struct erofs_image *image, struct erofs_place place,
                  struct tn_error *err);
void erofs_dir_done(struct erofs_dir *dir);

#endif
