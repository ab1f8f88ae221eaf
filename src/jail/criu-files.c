/* What processes of a jail keep in memory as files: /dev/shm, /run and /tmp end with its mounts. */
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include "base/clock.h"
#include "base/fs.h"
#include "jail/criu.h"
#include "jail/sys.h"
#include "jail/tree-copy.h"

#define COPY_SECONDS 60.0

static const struct {
    const char *target, *name;
} kept[] = {
    {"/dev/shm", "shm"},
    {"/run", "run"},
    {"/tmp", "tmp"},
};

/* -1 when the jail has no such mount of its own. */
static int open_memory(pid_t pid, const char *target)
{
    char path[64];
    struct statfs fs;

    snprintf(path, sizeof path, "/proc/%d/root", (int)pid);
    tn_autofd int root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    tn_autofd int fd = sys_openat2(root, target, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0,
                                   RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS);
    if (fd < 0 || fstatfs(fd, &fs) < 0 || fs.f_type != TMPFS_MAGIC)
        return -1;
    return TN_TAKE_FD(fd);
}

static int keep_one(int files, pid_t pid, size_t i, struct tn_error *err)
{
    tn_autofd int from = open_memory(pid, kept[i].target);

    if (from < 0)
        return 0;
    if (mkdirat(files, kept[i].name, 0700) < 0)
        return tn_fail_errno(err, errno, "%s", kept[i].name);
    tn_autofd int to = openat(files, kept[i].name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (to < 0)
        return tn_fail_errno(err, errno, "%s", kept[i].name);
    return tn_tree_copy(from, to, tn_deadline_in(COPY_SECONDS), NULL, err);
}

static int keep_files(int directory, pid_t pid, struct tn_error *err)
{
    tn_autofd int files = openat(directory, TN_JAIL_SUSPENDING "/files",
                                 O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (files < 0)
        return tn_fail_errno(err, errno, TN_JAIL_SUSPENDING);
    for (size_t i = 0; i < TN_COUNT(kept); i++)
        if (keep_one(files, pid, i, err) < 0)
            return tn_error_context(err, "%s", kept[i].target);
    return 0;
}

/* From here on nobody can make the same processes a second time. */
static int use_up(int directory, pid_t pid, struct tn_error *err)
{
    if (renameat(directory, TN_JAIL_SUSPENDED, directory, TN_JAIL_TRASH TN_JAIL_SUSPENDED) < 0)
        return tn_fail_errno(err, errno, TN_JAIL_SUSPENDED);
    return 0;
}

static const struct {
    const char *name;
    int (*run)(int directory, pid_t pid, struct tn_error *err);
} actions[] = {
    {"post-dump", keep_files},
    {"post-restore", use_up},
};

static int run_action(size_t i, struct tn_error *err)
{
    const char *subject = getenv(JAIL_ACTION_SUBJECT);
    int keeper, fd, pid;
    char path[64];
    struct rlimit largest;

    if (!subject || sscanf(subject, "%d %d %d", &keeper, &fd, &pid) != 3)
        return tn_fail(err, TN_E_INVALID, JAIL_ACTION_SUBJECT " is missing");
    snprintf(path, sizeof path, "/proc/%d/fd/%d", keeper, fd);
    tn_autofd int directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    /* What bounds the images would hit files with holes. */
    if (getrlimit(RLIMIT_FSIZE, &largest) == 0) {
        largest.rlim_cur = largest.rlim_max;
        setrlimit(RLIMIT_FSIZE, &largest);
    }
    return directory < 0 ? tn_fail_errno(err, errno, "%s", path)
                         : actions[i].run(directory, pid, err);
}

int jail_criu_action(void)
{
    const char *action = getenv("CRTOOLS_SCRIPT_ACTION");
    struct tn_error err = {0};

    for (size_t i = 0; action && i < TN_COUNT(actions); i++)
        if (strcmp(action, actions[i].name) == 0 && run_action(i, &err) < 0) {
            fprintf(stderr, "Error (tendon-jail): %s\n", err.text); /* into the log of criu */
            return 1;
        }
    return 0;
}

int jail_fill_memory(const struct jail *j, int mount, const char *target, struct tn_error *err)
{
    for (size_t i = 0; i < TN_COUNT(kept); i++) {
        if (strcmp(kept[i].target, target) != 0)
            continue;
        tn_autofree char *name = tn_asprintf("files/%s", kept[i].name);
        tn_autofd int from =
            openat(j->images, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        tn_autofd int to = openat(mount, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (from < 0 || to < 0)
            return tn_fail_errno(err, errno, "files of %s", target);
        return tn_tree_copy(from, to, tn_deadline_in(COPY_SECONDS), NULL, err);
    }
    return 0;
}
