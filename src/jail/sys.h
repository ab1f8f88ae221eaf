/* System calls that the C library has no function for, and constants newer than its headers. */
#ifndef TN_JAIL_SYS_H
#define TN_JAIL_SYS_H

#include <linux/openat2.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

static inline int sys_openat2(int dir, const char *path, int flags, mode_t mode, uint64_t resolve)
{
    struct open_how how = {.flags = (uint64_t)flags, .mode = mode, .resolve = resolve};
    return (int)syscall(SYS_openat2, dir, path, &how, sizeof how);
}

static inline pid_t sys_clone3(struct clone_args *args)
{
    return (pid_t)syscall(SYS_clone3, args, sizeof *args);
}

static inline int sys_pidfd_open(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

static inline int sys_pidfd_kill(int pidfd)
{
    return (int)syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
}

static inline int sys_pivot_root(const char *root, const char *old)
{
    return (int)syscall(SYS_pivot_root, root, old);
}

/* A detached copy of the mount at path (relative to dir; "" is dir itself). */
static inline int sys_clone_mount(int dir, const char *path, unsigned flags)
{
    return open_tree(dir, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | flags);
}

/* Attaches the detached mount on the directory or file `on`. */
static inline int sys_attach_mount(int mount, int on)
{
    return move_mount(mount, "", on, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
}

static inline int sys_set_mount(int mount, uint64_t set, int userns, unsigned flags)
{
    struct mount_attr attr = {.attr_set = set, .userns_fd = userns < 0 ? 0 : (uint64_t)userns};
    return mount_setattr(mount, "", AT_EMPTY_PATH | flags, &attr, sizeof attr);
}

#endif
