/* A jail that was made before it had a name gets one while it runs.
 *
 * The keeper does it without a process of its own: it visits the jail's UTS namespace for one call,
 * and writes the two files of /etc as root of the jail, in the root that PID 1 has.  What it finds
 * there may be anybody's work. */
#include <fcntl.h>
#include <sched.h>

#include "jail/jail.h"
#include "jail/sys.h"

/* Root of the machine alone may come back from another UTS namespace. */
static int set_host_name(int pidfd, const char *name, struct tn_error *err)
{
    tn_autofd int own = open("/proc/self/ns/uts", O_RDONLY | O_CLOEXEC);

    if (own < 0 || setns(pidfd, CLONE_NEWUTS) < 0)
        return tn_fail_errno(err, errno, "its UTS namespace");
    int r = sethostname(name, strlen(name)), sys = errno;
    if (setns(own, CLONE_NEWUTS) < 0)
        return tn_fail_errno(err, errno, "the keeper's UTS namespace");
    return r < 0 ? tn_fail_errno(err, sys, "host name") : 0;
}

/* As the owner of the jail's files and no more: where that is root of the machine, without the
 * capabilities that root has. */
static int write_names(const struct jail *j, int root, const char *old, const char *name,
                       struct tn_error *err)
{
    struct jail_actor keeper;

    if (jail_act_as(j->base, 0, &keeper, err) < 0)
        return -1;
    tn_autofd int etc = sys_openat2(root, "etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0,
                                    RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
    int r =
        etc < 0 ? tn_fail_errno(err, errno, "/etc inside") : jail_change_names(etc, old, name, err);
    return jail_act_again(&keeper, r < 0 ? NULL : err) < 0 ? -1 : r;
}

int jail_take_name(struct jail *j, pid_t pid, int pidfd, const char *name, struct tn_error *err)
{
    tn_autofree char *path = tn_asprintf("/proc/%d/root", (int)pid);
    const char *old = j->plan.hostname ? j->plan.hostname : "tendon";

    if (!j->privileged)
        return tn_fail(err, TN_E_UNSUPPORTED, "only root can rename a jail that runs");
    if (j->plan.runsc)
        return tn_fail(err, TN_E_UNSUPPORTED, "gVisor keeps the name that a jail was started with");
    if (tn_jail_check_hostname(name, err) < 0)
        return -1;
    tn_autofd int root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return tn_fail_errno(err, errno, "its root");
    if (set_host_name(pidfd, name, err) < 0 || write_names(j, root, old, name, err) < 0)
        return -1;
    free(j->plan.hostname);
    j->plan.hostname = tn_strdup(name);
    return 0;
}
