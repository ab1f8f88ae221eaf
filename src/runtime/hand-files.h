/* Files of a sandbox, through its hand: /v1/files.
 *
 * One connection, kept alive, for one thread at a time.  Every call ends by its deadline, and one
 * that moves bytes also when nothing has moved for a minute, so that TN_NEVER is fine for a file of
 * any size.  Paths are absolute; names and paths may be any bytes.  Everything happens with the
 * rights of the sandbox's user. */
#ifndef TN_RUNTIME_HAND_FILES_H
#define TN_RUNTIME_HAND_FILES_H

#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/json.h"
#include "base/purse.h"
#include "net/http-client.h"

struct tn_hand_files;

enum tn_entry_type {
    TN_ENTRY_FILE,
    TN_ENTRY_DIRECTORY,
    TN_ENTRY_SYMLINK,
    TN_ENTRY_OTHER, /* fifo, socket, device */
};

struct tn_entry {
    char *name; /* the last part of the path */
    enum tn_entry_type type;
    int64_t size;
    mode_t mode; /* permission bits */
    int64_t uid, gid;
    double mtime;               /* seconds since 1970 */
    char *target;               /* of a symlink, else NULL */
    struct tn_json *attributes; /* tn_hand_files_attributes; or NULL */
};
void tn_entry_done(struct tn_entry *e);
#define tn_autoentry TN_CLEANUP(tn_entry_done)

/* address and key as for tn_hand_client_new.  Does not connect yet. */
struct tn_hand_files *tn_hand_files_new(const char *address, const char *key, struct tn_error *err);
void tn_hand_files_free(struct tn_hand_files *f);
/* What the hand answers is held in that purse, which is borrowed; NULL, as at first: in none. */
void tn_hand_files_hold(struct tn_hand_files *f, struct tn_purse *purse);
/* From here on entries have their extended attributes whose names begin so ("user." and more, left
 * away in the names), and what is stored gets those of `these` (NULL: none) for its own.  Both
 * borrowed. */
void tn_hand_files_attributes(struct tn_hand_files *f, const char *prefix,
                              const struct tn_json *these);
static inline void tn_guard_hand_files(struct tn_hand_files **f)
{
    tn_hand_files_free(*f);
}
#define tn_autofiles TN_CLEANUP(tn_guard_hand_files)
/* As tn_http_client_cancel_by. */
void tn_hand_files_cancel_by(struct tn_hand_files *f, int fd);

/* What the path is; follow: what a link leads to.  The caller ends *out with tn_entry_done. */
int tn_hand_files_stat(struct tn_hand_files *f, const char *path, bool follow, struct tn_entry *out,
                       int64_t deadline, struct tn_error *err);
/* Calls fn for every entry of the directory, in order of name; non-zero from fn stops and is
 * returned.  fn may use f. */
typedef int (*tn_entry_fn)(const struct tn_entry *e, void *ctx, struct tn_error *err);
int tn_hand_files_list(struct tn_hand_files *f, const char *path, tn_entry_fn fn, void *ctx,
                       int64_t deadline, struct tn_error *err);

/* Told after each piece how many bytes it had; may be NULL. */
typedef void (*tn_moved_fn)(size_t n, void *ctx);

/* Writes the file's bytes from offset on (length -1: to its end) to the descriptor.  Returns how
 * many, or -1. */
int64_t tn_hand_files_read(struct tn_hand_files *f, const char *path, int64_t offset,
                           int64_t length, int fd, tn_moved_fn moved, void *ctx, int64_t deadline,
                           struct tn_error *err);
/* The same, piece by piece; non-zero from fn, with err, stops. */
typedef int (*tn_bytes_fn)(const void *bytes, size_t n, void *ctx, struct tn_error *err);
int64_t tn_hand_files_range(struct tn_hand_files *f, const char *path, int64_t offset,
                            int64_t length, tn_bytes_fn fn, void *ctx, int64_t deadline,
                            struct tn_error *err);
/* The same of the whole file. */
int64_t tn_hand_files_fetch(struct tn_hand_files *f, const char *path, tn_bytes_fn fn, void *ctx,
                            int64_t deadline, struct tn_error *err);
/* Replaces the file by what the descriptor gives, in one step; size -1: to its end.  mode -1: as
 * the file has it, or the usual one. */
int tn_hand_files_write(struct tn_hand_files *f, const char *path, int fd, int64_t size, int mode,
                        tn_moved_fn moved, void *ctx, int64_t deadline, struct tn_error *err);

/* The same from a stream: the next bytes, 0 at its end, -1 with err. */
int tn_hand_files_store(struct tn_hand_files *f, const char *path, tn_http_source_fn source,
                        void *ctx, int64_t size, int mode, int64_t deadline, struct tn_error *err);
/* The same of bytes that are here; none are fine. */
int tn_hand_files_put(struct tn_hand_files *f, const char *path, const void *bytes, size_t n,
                      int64_t deadline, struct tn_error *err);
/* Renames it, within one file system; both paths are UTF-8.  TN_E_CONFLICT: something is there. */
int tn_hand_files_move(struct tn_hand_files *f, const char *from, const char *to, bool overwrite,
                       int64_t deadline, struct tn_error *err);

/* With its parents; one that is there is fine and gets the mode too (-1: as it is). */
int tn_hand_files_mkdir(struct tn_hand_files *f, const char *path, int mode, int64_t deadline,
                        struct tn_error *err);
/* Replaces a file or link of that name. */
int tn_hand_files_symlink(struct tn_hand_files *f, const char *path, const char *target,
                          int64_t deadline, struct tn_error *err);
int tn_hand_files_remove(struct tn_hand_files *f, const char *path, bool recursive,
                         int64_t deadline, struct tn_error *err);

#endif
