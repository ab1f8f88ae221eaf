/* Where paths of peers may lead.
 *
 * Normally anywhere the rights allow.  A server that works in somebody's own directory is confined
 * to it (--confine): every path of file actions, transfers and /v1/files is first resolved as the
 * system would, must then lie beneath that directory, and is opened by its rest beneath a
 * descriptor of the directory (openat2 with RESOLVE_BENEATH), so that nothing that changes in
 * between leads out.  "/workspace" is another name of the directory; relative paths start in it.
 * Commands of the shell are not confined. */
#ifndef TN_HAND_FILE_CONFINE_H
#define TN_HAND_FILE_CONFINE_H

#include <stdbool.h>
#include <sys/stat.h>

#include "base/error.h"

/* Confines this process for good; called once, before there are threads that use files.  The
 * directory must exist. */
int tn_confine(const char *directory, struct tn_error *err);
bool tn_confined(void);

/* The path by which a confined server knows what a peer calls `path` (relative ones too); the same
 * path where it is not confined.  On the heap; NULL with TN_E_DENIED when it leads outside. */
char *tn_confined_path(const char *path, struct tn_error *err);

/* A path as base/fs.h wants it. */
struct tn_where {
    int root; /* a descriptor, or TN_FS_ANYWHERE */
    char *path;
};
static inline void tn_where_done(struct tn_where *w)
{
    free(w->path);
}
#define tn_autowhere TN_CLEANUP(tn_where_done)

enum tn_last {
    TN_LAST_FOLLOWED, /* a link at the end of the path stands for what it leads to */
    TN_LAST_ITSELF,
};

/* Finds an absolute path.  -1 with TN_E_DENIED and EACCES when it leads outside. */
int tn_where(const char *path, enum tn_last last, struct tn_where *out, struct tn_error *err);

/* tn_fs_open, stat, mkdir -p (the last directory as an O_PATH descriptor) and chmod on an absolute
 * path.  -1 with err and its errno. */
int tn_where_open(const char *path, int flags, struct tn_error *err);
int tn_where_stat(const char *path, struct stat *st, struct tn_error *err);
int tn_where_mkdirs(const char *path, mode_t mode, struct tn_error *err);
int tn_where_chmod(const char *path, mode_t mode, struct tn_error *err);

/* Opens `name` in the directory dir as openat does, but, when confined, through no link that leads
 * outside - nor out of dir, unless dir_path tells where dir is.  -1 with errno. */
int tn_where_openat(int dir, const char *dir_path, const char *name, int flags);

#endif
