/* Starting processes from lasting threads.
 *
 * Why not simply fork in the calling thread:
 * - The kernel sends a death signal when the THREAD that started the child ends.  Ours live as long
 * as the process, so a connection's thread may come and go.
 * - A start can hang (a working directory on a dead network mount).  Then only one of these threads
 *   hangs; the caller hears about it at its deadline.
 * - The calling thread may be acting as another user (account.h); a child must not inherit half of
 * that.
 *
 * And why not fork: copying the page tables of a large server takes milliseconds and makes its
 * other threads fault.  The child borrows our memory instead, and this thread stands still until it
 * has exec'd or failed, as with vfork; it has its own stack and follows the rules of child-exec.c.
 * An emulator may turn that into a fork: `shared` tells, and the pipe works both ways. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include "base/child-plan.h"
#include "base/clock.h"

#define THREADS_MAX 8
#define THREAD_STACK (256 * 1024)

struct request {
    struct child_plan *plan;
    struct child_slot *slot;
    int64_t deadline;
    int result;
    struct tn_error err;
    bool finished, abandoned;
    pthread_cond_t done;
    struct request *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work = PTHREAD_COND_INITIALIZER;
static struct request *first, **last = &first;
static struct child_plan *lost;
static int threads, idle, queued;

static const char *const step_names[STEP_COUNT] = {
    [STEP_ORPHAN] = "leave it to itself",
    [STEP_SESSION] = "make a session or process group",
    [STEP_DESCRIPTORS] = "connect its descriptors",
    [STEP_TERMINAL] = "take the controlling terminal",
    [STEP_MARK] = "mark it",
    [STEP_GROUPS] = "set its groups",
    [STEP_GID] = "set its group",
    [STEP_UID] = "set its user",
    [STEP_CWD] = "enter its directory",
    [STEP_DEATH_SIGNAL] = "tie it to its parent",
    [STEP_EXEC] = "execute it",
};

static int explain(const struct request *r, const struct child_report *report, struct tn_error *err)
{
    const struct child_plan *plan = r->plan;
    int step = report->step >= 0 && report->step < STEP_COUNT ? report->step : STEP_EXEC;
    if (step == STEP_CWD)
        return tn_fail_errno(err, report->sys, "start %s: %s %s", plan->argv[0], step_names[step],
                             plan->cwd);
    return tn_fail_errno(err, report->sys, "start %s: %s", plan->argv[0], step_names[step]);
}

/* What the child said: nothing (exec closed the pipe), or what failed. */
static int hear(struct request *r, int from)
{
    struct child_report report;

    r->plan->lost = r->plan->orphan_stack && !r->plan->shared;
    for (;;) {
        ssize_t n = read(from, &report, sizeof report);
        if (n == 0)
            r->plan->lost = false;
        if (n == (ssize_t)sizeof report)
            return explain(r, &report, &r->err);
        if (n >= 0)
            return 0;
        if (errno == EINTR)
            continue;
        if (errno != EAGAIN && !r->plan->lost) /* a lost orphan writes to our errno */
            return tn_fail_errno(&r->err, errno, "start %s: read its report", r->plan->argv[0]);
        /* With borrowed memory the child is past exec or dead by now; the pipe only looks open
         * because another child, just being born, holds a copy of it. */
        if (r->plan->shared)
            return 0;
        struct pollfd p = {.fd = from, .events = POLLIN};
        if (poll(&p, 1, tn_poll_ms(r->deadline)) == 0)
            return tn_fail(&r->err, TN_E_TIMEOUT, "start %s: it hung on the way", r->plan->argv[0]);
    }
}

static int give_birth(struct request *r)
{
    _Alignas(16) char stack[CHILD_STACK];
    int ends[2];

    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
        return tn_fail_errno(&r->err, errno, "start %s: pipe", r->plan->argv[0]);
    r->plan->report_fd = ends[1];
    pid_t pid = clone(child_run, stack + sizeof stack, CHILD_BORROW | CLONE_PARENT_SETTID | SIGCHLD,
                      r->plan, (pid_t *)&r->slot->pid);
    int sys = errno;
    close(ends[1]);
    int result = pid < 0 ? tn_fail_errno(&r->err, sys, "start %s: clone", r->plan->argv[0])
                         : hear(r, ends[0]);
    if (r->plan->lost)
        r->plan->lost_fd = ends[0];
    else
        close(ends[0]);
    if (pid > 0 && result < 0) {
        r->slot->kill(r->slot);
        r->slot->bury(r->slot);
    }
    return result;
}

/* The plan of a lost orphan is kept until that one has exec'd or is dead. */
static void plan_free(struct child_plan *plan)
{
    struct child_plan **at = &lost, *past;
    char report[sizeof(struct child_report)];

    pthread_mutex_lock(&lock);
    if (plan->lost) {
        plan->next_lost = lost;
        lost = plan;
    } else {
        child_plan_free(plan);
    }
    while ((past = *at)) {
        if (read(past->lost_fd, report, sizeof report) != 0) { /* who reports is still there */
            at = &past->next_lost;
            continue;
        }
        *at = past->next_lost;
        close(past->lost_fd);
        child_plan_free(past);
    }
    pthread_mutex_unlock(&lock);
}

static void request_free(struct request *r)
{
    plan_free(r->plan);
    r->slot->unref(r->slot);
    pthread_cond_destroy(&r->done);
    free(r);
}

static struct request *next_request(void)
{
    while (!first) {
        idle++;
        pthread_cond_wait(&work, &lock);
        idle--;
    }
    struct request *r = first;
    first = r->next;
    if (!first)
        last = &first;
    queued--;
    return r;
}

static void *spawner(void *unused)
{
    pthread_mutex_lock(&lock);
    for (;;) {
        struct request *r = next_request();
        bool wanted = !r->abandoned;
        pthread_mutex_unlock(&lock);
        if (wanted)
            r->result = give_birth(r);
        pthread_mutex_lock(&lock);
        r->finished = true;
        pthread_cond_signal(&r->done);
        if (!r->abandoned)
            continue;
        pthread_mutex_unlock(&lock);
        if (wanted && r->result == 0) {
            r->slot->kill(r->slot);
            r->slot->bury(r->slot);
        }
        request_free(r);
        pthread_mutex_lock(&lock);
    }
    return NULL;
}

static int add_thread(struct tn_error *err)
{
    pthread_attr_t attr;
    pthread_t thread;
    sigset_t all, old;

    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, THREAD_STACK);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int sys = pthread_create(&thread, &attr, spawner, NULL);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    if (sys != 0)
        return tn_fail_errno(err, sys, "start a thread");
    threads++;
    return 0;
}

void child_spawn_before_fork(void)
{
    pthread_mutex_lock(&lock);
}

/* What waits on them is not there either: nobody could wake it. */
void child_spawn_after_fork(bool child)
{
    if (child) {
        work = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
        first = NULL;
        last = &first;
        threads = idle = queued = 0;
    }
    pthread_mutex_unlock(&lock);
}

static struct request *request_new(struct child_plan *plan, struct child_slot *slot,
                                   int64_t deadline)
{
    struct request *r = tn_calloc(1, sizeof *r);
    pthread_condattr_t monotonic;

    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&r->done, &monotonic);
    pthread_condattr_destroy(&monotonic);
    r->plan = plan;
    r->slot = slot;
    r->deadline = deadline;
    slot->ref(slot);
    return r;
}

int child_spawn(struct child_plan *plan, struct child_slot *slot, int64_t deadline,
                struct tn_error *err)
{
    struct timespec until = tn_timespec(deadline);
    struct request *r = request_new(plan, slot, deadline);

    pthread_mutex_lock(&lock);
    if (queued >= idle && threads < THREADS_MAX && add_thread(err) < 0 && threads == 0) {
        pthread_mutex_unlock(&lock);
        request_free(r);
        return -1;
    }
    *last = r;
    last = &r->next;
    queued++;
    pthread_cond_signal(&work);
    while (!r->finished && pthread_cond_timedwait(&r->done, &lock, &until) != ETIMEDOUT)
        ;
    if (!r->finished) {
        tn_fail(err, TN_E_TIMEOUT, "start %s: it did not run in time", plan->argv[0]);
        r->abandoned = true; /* the spawner frees it */
        pthread_mutex_unlock(&lock);
        slot->kill(slot);
        return -1;
    }
    pthread_mutex_unlock(&lock);
    int result = r->result;
    if (result < 0 && err)
        *err = r->err;
    request_free(r);
    return result;
}
