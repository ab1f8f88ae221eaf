/* A directory of its own for each test that works on files, and a way to pretend that the kernel
 * lacks something. */
#ifndef TN_TESTS_UNIT_BASE_SCRATCH_H
#define TN_TESTS_UNIT_BASE_SCRATCH_H

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "base/fs.h"

static char scratch_path[40];
static int scratch = -1;

static inline int scratch_open(void **state)
{
    snprintf(scratch_path, sizeof scratch_path, "/tmp/tn-fs-XXXXXX");
    if (!mkdtemp(scratch_path))
        return -1;
    scratch = open(scratch_path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return scratch < 0 ? -1 : 0;
}

static inline int scratch_close(void **state)
{
    tn_autofd int tmp = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct tn_error err;
    close(scratch);
    if (tn_fs_remove_tree(tmp, scratch_path + strlen("/tmp/"), 0, &err) == 0)
        return 0;
    fprintf(stderr, "%s\n", err.text);
    return -1;
}

static inline void put_file(int dir, const char *path, const char *text)
{
    int fd = openat(dir, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(tn_fs_write(fd, text, strlen(text), NULL), 0);
    close(fd);
}

static inline void assert_file(int dir, const char *path, const char *expected)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(1 << 20);
    int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(tn_fs_read_fd(fd, &text, NULL), 0);
    close(fd);
    assert_string_equal(tn_buf_str(&text), expected);
}

static inline void put_link(const char *target, const char *path)
{
    assert_int_equal(symlinkat(target, scratch, path), 0);
}

static inline void set_mode(const char *path, mode_t mode)
{
    assert_int_equal(fchmodat(scratch, path, mode, 0), 0);
}

static inline void set_owner(const char *path, uid_t uid)
{
    assert_int_equal(fchownat(scratch, path, uid, uid, 0), 0);
}

static inline bool exists(int dir, const char *path)
{
    struct stat st;
    return fstatat(dir, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Makes the system call fail with `sys` from now on, in this process: for all its arguments, or
 * when one of these bits is set in argument 2. */
static inline void forbid(int number, uint32_t bits_of_argument_2, int sys)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits_of_argument_2, 0, bits_of_argument_2 ? 1 : 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)sys),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = TN_COUNT(code), .filter = code};
    assert_int_equal(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    assert_int_equal(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

/* Runs fn in a process of its own; its answer, 0 to 255. */
static inline int in_process(int (*fn)(void))
{
    int status;
    pid_t pid = fork();
    if (pid == 0)
        _exit(fn());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

#endif
