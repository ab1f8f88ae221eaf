/* tendon-jail --copy FROM_FD TO_FD REPORT_FD SECONDS: copies a tree for an ordinary user.
 *
 * Root inside a jail may close files and directories even to the user who it is outside.  In a user
 * namespace where this user is root they open again.  Prints how many files and bytes; failure is
 * reported in words on REPORT_FD. */
#include <fcntl.h>
#include <sched.h>

#include "base/clock.h"
#include "base/fs.h"
#include "jail/enter.h"
#include "jail/tree-copy.h"

static int write_setting(const char *path, const char *text, struct tn_error *err)
{
    tn_autofd int fd = open(path, O_WRONLY | O_CLOEXEC);

    if (fd < 0)
        return tn_fail_errno(err, errno, "%s", path);
    return tn_fs_write(fd, text, strlen(text), err);
}

static int become_root(struct tn_error *err)
{
    char uids[40], gids[40];

    snprintf(uids, sizeof uids, "0 %u 1", (unsigned)geteuid());
    snprintf(gids, sizeof gids, "0 %u 1", (unsigned)getegid());
    if (unshare(CLONE_NEWUSER) < 0)
        return tn_fail_errno(err, errno, "user namespace");
    if (write_setting("/proc/self/setgroups", "deny", err) < 0 ||
        write_setting("/proc/self/uid_map", uids, err) < 0)
        return -1;
    return write_setting("/proc/self/gid_map", gids, err);
}

int jail_copy_own(int argc, char **argv)
{
    struct tn_tree_count count;
    struct tn_error err = {0};

    if (argc != 6)
        return 2;
    int from = (int)strtol(argv[2], NULL, 10), to = (int)strtol(argv[3], NULL, 10);
    int report = (int)strtol(argv[4], NULL, 10);
    int64_t deadline = tn_deadline_in(strtod(argv[5], NULL));
    if ((geteuid() != 0 && become_root(&err) < 0) ||
        tn_tree_copy(from, to, deadline, &count, &err) < 0) {
        dprintf(report, "%s %s", tn_code_row(err.code)->name, err.text);
        return 1;
    }
    return printf("%llu %llu\n", (unsigned long long)count.files, (unsigned long long)count.bytes) <
           0;
}
