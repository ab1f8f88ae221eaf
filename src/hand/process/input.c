/* What goes to a process: input, the end of it, signals, the size of its terminal. */
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>

#include "hand/process/process-internal.h"

#define END_OF_INPUT "\004" /* on a terminal */

static bool has_exited(struct tn_process *p)
{
    pthread_mutex_lock(&p->lock);
    bool exited = p->exited;
    pthread_mutex_unlock(&p->lock);
    return exited;
}

/* One writes at a time; nobody else closes what it writes to. */
static int take_input(struct tn_process *p, int64_t deadline, struct tn_error *err)
{
    pthread_mutex_lock(&p->lock);
    while (p->writing && process_wait_change(p, deadline))
        ;
    bool mine = !p->writing;
    p->writing = true;
    pthread_mutex_unlock(&p->lock);
    return mine ? 0 : tn_fail(err, TN_E_BUSY, "somebody else is writing to process %s", p->id);
}

static void leave_input(struct tn_process *p, bool end)
{
    pthread_mutex_lock(&p->lock);
    if (end || p->exited)
        tn_close(TN_TAKE_FD(p->input_fd));
    p->writing = false;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

void process_drop_input(struct tn_process *p)
{
    pthread_mutex_lock(&p->lock);
    if (!p->writing)
        tn_close(TN_TAKE_FD(p->input_fd));
    pthread_mutex_unlock(&p->lock);
}

static int gone(struct tn_process *p, struct tn_error *err)
{
    return tn_fail(err, TN_E_GONE,
                   has_exited(p) ? "process %s has ended" : "the input of process %s is closed",
                   p->id);
}

static void count(struct tn_process *p, size_t n)
{
    pthread_mutex_lock(&p->lock);
    p->input += n;
    pthread_mutex_unlock(&p->lock);
}

/* Until all is written or the time is over; -1: nobody reads any more. */
static int write_all(struct tn_process *p, const char *bytes, size_t n, int64_t deadline)
{
    while (n > 0) {
        ssize_t k = write(p->input_fd, bytes, n);
        if (k > 0) {
            count(p, (size_t)k);
            bytes += k;
            n -= (size_t)k;
            continue;
        }
        if (k < 0 && errno == EINTR)
            continue;
        if ((k < 0 && errno != EAGAIN) || has_exited(p))
            return -1;
        int64_t soon = tn_deadline_in(0.5); /* to see that it has ended */
        struct pollfd fd = {.fd = p->input_fd, .events = POLLOUT};
        if (poll(&fd, 1, tn_poll_ms(soon < deadline ? soon : deadline)) == 0 &&
            tn_now() >= deadline)
            return 0;
    }
    return 0;
}

static int feed(struct tn_process *p, const struct process_food *food, int64_t deadline,
                struct tn_error *err)
{
    bool append = food->offset == UINT64_MAX;

    if (!append && food->offset > p->input)
        return tn_fail(err, TN_E_CONFLICT,
                       "process %s has taken %llu bytes of input, and these are to follow %llu",
                       p->id, (unsigned long long)p->input, (unsigned long long)food->offset);
    uint64_t known = append ? 0 : p->input - food->offset;
    if (known >= food->n) /* all of it came before */
        return 0;
    if (p->input_fd < 0 ||
        write_all(p, food->bytes + (size_t)known, food->n - (size_t)known, deadline))
        return gone(p, err);
    return 0;
}

int process_feed(struct tn_process *p, struct process_food *food, int64_t deadline,
                 struct tn_error *err)
{
    if (take_input(p, deadline, err))
        return -1;
    uint64_t from = food->offset == UINT64_MAX ? p->input : food->offset;
    int r = feed(p, food, deadline, err);
    food->taken = p->input;
    food->done = p->input < from ? 0 : p->input - from < food->n ? p->input - from : food->n;
    leave_input(p, false);
    return r;
}

/* On a terminal the program may go on after it, and be given more. */
int process_end_input(struct tn_process *p, int64_t deadline, struct tn_error *err)
{
    if (take_input(p, deadline, err))
        return -1;
    int r =
        p->pty && p->input_fd >= 0 && write_all(p, END_OF_INPUT, 1, deadline) ? gone(p, err) : 0;
    leave_input(p, !p->pty);
    return r;
}

int process_set_size(struct tn_process *p, int columns, int rows, struct tn_error *err)
{
    const struct winsize size = {.ws_col = (unsigned short)columns, .ws_row = (unsigned short)rows};

    if (p->terminal < 0)
        return tn_fail(err, TN_E_CONFLICT, "process %s has no terminal", p->id);
    if (ioctl(p->terminal, TIOCSWINSZ, &size))
        return tn_fail_errno(err, errno, "the size of the terminal");
    return 0;
}

int process_send_signal(struct tn_process *p, int signal, struct tn_error *err)
{
    if (tn_child_signal_group(p->child, signal, err) == 0)
        return 0;
    return has_exited(p) ? gone(p, err) : -1;
}
