/* What a process in the jail may do: limits, capabilities, Landlock, system calls. */
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/keyctl.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "jail/jail.h"
#include "jail/sys.h"
#include "seccomp-filter.h"

#define MEMLOCK_BYTES (INT64_C(8) << 20)
#define SIGNALS_QUEUED 8192
#define QUEUE_BYTES 819200 /* what Linux begins with */

/* --- limits -------------------------------------------------------------------------------- */

/* Never above what the launcher itself may have: there the limit is even stricter. */
static int lower_limit(int resource, int64_t value, struct tn_error *err)
{
    struct rlimit limit;

    if (getrlimit((__rlimit_resource_t)resource, &limit) < 0)
        return tn_fail_errno(err, errno, "resource limits");
    if (limit.rlim_max == RLIM_INFINITY || limit.rlim_max > (rlim_t)value)
        limit.rlim_max = (rlim_t)value;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit((__rlimit_resource_t)resource, &limit) < 0)
        return tn_fail_errno(err, errno, "resource limits");
    return 0;
}

int jail_set_limits(struct jail *j, struct tn_error *err)
{
    const struct tn_jail_plan *p = &j->plan;
    const struct {
        int resource;
        bool wanted;
        int64_t value;
        bool *done;
    } limits[] = {
        /* One byte: unlike none this also keeps crashes from the host's crash handler. */
        {RLIMIT_CORE, true, 1, NULL},
        {RLIMIT_MEMLOCK, true, MEMLOCK_BYTES, NULL},
        {RLIMIT_RTPRIO, true, 0, NULL},
        /* Counted by user: queued signals and timers, bytes in POSIX message queues. */
        {RLIMIT_SIGPENDING, true, SIGNALS_QUEUED, NULL},
        {RLIMIT_MSGQUEUE, true, QUEUE_BYTES, NULL},
        /* Under gVisor these are limits of what runs on it, see gvisor.c. */
        {RLIMIT_FSIZE, !p->runsc && p->file_size > 0, p->file_size, &j->isolation.file_size_limit},
        {RLIMIT_NOFILE, !p->runsc && p->open_files > 0, p->open_files,
         &j->isolation.open_files_limit},
        {RLIMIT_NPROC, j->pids_by_rlimit, p->pids, &j->isolation.pids_limit},
    };

    for (size_t i = 0; i < TN_COUNT(limits); i++) {
        if (!limits[i].wanted)
            continue;
        if (lower_limit(limits[i].resource, limits[i].value, err) < 0)
            return -1;
        if (limits[i].done)
            *limits[i].done = true;
    }
    return 0;
}

/* --- capabilities -------------------------------------------------------------------------- */

/* What installing packages and changing users takes; none of it reaches beyond the jail. */
static const int kept[] = {
    CAP_CHOWN,  CAP_DAC_OVERRIDE, CAP_FOWNER,           CAP_FSETID,     CAP_KILL,    CAP_SETGID,
    CAP_SETUID, CAP_SETPCAP,      CAP_NET_BIND_SERVICE, CAP_SYS_CHROOT, CAP_SETFCAP,
};

/* Without the second a write takes set-id bits off a file. */
#define SET_ID_CAPABILITIES (UINT64_C(1) << CAP_SETFCAP | UINT64_C(1) << CAP_FSETID)

/* Where file capabilities count a program that has one beyond the bounding set cannot be executed:
 * that would be ping.  Over the network of the jail it says nothing, which is root's of outside;
 * an ordinary user's has only loopback. */
static uint64_t kept_mask(const struct jail *j)
{
    uint64_t mask = j->gains ? UINT64_C(1) << CAP_NET_RAW : 0;

    for (size_t i = 0; i < TN_COUNT(kept); i++)
        mask |= UINT64_C(1) << kept[i];
    return j->shares ? mask & ~SET_ID_CAPABILITIES : mask;
}

int jail_drop_capabilities(struct jail *j, struct tn_error *err)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    uint64_t mask = kept_mask(j);

    for (int cap = 0; cap < 64 && prctl(PR_CAPBSET_READ, cap) >= 0; cap++)
        if (!(mask >> cap & 1) && prctl(PR_CAPBSET_DROP, cap) < 0)
            return tn_fail_errno(err, errno, "drop capability %d", cap);
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    if (syscall(SYS_capget, &header, data) < 0)
        return tn_fail_errno(err, errno, "capabilities");
    for (int i = 0; i < 2; i++) {
        data[i].permitted &= (uint32_t)(mask >> (32 * i));
        data[i].effective = data[i].permitted;
        data[i].inheritable = 0;
    }
    if (syscall(SYS_capset, &header, data) < 0)
        return tn_fail_errno(err, errno, "drop capabilities");
    j->isolation.capabilities = true;
    return 0;
}

/* --- Landlock ------------------------------------------------------------------------------ */

/* As of version 6; the headers of the build may be older. */
struct ruleset {
    uint64_t handled_access_fs, handled_access_net, scoped;
};
enum {
    RULESET_VERSION = 1,
    SCOPE_ABSTRACT_UNIX_SOCKET = 1,
    SCOPE_SIGNAL = 2,
    VERSION_WITH_SCOPES = 6,
};

int jail_landlock_version(void)
{
    long version = syscall(SYS_landlock_create_ruleset, NULL, 0, RULESET_VERSION);
    return version < 0 ? 0 : (int)version;
}

int jail_restrict_scope(struct jail *j, struct tn_error *err)
{
    const struct ruleset rules = {.scoped = SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL};

    if (jail_landlock_version() < VERSION_WITH_SCOPES)
        return 0;
    tn_autofd int fd = (int)syscall(SYS_landlock_create_ruleset, &rules, sizeof rules, 0);
    if (fd < 0 || syscall(SYS_landlock_restrict_self, fd, 0) < 0)
        return tn_fail_errno(err, errno, "Landlock");
    j->isolation.landlock = true;
    return 0;
}

/* --- the rest ------------------------------------------------------------------------------ */

int jail_leave_keyring(struct jail *j, struct tn_error *err)
{
    /* Where keys cannot be had at all there is nothing to leave. */
    syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL);
    return 0;
}

int jail_no_new_privileges(struct jail *j, struct tn_error *err)
{
    if (j->gains)
        return 0;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return tn_fail_errno(err, errno, "no new privileges");
    j->isolation.no_new_privs = true;
    return 0;
}

static int install(const struct sock_filter *code, size_t count, struct tn_error *err)
{
    struct sock_fprog program = {.len = (unsigned short)count,
                                 .filter = (struct sock_filter *)(uintptr_t)code};

    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0)
        return tn_fail_errno(err, errno, "filter system calls");
    return 0;
}

int jail_filter_set_id(struct jail *j, struct tn_error *err)
{
    if (j->shares && install(filter_set_id, TN_COUNT(filter_set_id), err) < 0)
        return -1;
    j->isolation.no_set_id = j->shares;
    return 0;
}

/* The threads of gVisor's systrap hand calls to each other through a listener of seccomp.  Whatever
 * freezes or stops them interrupts the one that waits for the next call; the other one may find
 * none then (ENOENT), takes the first for dead, and kills the program that both serve.  Without
 * listeners, as on old kernels, they use futexes, which an interruption does not harm. */
int jail_filter_listeners(struct jail *j, struct tn_error *err)
{
    static const struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_seccomp, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, SECCOMP_FILTER_FLAG_NEW_LISTENER, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };

    return install(code, TN_COUNT(code), err);
}

int jail_filter_calls(struct jail *j, struct tn_error *err)
{
    if (jail_filter_set_id(j, err) < 0 ||
        install(filter_arguments, TN_COUNT(filter_arguments), err) < 0 ||
        install(filter_calls, TN_COUNT(filter_calls), err) < 0)
        return -1;
    j->isolation.seccomp = true;
    return 0;
}
