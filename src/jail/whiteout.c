#include "jail/whiteout.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

int tn_whiteout_make(int dir, const char *name, struct tn_error *err)
{
    if (mknodat(dir, name, S_IFCHR, makedev(0, 0)) < 0)
        return tn_fail_errno(err, errno, "whiteout %s", name);
    return 0;
}

int tn_opaque_set(int dir, struct tn_error *err)
{
    char path[40];

    snprintf(path, sizeof path, "/proc/self/fd/%d", dir);
    int user = setxattr(path, "user.overlay.opaque", "y", 1, 0);
    int sys = errno;
    if (setxattr(path, "trusted.overlay.opaque", "y", 1, 0) < 0 && user < 0)
        return tn_fail_errno(err, sys, "mark an opaque directory");
    return 0;
}
