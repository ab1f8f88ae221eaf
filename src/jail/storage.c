/* Where changes go: a directory of the host, or a tmpfs whose size is the limit.
 *
 * It holds upper/ (what was changed; a layer once it is copied), work/ and work-*, which the kernel
 * needs and which are made anew for each start, and volumes/ for volumes with an overlay.  Owners
 * in it are those of inside. */
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/fs.h"
#include "jail/jail.h"
#include "jail/sys.h"
#include "jail/tree-copy.h"

static int make_tmpfs(struct jail *j, struct tn_error *err)
{
    char size[40], inodes[40];
    const char *const options[] = {"mode=0700", size, inodes, NULL};

    snprintf(size, sizeof size, "size=%lld", (long long)j->plan.tmpfs_bytes);
    /* Empty files take memory too: one inode for every page, and some for the beginning. */
    snprintf(inodes, sizeof inodes, "nr_inodes=%lld",
             (long long)(j->plan.tmpfs_bytes / 4096 + 4096));
    j->storage = jail_new_mount("tmpfs", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, err);
    return j->storage < 0 ? -1 : 0;
}

/* What the kernel noted there is of the mount before, and would forbid another one. */
static int remove_work(int storage, struct tn_error *err)
{
    int fd = openat(storage, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    int r = 0;

    if (!dir) {
        tn_close(fd);
        return tn_fail_errno(err, errno, "storage");
    }
    for (struct dirent *e; r == 0 && (e = readdir(dir));)
        if (strncmp(e->d_name, "work", 4) == 0)
            r = tn_fs_remove_tree(storage, e->d_name, 0, err);
    closedir(dir);
    return r;
}

static int open_directory(struct jail *j, const char *path, struct tn_error *err)
{
    bool made = mkdir(path, 0700) == 0;

    if (!made && errno != EEXIST)
        return tn_fail_errno(err, errno, "%s", path);
    j->storage = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (j->storage < 0)
        return tn_fail_errno(err, errno, "%s", path);
    return made ? 0 : remove_work(j->storage, err);
}

static int plant_seed(const struct jail *j, struct tn_error *err)
{
    tn_autofd int seed = open(j->plan.seed, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    tn_autofd int upper =
        openat(j->storage, "upper", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (seed < 0 || upper < 0)
        return tn_fail_errno(err, errno, "seed %s", j->plan.seed);
    if (tn_tree_copy(seed, upper, tn_deadline_in(JAIL_SEED_SECONDS), NULL, err) < 0)
        return tn_error_context(err, "seed %s", j->plan.seed);
    return 0;
}

int jail_open_storage(struct jail *j, struct tn_error *err)
{
    int r = j->plan.storage ? open_directory(j, j->plan.storage, err) : make_tmpfs(j, err);

    if (r < 0)
        return -1;
    if ((mkdirat(j->storage, "upper", 0755) < 0 && errno != EEXIST) ||
        mkdirat(j->storage, "work", 0700) < 0)
        return tn_fail_errno(err, errno, "storage");
    return j->plan.seed ? plant_seed(j, err) : 0;
}

/* A directory is taken before the scaffold covers it; a tmpfs needs the scaffold, for only a mount
 * that is attached somewhere can be copied. */
int jail_clone_storage(struct jail *j, bool scaffold, struct tn_error *err)
{
    if (scaffold != !j->plan.storage)
        return 0;
    if (!scaffold)
        j->storage_mount = sys_clone_mount(AT_FDCWD, j->plan.storage, 0);
    else if (mkdir("raw", 0700) == 0 &&
             move_mount(j->storage, "", AT_FDCWD, "raw", MOVE_MOUNT_F_EMPTY_PATH) == 0)
        j->storage_mount = sys_clone_mount(AT_FDCWD, "raw", 0);
    return j->storage_mount < 0 ? tn_fail_errno(err, errno, "attach the storage") : 0;
}
