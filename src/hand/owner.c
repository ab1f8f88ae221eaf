#include "hand/owner.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/syscall.h>

#include "base/log.h"
#include "base/proc.h"
#include "base/thread.h"

#define LOCK "lock:"

/* --- a process ------------------------------------------------------------------------------ */

/* One whose number another one has by now is gone. */
static int watch_process(const char *text, struct tn_error *err)
{
    char *end;
    long pid = strtol(text, &end, 10);
    uint64_t start = *end == ':' ? strtoull(end + 1, &end, 10) : 0;
    struct tn_proc found;

    if (*end || pid <= 0 || pid > INT_MAX)
        return tn_fail(err, TN_E_INVALID, "expected PID, PID:START or lock:FILE");
    tn_autofd int fd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
    if (fd < 0 && errno != ESRCH)
        return tn_fail_errno(err, errno, "process");
    if (fd < 0 || tn_proc_get((pid_t)pid, &found) < 0 || (start && found.start != start))
        return tn_fail(err, TN_E_GONE, "there is no such process any more");
    return TN_TAKE_FD(fd);
}

/* --- a lock --------------------------------------------------------------------------------- */

/* Lives as long as the process: the thread may wait that long. */
static struct {
    int file, event;
} lock;

static void *wait_for_lock(void *arg)
{
    const uint64_t one = 1;

    while (flock(lock.file, LOCK_SH) < 0) {
        if (errno != EINTR) {
            tn_log(TN_LOG_WARN, "cannot wait for the end of the owner",
                   tn_log_str("reason", tn_strerror(errno)));
            return NULL;
        }
    }
    if (write(lock.event, &one, sizeof one) < 0)
        tn_log(TN_LOG_WARN, "the end of the owner could not be told");
    return NULL;
}

static int watch_lock(const char *path, struct tn_error *err)
{
    pthread_t thread;

    tn_autofd int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return tn_fail_errno(err, errno, "%s", path);
    if (flock(file, LOCK_SH | LOCK_NB) == 0)
        return tn_fail(err, TN_E_GONE, "nobody holds a lock on %s any more", path);
    tn_autofd int event = eventfd(0, EFD_CLOEXEC);
    if (event < 0)
        return tn_fail_errno(err, errno, "eventfd");
    lock.file = file;
    lock.event = event;
    int sys = tn_thread_start(&thread, wait_for_lock, NULL);
    if (sys)
        return tn_fail_errno(err, sys, "start a thread");
    pthread_detach(thread);
    TN_TAKE_FD(file);
    return TN_TAKE_FD(event);
}

int tn_watch_owner(const char *who, struct tn_error *err)
{
    int fd = strncmp(who, LOCK, strlen(LOCK)) == 0 ? watch_lock(who + strlen(LOCK), err)
                                                   : watch_process(who, err);

    return fd < 0 ? tn_error_context(err, "--exit-with %s", who) : fd;
}
