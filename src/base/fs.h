/* Files, without the classic traps: paths that escape, links that are followed, halves of files.
 *
 * `root` is a directory descriptor that a path may not leave, not by "..", not by a symbolic link,
 * absolute or not, not by a /proc link; a path then never starts with "/".  TN_FS_ANYWHERE instead
 * of a descriptor means no confinement: the path is taken as open(2) takes it (but links of /proc
 * are still refused where the kernel can).  Confinement needs openat2 (Linux 5.6); where it is
 * missing these functions fail with TN_E_UNSUPPORTED (but for "." itself, which needs none), they
 * never fall back to something weaker. */
#ifndef TN_BASE_FS_H
#define TN_BASE_FS_H

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/error.h"

#define TN_FS_ANYWHERE AT_FDCWD

/* Opens path beneath root; O_CLOEXEC and O_NOCTTY are added.  Returns the descriptor, or -1 (a path
 * that leads outside is TN_E_DENIED). */
int tn_fs_open(int root, const char *path, int flags, mode_t mode, struct tn_error *err);

/* Opens a regular file of a directory that a stranger may write to as well: path is beneath the
 * directory, no part of it may be a link, and a FIFO or a device, which opening alone would wait
 * for or set off, is TN_E_DENIED like everything else that is no regular file.  Never blocks. flags
 * may hold O_CREAT. */
int tn_fs_open_shared(const char *directory, const char *path, int flags, mode_t mode,
                      struct tn_error *err);

/* Descriptors 0 to 2 that are closed become /dev/null, opened so: what is opened next must never be
 * one of them.  With O_RDONLY to write there remains an error, as it was. */
void tn_fs_fill_standard(int flags);

/* "a FIFO", "a symbolic link", ...: what a file of that st_mode is. */
const char *tn_fs_kind(mode_t mode);

/* Whether there is a directory at that path, links followed. */
bool tn_fs_is_directory(const char *path);

/* Like mkdir -p beneath root.  Calls made (may be NULL) for each directory that did not exist, from
 * the top down, with an O_PATH descriptor of it - fchownat(fd, "", uid, gid, AT_EMPTY_PATH) works
 * on that - and its path as given so far.  Returns an O_PATH descriptor of the last one, or -1. */
typedef int (*tn_fs_made_fn)(int fd, const char *path, void *ctx, struct tn_error *err);
int tn_fs_mkdirs(int root, const char *path, mode_t mode, tn_fs_made_fn made, void *ctx,
                 struct tn_error *err);

enum tn_fs_remove_flags {
    TN_FS_CROSS_MOUNTS = 1, /* also what is mounted inside; otherwise a mount point is an error */
};

/* Removes the file or the whole directory `name` (one component) in dir.  Links are removed, never
 * followed.  Removes as much as it can, then reports the first thing it could not.  What somebody
 * puts in meanwhile is removed too, unless he never ends.  Something that does not exist is removed
 * already: 0. */
int tn_fs_remove_tree(int dir, const char *name, unsigned flags, struct tn_error *err);

/* Reads to the end of the file; TN_E_TOO_LARGE when out (whose maximum is the limit) is too small.
 */
int tn_fs_read_fd(int fd, struct tn_buf *out, struct tn_error *err);
/* The same for a path, which must be a regular file. */
int tn_fs_read(int root, const char *path, struct tn_buf *out, struct tn_error *err);

/* Writes all of it.  For files and other descriptors in blocking mode. */
int tn_fs_write(int fd, const void *bytes, size_t n, struct tn_error *err);

/* Copies at most `most` bytes (UINT64_MAX: to the end) from one position to the other, inside the
 * kernel where it can.  Returns how many, or -1. */
int64_t tn_fs_copy(int from, int to, uint64_t most, struct tn_error *err);

/* A crash journal: told the absolute path of a temporary file before it becomes visible, and again
 * when it is gone or has become the real file.  When announce fails nothing is created. */
struct tn_fs_journal {
    int (*announce)(void *ctx, const char *path, struct tn_error *err);
    void (*withdraw)(void *ctx, const char *path);
    void *ctx;
};

/* Writes the new content to fd; -1 with err makes the replacement fail and keeps the old file. */
typedef int (*tn_fs_writer_fn)(int fd, void *ctx, struct tn_error *err);

struct tn_fs_replace {
    mode_t mode;    /* of a file that did not exist, less the umask */
    bool sync;      /* the content is on disk before the name points to it */
    bool in_place;  /* when the file cannot be replaced (its directory is not ours to write, it is a
                      mount, its owner or its attributes could not be kept) overwrite it instead of
                      failing */
    bool announced; /* who watches the directory is told of a file that was written, as if it had
                       been open under its name (where we may open it) */
    const struct tn_fs_journal *journal; /* or NULL */
};

#define TN_FS_TEMP_PREFIX ".tendon-"

/* Replaces the content of a file as a whole: readers see the old one or the new one.  Mode, owner
 * and extended attributes stay; a symbolic link stays and what it points to is replaced, within
 * root. The writer is called once. */
int tn_fs_replace(int root, const char *path, const struct tn_fs_replace *how,
                  tn_fs_writer_fn writer, void *ctx, struct tn_error *err);

#endif
