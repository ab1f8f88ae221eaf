/* What the gate itself may do once it has its descriptors: talk over the network, and nothing else.
 * It reads bytes of strangers. */
#include <grp.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "gate-filter.h"
#include "gate/gate.h"

enum { NOBODY_SMALL = 65534 };

static int leave_root(struct tn_error *err)
{
    static const uid_t users[] = {TN_GATE_UID, NOBODY_SMALL};

    if (geteuid() != 0)
        return 0;
    if (setgroups(0, NULL) < 0)
        return tn_fail_errno(err, errno, "give up groups");
    for (size_t i = 0; i < TN_COUNT(users); i++)
        if (setresgid(users[i], users[i], users[i]) == 0 &&
            setresuid(users[i], users[i], users[i]) == 0)
            return 0;
    return tn_fail_errno(err, errno, "become nobody");
}

/* As of version 6; the headers of the build may be older. */
struct ruleset {
    uint64_t files, net, scoped;
};

/* No file may be opened, executed or changed; no abstract socket, no signal leads out. */
static int close_files(struct tn_error *err)
{
    static const int bits[] = {0, 13, 14, 15, 15, 16}; /* kinds of access, by version */
    long version = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);

    if (version <= 0)
        return 0; /* the filter below has no call that opens one */
    size_t known = (size_t)version < TN_COUNT(bits) ? (size_t)version : TN_COUNT(bits) - 1;
    const struct ruleset rules = {.files = (UINT64_C(1) << bits[known]) - 1,
                                  .scoped = version >= 6 ? 3 : 0};
    size_t size = version >= 6 ? sizeof rules : version >= 4 ? 16 : 8;
    tn_autofd int fd = (int)syscall(SYS_landlock_create_ruleset, &rules, size, 0);
    if (fd < 0 || syscall(SYS_landlock_restrict_self, fd, 0) < 0)
        return tn_fail_errno(err, errno, "Landlock");
    return 0;
}

static int filter_calls(struct tn_error *err)
{
    struct sock_fprog program = {.len = TN_COUNT(filter_gate),
                                 .filter = (struct sock_filter *)(uintptr_t)filter_gate};

    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0)
        return tn_fail_errno(err, errno, "filter system calls");
    return 0;
}

int gate_confine(struct tn_error *err)
{
    if (leave_root(err) < 0)
        return -1;
    if (prctl(PR_SET_DUMPABLE, 0) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return tn_fail_errno(err, errno, "no new privileges");
    return close_files(err) < 0 ? -1 : filter_calls(err);
}
