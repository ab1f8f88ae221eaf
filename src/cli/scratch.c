#include "cli/scratch.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/fs.h"

#define PREFIX "tendon-run."

/* Attempts at a directory that no sweeping neighbour takes away between making and locking it. */
#define MAX_ATTEMPTS 16

#define DIRECTORY (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

/* --- sweeping --------------------------------------------------------------------------------- */

static bool lock(int fd)
{
    return !flock(fd, LOCK_EX | LOCK_NB);
}

static void sweep(const char *parent)
{
    DIR *dir = opendir(parent);

    if (!dir)
        return;
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (strncmp(entry->d_name, PREFIX, strlen(PREFIX)))
            continue;
        tn_autofd int fd = openat(dirfd(dir), entry->d_name, DIRECTORY);
        struct stat st;
        if (fd >= 0 && !fstat(fd, &st) && st.st_uid == geteuid() && lock(fd))
            tn_fs_remove_tree(dirfd(dir), entry->d_name, 0, NULL);
    }
    closedir(dir);
}

/* --- one's own -------------------------------------------------------------------------------- */

/* Between making and locking it, a neighbour may have taken it for a leftover. */
static bool still_there(const char *path, int fd)
{
    struct stat by_name, by_fd;

    return !lstat(path, &by_name) && !fstat(fd, &by_fd) && by_name.st_ino == by_fd.st_ino &&
           by_name.st_dev == by_fd.st_dev;
}

int scratch_open(struct scratch *s, struct tn_error *err)
{
    const char *given = getenv("TMPDIR");
    tn_autofree char *parent = realpath(given && *given ? given : "/tmp", NULL);

    if (!parent)
        return tn_fail_errno(err, errno, "temporary directory %s",
                             given && *given ? given : "/tmp");
    sweep(parent);
    for (int attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
        tn_autofree char *path = tn_asprintf("%s/" PREFIX "XXXXXX", parent);

        if (!mkdtemp(path))
            return tn_fail_errno(err, errno, "cannot make a directory in %s", parent);
        tn_autofd int fd = open(path, DIRECTORY);
        if (fd >= 0 && lock(fd) && still_there(path, fd)) {
            *s = (struct scratch){.path = TN_TAKE_PTR(path), .fd = TN_TAKE_FD(fd)};
            return 0;
        }
    }
    return tn_fail(err, TN_E_BUSY, "cannot keep a directory in %s: something removes it", parent);
}

int scratch_close(struct scratch *s, struct tn_error *err)
{
    int status = 0;

    if (s->path) {
        tn_autofd int parent = openat(s->fd, "..", DIRECTORY);
        if (parent < 0)
            status = tn_fail_errno(err, errno, "..");
        else
            status = tn_fs_remove_tree(parent, strrchr(s->path, '/') + 1, 0, err);
        if (status)
            tn_error_context(err, "cannot remove %s", s->path);
    }
    tn_close(TN_TAKE_FD(s->fd));
    free(TN_TAKE_PTR(s->path));
    return status;
}
