/* Paths that come from a peer, and whose rights are used on them.
 *
 * File actions (read, write, edit) run with the rights of the sandbox's user, transfers (upload,
 * download, list) with the server's; whatever is new belongs to the user in both cases. */
#ifndef TN_HAND_FILE_PATH_H
#define TN_HAND_FILE_PATH_H

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/account.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/fs.h"
#include "hand/file/text.h"

struct tn_file_user {
    uid_t uid;
    gid_t gid;
    const gid_t *groups; /* supplementary ones, borrowed */
    size_t group_count;
    const struct tn_fs_journal
        *journal; /* of temporary names, or NULL; must not need to open files,
                     because it may be called with the user's rights */
};

/* From here to the end of the scope of `as` (tn_autoact) this thread has the user's rights on
 * files. */
int tn_file_act_as(struct tn_act_as *as, const struct tn_file_user *user, struct tn_error *err);

/* The path without doubled slashes, `.` parts and a final slash; `..` stays, because only the
 * kernel knows what it means behind a symbolic link.  An empty path is ".".  NULL with err when it
 * holds a NUL or is too long.  The caller frees it. */
char *tn_path_normal(struct tn_slice path, struct tn_error *err);
/* The same, with a relative path joined to cwd. */
char *tn_path_resolve(struct tn_slice path, const char *cwd, struct tn_error *err);

/* How Python words an error of the operating system: [Errno 2] No such file or directory: '/x'. The
 * caller frees it. */
char *tn_file_os_error(int sys, const char *path);

/* Opens a file for reading and tells what it is; never blocks on a pipe or device.  What the kernel
 * shows of this very process (/proc/self/environ and the like) is refused.  -1 with err and its
 * errno. */
int tn_file_open(const char *path, struct stat *st, struct tn_error *err);
/* EACCES for a descriptor of the same files of /proc: the path may lead elsewhere by now. */
int tn_file_may_write(int fd, const char *path, struct tn_error *err);
/* A file system that the kernel makes up (/proc, /sys): its files have sizes that mean nothing. */
bool tn_file_is_kernel(int fd);

/* Opens a directory for a transfer, with the server's rights: what is missing is made (mode 0755)
 * and given to the user.  A symbolic link on the way is followed only when root, this server, or
 * the owner of what it leads to made it, so that nobody can send the server where he may not go
 * himself.  -1 with err. */
int tn_file_open_destination(const char *path, const struct tn_file_user *user,
                             struct tn_error *err);

#endif
