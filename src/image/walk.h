/* The files of a build context, one after the other: what is sent to a builder and what is copied
 * to a build folder is the same.  A Dockerfile at the top is left out, links stay links and are
 * never followed; sockets and devices are left out. */
#ifndef TN_IMAGE_WALK_H
#define TN_IMAGE_WALK_H

#include <dirent.h>
#include <sys/stat.h>

#include "base/error.h"

enum { TN_WALK_DEPTH = 64, TN_WALK_PATH = 4096 };

enum tn_walk_kind {
    TN_WALK_END,
    TN_WALK_FILE,
    TN_WALK_LINK,
    TN_WALK_DIRECTORY, /* what is in it comes next */
    TN_WALK_LEFT,      /* the end of a directory: st is what it was when it was entered */
};

struct tn_walk {
    /* What the last step found. */
    char path[TN_WALK_PATH];   /* below the context */
    char target[TN_WALK_PATH]; /* of a link */
    struct stat st;
    int file; /* open for reading, or -1; the walk's to close unless it is taken */

    int depth; /* of levels, one open directory each; -1: none */
    struct {
        DIR *dir;
        size_t path_len; /* of the path down to it */
        struct stat st;
    } levels[TN_WALK_DEPTH];
};

/* directory may be NULL: nothing is there.  -1 with err; _done also then. */
int tn_walk_init(struct tn_walk *w, const char *directory, struct tn_error *err);
void tn_walk_done(struct tn_walk *w);
/* A kind, or -1 with err. */
int tn_walk_next(struct tn_walk *w, struct tn_error *err);

#endif
