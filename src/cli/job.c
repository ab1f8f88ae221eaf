#include "cli/job.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>

#include "cli/progress.h"

struct worker {
    const struct job *job;
    int done; /* eventfd */
    int status;
    struct tn_error err;
};

static void *work(void *arg)
{
    struct worker *w = arg;

    w->status = w->job->work(w->job->ctx, &w->err);
    eventfd_write(w->done, 1);
    return NULL;
}

static sigset_t ending_signals(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    return set;
}

void die_by(int number)
{
    sigset_t set = ending_signals();

    signal(number, SIG_DFL);
    raise(number);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    _exit(128 + number);
}

/* Until the work is done (0) or a signal asks us to end (its number). */
static int wait_for(const struct worker *w, int signals)
{
    struct pollfd p[] = {{.fd = w->done, .events = POLLIN}, {.fd = signals, .events = POLLIN}};
    const struct job *job = w->job;
    struct signalfd_siginfo info;
    int counts[NSIG] = {0};

    for (;;) {
        if (poll(p, TN_COUNT(p), -1) < 0)
            continue;
        if (p[0].revents)
            return 0;
        if (read(signals, &info, sizeof info) != sizeof info)
            continue;
        int number = (int)info.ssi_signo;
        if (!job->signalled || !job->signalled(job->ctx, number, ++counts[number]))
            return number;
    }
}

static int run(struct worker *w, int signals, struct tn_error *err)
{
    pthread_t thread;
    int failed = pthread_create(&thread, NULL, work, w);

    if (failed)
        return tn_fail_errno(err, failed, "cannot start a thread");
    int number = wait_for(w, signals);
    if (number) {
        progress_end();
        if (w->job->abandon)
            w->job->abandon(w->job->ctx);
        die_by(number);
    }
    pthread_join(thread, NULL);
    if (w->status < 0 && err)
        *err = w->err;
    return w->status;
}

int job_run(const struct job *job, struct tn_error *err)
{
    struct worker w = {.job = job, .done = eventfd(0, EFD_CLOEXEC)};
    sigset_t set = ending_signals(), before;
    int status = -1;

    /* From here on they are read from a descriptor. */
    pthread_sigmask(SIG_BLOCK, &set, &before);
    tn_autofd int signals = signalfd(-1, &set, SFD_CLOEXEC);
    if (w.done < 0 || signals < 0)
        tn_fail_errno(err, errno, "cannot listen for signals");
    else
        status = run(&w, signals, err);
    tn_close(w.done);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status;
}
