#include "base/file-lock.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/inotify.h>

#include "base/clock.h"
#include "base/thread.h"

/* Most locks are held for microseconds: look again so often before a thread is worth it. */
#define ATTEMPTS 20
#define LOOK_MS 100

/* A thread waits for the lock on a description of its own, so that it can be left behind: it then
 * gives the lock back when it gets it. */
struct waiter {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int fd;
    int result; /* errno value, 0 for locked, -1 while it waits */
    bool abandoned;
};

/* Closing is not enough: a child that was forked meanwhile has the descriptor, too. */
static void unlock_and_close(int fd)
{
    if (fd >= 0)
        flock(fd, LOCK_UN);
    tn_close(fd);
}

static void free_waiter(struct waiter *w)
{
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    unlock_and_close(w->fd);
    free(w);
}

static void *wait_for_lock(void *arg)
{
    struct waiter *w = arg;
    int result;

    do
        result = flock(w->fd, LOCK_EX) ? errno : 0;
    while (result == EINTR);
    pthread_mutex_lock(&w->lock);
    bool abandoned = w->abandoned;
    w->result = result;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
    if (abandoned)
        free_waiter(w);
    return NULL;
}

/* The result at the deadline: an errno value, 0, or -1 when it is still waiting and now alone. */
static int join_until(struct waiter *w, pthread_t thread, int64_t deadline)
{
    struct timespec until = tn_timespec(deadline);
    int late = 0;

    pthread_mutex_lock(&w->lock);
    while (w->result < 0 && !late)
        late = deadline == TN_NEVER ? pthread_cond_wait(&w->changed, &w->lock)
                                    : pthread_cond_timedwait(&w->changed, &w->lock, &until);
    int result = w->result;
    w->abandoned = result < 0;
    pthread_mutex_unlock(&w->lock);
    if (result < 0)
        pthread_detach(thread);
    else
        pthread_join(thread, NULL);
    return result;
}

static struct waiter *new_waiter(int fd, struct tn_error *err)
{
    struct waiter *w = tn_calloc(1, sizeof *w);
    char path[48];

    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    w->result = -1;
    pthread_mutex_init(&w->lock, NULL);
    tn_cond_init(&w->changed);
    w->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (w->fd >= 0)
        return w;
    tn_fail_errno(err, errno, "cannot open %s to lock it", path);
    free_waiter(w);
    return NULL;
}

static int lock_slowly(int fd, int64_t deadline, struct tn_error *err)
{
    struct waiter *w = new_waiter(fd, err);
    pthread_t thread;
    int held = -1;

    if (!w)
        return -1;
    int result = tn_thread_start(&thread, wait_for_lock, w);
    if (result == 0)
        result = join_until(w, thread, deadline);
    if (result < 0) /* the thread frees it */
        return tn_fail(err, TN_E_TIMEOUT, "another process holds the lock");
    if (result == 0)
        held = TN_TAKE_FD(w->fd);
    else
        tn_fail_errno(err, result, "lock");
    free_waiter(w);
    return held;
}

int tn_file_lock(int fd, int64_t deadline, struct tn_error *err)
{
    for (int i = 0; i < ATTEMPTS; i++) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0)
            return fd;
        if (errno != EWOULDBLOCK && errno != EINTR)
            return tn_fail_errno(err, errno, "lock");
        sched_yield();
    }
    return lock_slowly(fd, deadline, err);
}

void tn_file_unlock(int fd, int held)
{
    if (held == fd)
        flock(fd, LOCK_UN);
    else
        unlock_and_close(held);
}

/* --- one byte ------------------------------------------------------------------------------ */

static int try_kind(int fd, uint64_t byte, short kind)
{
    struct flock range = {.l_type = kind, .l_whence = SEEK_SET, .l_start = (off_t)byte, .l_len = 1};

    return fcntl(fd, F_OFD_SETLK, &range);
}

static int try_byte(int fd, uint64_t byte)
{
    return try_kind(fd, byte, F_WRLCK);
}

int tn_byte_share(int fd, uint64_t byte, struct tn_error *err)
{
    if (try_kind(fd, byte, F_RDLCK) == 0)
        return 0;
    return errno == EAGAIN || errno == EACCES
               ? tn_fail(err, TN_E_BUSY, "somebody else holds the lock")
               : tn_fail_errno(err, errno, "lock");
}

/* Whoever closes the file may have held another byte: then there is another look.  The kernel tells
 * of a close before it drops the lock: who was too quick to look, or began to listen in between,
 * hears nothing more, and looks again after a while. */
static int wait_for_byte(int fd, uint64_t byte, int64_t deadline, struct tn_error *err)
{
    tn_autofd int events = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    struct pollfd p = {.fd = events, .events = POLLIN};
    char path[32], drain[4096];

    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (events < 0 || inotify_add_watch(events, path, IN_CLOSE_WRITE) < 0)
        return tn_fail_errno(err, errno, "cannot wait for a lock");
    while (try_byte(fd, byte)) {
        if (errno != EAGAIN && errno != EACCES && errno != EINTR)
            return tn_fail_errno(err, errno, "lock");
        int64_t again = tn_now() + LOOK_MS * TN_MILLI;
        if (poll(&p, 1, tn_poll_ms(again < deadline ? again : deadline)) == 0 &&
            tn_now() >= deadline)
            return tn_fail(err, TN_E_BUSY, "somebody else holds the lock");
        while (read(events, drain, sizeof drain) > 0)
            ;
    }
    return 0;
}

int tn_byte_lock(int fd, uint64_t byte, int64_t deadline, struct tn_error *err)
{
    return try_byte(fd, byte) ? wait_for_byte(fd, byte, deadline, err) : 0;
}

bool tn_byte_is_locked(int fd, uint64_t byte)
{
    struct flock range = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)byte, .l_len = 1};

    return fcntl(fd, F_OFD_GETLK, &range) == 0 && range.l_type != F_UNLCK;
}
