#include "base/child.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/child-plan.h"

#define START_SECONDS 10
#define TICK_MS 5 /* only on kernels without pidfds */

struct tn_child {
    struct child_slot slot; /* its pid is there before it can exit: nothing to race with */
    atomic_int refs;
    int pidfd;
    bool exited;
    struct tn_exit result;
    pthread_cond_t changed;
    tn_child_exit_fn on_exit;
    void *ctx;
    bool started;                  /* the program runs, or did */
    bool calling;                  /* on_exit is running */
    struct tn_child *next, **self; /* in `children` */
};

/* A process that has exited keeps its number until it is reaped, and reaping happens under this
 * lock: whoever holds it and sees !exited may signal the number. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct tn_child *children;
static int reaper_fd = -1;
static pthread_t reaper_thread;

/* --- the handle ---------------------------------------------------------------------------- */

static struct tn_child *of_slot(struct child_slot *slot)
{
    return (struct tn_child *)((char *)slot - offsetof(struct tn_child, slot));
}

static void ref(struct child_slot *slot)
{
    atomic_fetch_add(&of_slot(slot)->refs, 1);
}

static void unlist(struct tn_child *c)
{
    if (!c->self)
        return;
    *c->self = c->next;
    if (c->next)
        c->next->self = c->self;
    c->self = NULL;
}

static void unref(struct child_slot *slot)
{
    struct tn_child *c = of_slot(slot);

    if (atomic_fetch_sub(&c->refs, 1) > 1)
        return;
    pthread_mutex_lock(&lock);
    unlist(c);
    pthread_mutex_unlock(&lock);
    tn_close(c->pidfd);
    pthread_cond_destroy(&c->changed);
    free(c);
}

/* Under the lock: takes the status of the child if it has exited. */
static bool reap(struct tn_child *c)
{
    pid_t pid = atomic_load(&c->slot.pid), got;

    do
        got = wait4(pid, &c->result.status, WNOHANG, &c->result.usage);
    while (got < 0 && errno == EINTR);
    if (got == 0)
        return false;
    if (got < 0) /* somebody else waited for it: it is gone, how is not known */
        c->result = (struct tn_exit){.status = W_EXITCODE(255, 0)};
    c->exited = true;
    unlist(c);
    pthread_cond_broadcast(&c->changed);
    return true;
}

static int send_signal(struct tn_child *c, int signal, bool group, struct tn_error *err)
{
    int result = 0;

    pthread_mutex_lock(&lock);
    pid_t pid = atomic_load(&c->slot.pid);
    if (c->exited || pid <= 0)
        result = tn_fail(err, TN_E_GONE, "process %d has exited", (int)pid);
    else if (kill(group ? -pid : pid, signal) < 0)
        result = tn_fail_errno(err, errno, "signal %d to process %d", signal, (int)pid);
    pthread_mutex_unlock(&lock);
    return result;
}

static void kill_slot(struct child_slot *slot)
{
    send_signal(of_slot(slot), SIGKILL, false, NULL);
}

/* A child that failed to start, or was killed: its end is near and may be waited for, but not with
 * the lock held. */
static void bury_slot(struct child_slot *slot)
{
    struct tn_child *c = of_slot(slot);
    siginfo_t info;

    pthread_mutex_lock(&lock);
    bool ours = reaper_fd < 0 && !c->exited;
    pthread_mutex_unlock(&lock);
    if (!ours)
        return;
    while (waitid(P_PID, (id_t)atomic_load(&slot->pid), &info, WEXITED | WNOWAIT) < 0 &&
           errno == EINTR)
        ;
    pthread_mutex_lock(&lock);
    if (!c->exited)
        reap(c);
    pthread_mutex_unlock(&lock);
}

static struct tn_child *child_new(const struct tn_child_spec *spec)
{
    struct tn_child *c = tn_calloc(1, sizeof *c);
    pthread_condattr_t monotonic;

    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&c->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    c->slot.ref = ref;
    c->slot.unref = unref;
    c->slot.kill = kill_slot;
    c->slot.bury = bury_slot;
    c->pidfd = -1;
    c->on_exit = spec->on_exit; /* heeded once it is started */
    c->ctx = spec->ctx;
    atomic_init(&c->refs, 1);
    return c;
}

static void list(struct tn_child *c)
{
    pthread_mutex_lock(&lock);
    c->next = children;
    if (children)
        children->self = &c->next;
    c->self = &children;
    children = c;
    pthread_mutex_unlock(&lock);
}

static void call_back(struct tn_child *c)
{
    tn_child_exit_fn on_exit = c->on_exit;

    if (!on_exit || !c->started)
        return;
    c->calling = true;
    atomic_fetch_add(&c->refs, 1);
    pthread_mutex_unlock(&lock);
    on_exit(c, &c->result, c->ctx);
    pthread_mutex_lock(&lock);
    c->calling = false;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&lock);
    unref(&c->slot);
    pthread_mutex_lock(&lock);
}

/* --- starting ------------------------------------------------------------------------------ */

static void before_fork(void)
{
    child_spawn_before_fork();
    pthread_mutex_lock(&lock);
}

static void after_fork_in_parent(void)
{
    pthread_mutex_unlock(&lock);
    child_spawn_after_fork(false);
}

static void after_fork_in_child(void)
{
    pthread_mutex_unlock(&lock);
    child_spawn_after_fork(true);
}

static void prepare_for_forks(void)
{
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

struct tn_child *tn_child_start(const struct tn_child_spec *spec, struct tn_error *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, prepare_for_forks);
    struct child_plan *plan = child_plan_new(spec, err);
    if (!plan)
        return NULL;
    struct tn_child *c = child_new(spec);
    list(c);
    int64_t deadline = spec->deadline ? spec->deadline : tn_deadline_in(START_SECONDS);
    if (child_spawn(plan, &c->slot, deadline, err) < 0) {
        tn_child_free(c);
        return NULL;
    }
    pthread_mutex_lock(&lock);
    c->started = true;
    if (c->exited)
        call_back(c);
    else
        c->pidfd = (int)syscall(SYS_pidfd_open, atomic_load(&c->slot.pid), 0);
    pthread_mutex_unlock(&lock);
    return c;
}

void tn_child_free(struct tn_child *c)
{
    if (!c)
        return;
    pthread_mutex_lock(&lock);
    c->on_exit = NULL;
    while (c->calling && !pthread_equal(pthread_self(), reaper_thread))
        pthread_cond_wait(&c->changed, &lock);
    if (reaper_fd < 0 && !c->exited && atomic_load(&c->slot.pid) > 0)
        reap(c);
    pthread_mutex_unlock(&lock);
    unref(&c->slot);
}

pid_t tn_child_pid(const struct tn_child *c)
{
    return atomic_load(&c->slot.pid);
}

int tn_child_pidfd(const struct tn_child *c)
{
    return c->pidfd;
}

int tn_child_signal(struct tn_child *c, int signal, struct tn_error *err)
{
    return send_signal(c, signal, false, err);
}

int tn_child_signal_group(struct tn_child *c, int signal, struct tn_error *err)
{
    return send_signal(c, signal, true, err);
}

int tn_exit_code(const struct tn_exit *result)
{
    return WIFEXITED(result->status) ? WEXITSTATUS(result->status) : 128 + WTERMSIG(result->status);
}

/* --- waiting ------------------------------------------------------------------------------- */

/* These three wait a while and come back with the lock held; false when the deadline has passed. */

static bool wait_for_reaper(struct tn_child *c, int64_t deadline)
{
    if (deadline == TN_NEVER)
        return pthread_cond_wait(&c->changed, &lock) == 0;
    struct timespec until = tn_timespec(deadline);
    return pthread_cond_timedwait(&c->changed, &lock, &until) != ETIMEDOUT;
}

static bool wait_as_reaper(int64_t deadline)
{
    struct pollfd p = {.fd = reaper_fd, .events = POLLIN};

    pthread_mutex_unlock(&lock);
    int ready = poll(&p, 1, tn_poll_ms(deadline));
    tn_reaper_collect();
    pthread_mutex_lock(&lock);
    return ready != 0;
}

static bool wait_alone(struct tn_child *c, int64_t deadline)
{
    struct pollfd p = {.fd = c->pidfd, .events = POLLIN};
    int ms = tn_poll_ms(deadline);
    bool passed = ms == 0;

    if (c->pidfd < 0 && (ms < 0 || ms > TICK_MS))
        ms = TICK_MS;
    pthread_mutex_unlock(&lock);
    poll(&p, 1, ms);
    pthread_mutex_lock(&lock);
    return c->exited || reap(c) || !passed;
}

int tn_child_wait(struct tn_child *c, int64_t deadline, struct tn_exit *out, struct tn_error *err)
{
    int result = 0;

    pthread_mutex_lock(&lock);
    for (bool more = true; !c->exited && more;) {
        if (reaper_fd < 0)
            more = wait_alone(c, deadline);
        else if (pthread_equal(pthread_self(), reaper_thread))
            more = wait_as_reaper(deadline);
        else
            more = wait_for_reaper(c, deadline);
    }
    if (!c->exited)
        result = tn_fail(err, TN_E_TIMEOUT, "process %d has not exited in time",
                         (int)atomic_load(&c->slot.pid));
    else if (out)
        *out = c->result;
    pthread_mutex_unlock(&lock);
    return result;
}

/* --- the reaper ---------------------------------------------------------------------------- */

int tn_reaper_start(bool adopt, struct tn_error *err)
{
    sigset_t set;

    if (adopt && prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
        return tn_fail_errno(err, errno, "become the reaper of orphans");
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0)
        return tn_fail_errno(err, errno, "signalfd");
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    pthread_mutex_lock(&lock);
    reaper_fd = fd;
    reaper_thread = pthread_self();
    pthread_mutex_unlock(&lock);
    return fd;
}

void tn_reaper_stop(void)
{
    sigset_t set;

    pthread_mutex_lock(&lock);
    tn_close(reaper_fd);
    reaper_fd = -1;
    for (struct tn_child *c = children; c; c = c->next)
        pthread_cond_broadcast(&c->changed); /* whoever waits must do so alone now */
    pthread_mutex_unlock(&lock);
    prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0);
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

static struct tn_child *find(pid_t pid)
{
    struct tn_child *c = children;
    while (c && atomic_load(&c->slot.pid) != pid)
        c = c->next;
    return c;
}

void tn_reaper_collect(void)
{
    struct signalfd_siginfo drained[8];
    while (read(reaper_fd, drained, sizeof drained) > 0)
        ;
    for (;;) {
        /* Look before taking: the number must not become free before its owner is found. */
        siginfo_t info = {.si_pid = 0};
        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 && errno == EINTR)
            continue;
        if (info.si_pid == 0)
            return;
        pthread_mutex_lock(&lock);
        struct tn_child *c = find(info.si_pid);
        if (!c)
            wait4(info.si_pid, NULL, WNOHANG, NULL);
        else if (reap(c))
            call_back(c);
        pthread_mutex_unlock(&lock);
    }
}
