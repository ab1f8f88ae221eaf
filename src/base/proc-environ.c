/* The environment of another process. */
#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>

#include "base/fs.h"
#include "base/proc.h"

/* In the middle of an exec a process has no environment: its new memory is there, but what belongs
 * into it is not.  That lasts for as long as the kernel reads the program. */
#define EXEC_SECONDS 1.0
#define LOOK_MS 1

/* Bits of the field "flags" of /proc/PID/stat, as the kernel has them. */
enum { EXITING = 0x4, KERNEL_THREAD = 0x200000 };
/* Where fields stand, counted from the one after the name. */
enum { FLAGS_AT = 6, ENV_END_AT = 48 };

/* Whether an empty environment is all that this process will ever show: it is none that could have
 * one, or it has one, which is empty. */
static bool stays_empty(pid_t pid)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(4096);
    unsigned long long flags, end;
    char path[40];

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    tn_autofd int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || tn_fs_read_fd(fd, &text, NULL) < 0)
        return true;
    const char *at = strrchr(tn_buf_str(&text), ')');
    if (!at || tn_proc_numbers(at + 1, FLAGS_AT, &flags, 1) < 0 ||
        tn_proc_numbers(at + 1, ENV_END_AT, &end, 1) < 0)
        return true;
    return flags & (EXITING | KERNEL_THREAD) || end != 0;
}

static int read_once(pid_t pid, struct tn_buf *out)
{
    char path[40];

    snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    tn_autofd int fd = open(path, O_RDONLY | O_CLOEXEC);
    tn_buf_reset(out);
    return fd < 0 ? -1 : tn_fs_read_fd(fd, out, NULL);
}

/* The descriptor stands for the memory that the process had when it was opened.  If it exchanged
 * that meanwhile nothing is read, and the new one is complete by the time that stat is looked at:
 * hence one more look after it says so. */
int tn_proc_environ(pid_t pid, struct tn_buf *out)
{
    int64_t deadline = tn_deadline_in(EXEC_SECONDS);
    tn_autofd int end = -1;

    for (;;) {
        if (read_once(pid, out) < 0)
            return -1;
        if (out->len > 0)
            return 0;
        if (stays_empty(pid))
            return read_once(pid, out);
        if (tn_now() >= deadline)
            return -1;
        /* Nothing tells that an exec is over, only that a process is. */
        if (end < 0)
            end = (int)syscall(SYS_pidfd_open, pid, 0);
        struct pollfd one = {.fd = end, .events = POLLIN};
        poll(&one, 1, LOOK_MS);
    }
}
