/* Inside the new process, before exec.
 *
 * It may share its memory with the parent (see child-spawn.c), whose other threads run on: no
 * allocation, no lock, no stdio, and no libc wrapper that does more than its system call - setuid
 * and friends of the libc change all threads of the process, which here would be the parent's. */
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "base/child-plan.h"
#include "base/raw.h"

#define SIGNALS 64
#define DIRENTS 2048

struct dirent64_header {
    uint64_t ino;
    int64_t off;
    uint16_t reclen;
    uint8_t type;
    char name[];
};

/* Whatever the parent catches or ignores is default again; zeros say so in every layout of the
 * kernel's struct.  Refused for SIGKILL and SIGSTOP. */
TN_RAW static void reset_signals(void)
{
    uint64_t action[8] = {0};
    for (int signal = 1; signal <= SIGNALS; signal++)
        syscall(SYS_rt_sigaction, signal, action, NULL, SIGNALS / 8);
}

TN_RAW static void unblock_signals(void)
{
    uint64_t none = 0;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, SIGNALS / 8);
}

TN_RAW static int number_of(const char *name)
{
    int value = 0;
    for (; *name >= '0' && *name <= '9'; name++)
        value = value * 10 + (*name - '0');
    return *name ? -1 : value;
}

/* For kernels before 5.11. */
TN_RAW static int close_listed_on_exec(void)
{
    _Alignas(8) char entries[DIRENTS];
    long n;
    int dir =
        (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (dir < 0)
        return -1;
    while ((n = syscall(SYS_getdents64, dir, entries, sizeof entries)) > 0) {
        for (long at = 0; at < n;) {
            const struct dirent64_header *entry = (const void *)(entries + at);
            int fd = number_of(entry->name);
            if (fd >= 0)
                syscall(SYS_fcntl, fd, F_SETFD, FD_CLOEXEC);
            at += entry->reclen;
        }
    }
    return n < 0 ? -1 : 0;
}

/* Exec will close every descriptor that is open now; the wanted ones are made afterwards. */
TN_RAW static int close_all_on_exec(void)
{
    if (syscall(SYS_close_range, 0, ~0u, CLOSE_RANGE_CLOEXEC) == 0)
        return 0;
    return close_listed_on_exec();
}

/* First all of them out of the way of the targets, then each to its place. */
TN_RAW static int connect_descriptors(struct child_plan *plan)
{
    long moved = syscall(SYS_fcntl, plan->report_fd, F_DUPFD_CLOEXEC, plan->above);
    if (moved < 0)
        return -1;
    plan->report_fd = (int)moved;
    for (size_t i = 0; i < plan->fd_count; i++) {
        long from = plan->fds[i].from;
        if (from < 0)
            from = syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR | O_CLOEXEC);
        plan->moved[i] = (int)syscall(SYS_fcntl, (int)from, F_DUPFD_CLOEXEC, plan->above);
        if (plan->moved[i] < 0)
            return -1;
    }
    for (size_t i = 0; i < plan->fd_count; i++)
        if (syscall(SYS_dup3, plan->moved[i], plan->fds[i].to, 0) < 0)
            return -1;
    return 0;
}

/* The other half of PR_SET_PDEATHSIG: the parent may have died before it was set. */
TN_RAW static int die_with_parent(const struct child_plan *plan)
{
    if (syscall(SYS_prctl, PR_SET_PDEATHSIG, plan->death_signal, 0, 0, 0) < 0)
        return -1;
    if (syscall(SYS_getppid) == plan->parent)
        return 0;
    errno = ESRCH;
    return -1;
}

/* Returns only on failure; like execvp, "not permitted" beats "not there". */
TN_RAW static void execute(const struct child_plan *plan)
{
    int sys = ENOENT;

    unblock_signals();
    for (char **file = plan->candidates; *file; file++) {
        /* To fail at exec takes ten times as long as to look. */
        if (!file[1] || syscall(SYS_faccessat, AT_FDCWD, *file, F_OK) == 0)
            syscall(SYS_execve, *file, plan->argv, plan->env);
        if (errno == EACCES)
            sys = EACCES;
        else if (errno != ENOENT && errno != ENOTDIR) {
            sys = errno;
            break;
        }
    }
    errno = sys;
}

TN_RAW static int mark(uint64_t mark)
{
    const uint64_t limits[] = {mark, mark}; /* the soft and the hard one, as the kernel has them */
    return (int)syscall(SYS_prlimit64, 0, RLIMIT_RTTIME, limits, NULL);
}

TN_RAW static enum child_step prepare(struct child_plan *plan)
{
    if (plan->session ? syscall(SYS_setsid) < 0 : plan->group && syscall(SYS_setpgid, 0, 0) < 0)
        return STEP_SESSION;
    if (close_all_on_exec() < 0 || connect_descriptors(plan) < 0)
        return STEP_DESCRIPTORS;
    if (plan->terminal && syscall(SYS_ioctl, 2, TIOCSCTTY, 0) < 0)
        return STEP_TERMINAL;
    if (plan->mark && mark(plan->mark) < 0)
        return STEP_MARK;
    if (plan->set_user) {
        if (syscall(SYS_setgroups, plan->group_count, plan->groups) < 0)
            return STEP_GROUPS;
        if (syscall(SYS_setresgid, plan->gid, plan->gid, plan->gid) < 0)
            return STEP_GID;
        if (syscall(SYS_setresuid, plan->uid, plan->uid, plan->uid) < 0)
            return STEP_UID;
    }
    if (plan->cwd && syscall(SYS_chdir, plan->cwd) < 0)
        return STEP_CWD;
    /* After the change of user, which clears it. */
    if (plan->death_signal && die_with_parent(plan) < 0)
        return STEP_DEATH_SIGNAL;
    return STEP_EXEC;
}

TN_RAW static void report(const struct child_plan *plan, enum child_step step)
{
    struct child_report report = {.step = (int)step, .sys = errno};
    syscall(SYS_write, plan->report_fd, &report, sizeof report);
}

TN_RAW static int become_program(void *arg)
{
    struct child_plan *plan = arg;

    reset_signals();
    enum child_step step = prepare(plan);
    if (step == STEP_EXEC)
        execute(plan);
    report(plan, step);
    syscall(SYS_exit_group, 127);
    __builtin_unreachable();
}

TN_RAW int child_run(void *arg)
{
    struct child_plan *plan = arg;
    int status = 0;

    if (!plan->orphan_stack) {
        plan->shared = true;
        become_program(plan);
    }
    if (clone(become_program, plan->orphan_stack + CHILD_STACK, CHILD_BORROW | SIGCHLD, plan) < 0) {
        report(plan, STEP_ORPHAN);
        status = 127;
    }
    plan->shared = true; /* who is killed while the orphan is on its way never says so */
    syscall(SYS_exit_group, status);
    __builtin_unreachable();
}
