/* One process: its thread, its readers, its end. */
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/wait.h>

#include "base/proc.h"
#include "base/thread.h"
#include "hand/process/process-internal.h"

enum { PIECE = 16 << 10 };
/* What others hold open of a process that has ended is waited for so long. */
#define LINGER (1 * TN_SECOND)
/* A reader that takes nothing for so long is not waited for any more. */
#define STALL (10 * TN_SECOND)
/* While it waits for readers its thread looks so often whether they are worth it. */
#define LOOK_SECONDS 0.2

/* --- life ------------------------------------------------------------------------------------- */

struct tn_process *process_ref(struct tn_process *p)
{
    atomic_fetch_add(&p->refs, 1);
    return p;
}

void tn_process_unref(struct tn_process *p)
{
    if (!p || atomic_fetch_sub(&p->refs, 1) > 1)
        return;
    tn_child_free(p->child);
    tn_close(p->input_fd);
    tn_close(p->out_fd);
    tn_close(p->err_fd);
    tn_close(p->terminal);
    tn_close(p->wake);
    process_log_done(&p->out);
    process_log_done(&p->err);
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
    free(p->spec);
    free(p->tag);
    free(p);
}

void process_wake(struct tn_process *p)
{
    eventfd_write(p->wake, 1);
}

/* A shell gives each of its jobs a group of its own: all of them go. */
void process_kill(struct tn_process *p)
{
    if (tn_child_signal_group(p->child, SIGKILL, NULL))
        return;
    tn_proc_kill_tree(p->pid, true, 0, tn_deadline_in(1), NULL);
    tn_proc_kill_session(p->pid, tn_deadline_in(1));
}

size_t process_bytes(struct tn_process *p)
{
    pthread_mutex_lock(&p->lock);
    size_t bytes = sizeof *p + strlen(p->spec) + p->out.cap + p->err.cap;
    pthread_mutex_unlock(&p->lock);
    return bytes;
}

/* --- its thread ------------------------------------------------------------------------------- */

/* Whether what would be dropped from the log is still to be read by somebody who keeps up. */
static bool is_wanted(const struct tn_process *p, const struct process_log *log)
{
    int64_t now = tn_now();

    if (log->end - log->first + PIECE <= log->max)
        return false;
    if (!p->readers)
        return now < p->wait_for_reader;
    for (const struct process_reader *r = p->readers; r; r = r->next) {
        uint64_t at = log == &p->out ? r->out : r->err;
        if (at < log->end + PIECE - log->max && now < r->moved + STALL)
            return true;
    }
    return false;
}

/* The next piece of a stream into its log; -1 at its end. */
static int carry(struct tn_process *p, int fd, struct process_log *log)
{
    char piece[PIECE];
    ssize_t n = read(fd, piece, sizeof piece);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n <= 0)
        return -1; /* EIO: nobody has the terminal open any more */
    pthread_mutex_lock(&p->lock);
    process_log_add(log, piece, (size_t)n);
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    return 0;
}

struct look {
    bool out_full, err_full, exited, removed;
    int64_t until; /* when to look again */
};

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* What is to be waited for now.  True: it is over for good. */
static bool look(struct tn_process *p, struct look *l)
{
    bool closed = p->out_fd < 0 && p->err_fd < 0;

    pthread_mutex_lock(&p->lock);
    *l = (struct look){.out_full = is_wanted(p, &p->out),
                       .err_full = is_wanted(p, &p->err),
                       .exited = p->exited,
                       .removed = p->removed,
                       .until = TN_NEVER};
    if (!p->exited)
        l->until = p->late ? TN_NEVER : p->deadline;
    else if (!p->over)
        l->until = p->ended_at + LINGER;
    if (l->out_full || l->err_full)
        l->until = earlier(l->until, tn_deadline_in(LOOK_SECONDS));
    if (p->exited && !p->over && (closed || tn_now() >= p->ended_at + LINGER)) {
        p->over = true;
        pthread_cond_broadcast(&p->changed);
    }
    pthread_mutex_unlock(&p->lock);
    return l->exited && (closed || l->removed);
}

static void kill_late(struct tn_process *p)
{
    pthread_mutex_lock(&p->lock);
    bool late = !p->exited && !p->late && tn_now() >= p->deadline;
    p->late = p->late || late;
    pthread_mutex_unlock(&p->lock);
    if (late)
        process_kill(p);
}

/* Waits for the next thing and does it. */
static void attend(struct tn_process *p, const struct look *l)
{
    struct pollfd fds[] = {{.fd = p->wake, .events = POLLIN},
                           {.fd = l->out_full ? -1 : p->out_fd, .events = POLLIN},
                           {.fd = l->err_full ? -1 : p->err_fd, .events = POLLIN}};
    eventfd_t count;

    if (poll(fds, TN_COUNT(fds), tn_poll_ms(l->until)) < 0)
        return;
    if (fds[0].revents)
        eventfd_read(p->wake, &count);
    if (fds[1].revents && carry(p, p->out_fd, &p->out))
        tn_close(TN_TAKE_FD(p->out_fd));
    if (fds[2].revents && carry(p, p->err_fd, &p->err))
        tn_close(TN_TAKE_FD(p->err_fd));
    kill_late(p);
}

static void *run(void *arg)
{
    struct tn_process *p = arg;
    struct look l;

    while (!look(p, &l)) {
        if (l.exited)
            process_drop_input(p);
        attend(p, &l);
    }
    process_drop_input(p);
    pthread_mutex_lock(&p->lock);
    p->over = true;
    process_log_shrink(&p->out);
    process_log_shrink(&p->err);
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    tn_process_unref(p);
    return NULL;
}

int process_begin(struct tn_process *p, struct tn_error *err)
{
    pthread_t thread;

    process_ref(p);
    int sys = tn_thread_start(&thread, run, p);
    if (!sys) {
        pthread_detach(thread);
        return 0;
    }
    process_kill(p);
    tn_process_unref(p);
    return tn_fail_errno(err, sys, "a thread for the process");
}

/* --- how it is -------------------------------------------------------------------------------- */

const char *tn_process_id(const struct tn_process *p)
{
    return p->id;
}

int64_t tn_process_pid(const struct tn_process *p)
{
    return p->pid;
}

bool process_has_terminal(const struct tn_process *p)
{
    return p->pty;
}

static void put_log(struct tn_jw *w, const char *name, const struct process_log *log)
{
    tn_jw_key(w, name);
    tn_jw_object(w);
    tn_jw_kint(w, "first", (int64_t)log->first);
    tn_jw_kint(w, "end", (int64_t)log->end);
    tn_jw_object_end(w);
}

static void put_end(struct tn_jw *w, const struct tn_process *p)
{
    bool exited = p->exited && WIFEXITED(p->status), killed = p->exited && WIFSIGNALED(p->status);

    tn_jw_key(w, "exit_code");
    exited ? tn_jw_int(w, WEXITSTATUS(p->status)) : tn_jw_null(w);
    tn_jw_key(w, "signal");
    killed ? tn_jw_int(w, WTERMSIG(p->status)) : tn_jw_null(w);
    tn_jw_kbool(w, "late", p->late);
    tn_jw_kdouble(w, "started", p->started);
    tn_jw_key(w, "ended");
    p->exited ? tn_jw_double(w, p->ended) : tn_jw_null(w);
}

void process_put(struct tn_process *p, struct tn_jw *w)
{
    pthread_mutex_lock(&p->lock);
    tn_jw_object(w);
    tn_jw_kstr(w, "id", p->id);
    tn_jw_kint(w, "pid", p->pid);
    tn_jw_kbool(w, "running", !p->exited);
    tn_jw_kbool(w, "over", p->over);
    put_end(w, p);
    put_log(w, "stdout", &p->out);
    put_log(w, "stderr", &p->err);
    tn_jw_kint(w, "input", (int64_t)p->input);
    tn_jw_kbool(w, "input_open", p->input_fd >= 0 && !p->exited);
    tn_jw_key(w, "process");
    tn_jw_raw(w, p->spec, strlen(p->spec));
    tn_jw_object_end(w);
    pthread_mutex_unlock(&p->lock);
}

bool process_wait_change(struct tn_process *p, int64_t deadline)
{
    struct timespec until = tn_timespec(deadline);

    if (deadline == TN_NEVER)
        return pthread_cond_wait(&p->changed, &p->lock) == 0;
    return pthread_cond_timedwait(&p->changed, &p->lock, &until) != ETIMEDOUT;
}

bool process_await(struct tn_process *p, int64_t deadline)
{
    pthread_mutex_lock(&p->lock);
    while (!p->exited && process_wait_change(p, deadline))
        ;
    bool exited = p->exited;
    pthread_mutex_unlock(&p->lock);
    return exited;
}

/* --- readers ---------------------------------------------------------------------------------- */

void process_attach(struct tn_process *p, struct process_reader *r)
{
    pthread_mutex_lock(&p->lock);
    r->out = r->out == UINT64_MAX ? p->out.end : r->out;
    r->err = r->err == UINT64_MAX ? p->err.end : r->err;
    r->moved = tn_now();
    r->next = p->readers;
    p->readers = r;
    p->wait_for_reader = 0;
    pthread_mutex_unlock(&p->lock);
}

void process_detach(struct tn_process *p, struct process_reader *r)
{
    pthread_mutex_lock(&p->lock);
    for (struct process_reader **at = &p->readers; *at; at = &(*at)->next)
        if (*at == r) {
            *at = r->next;
            break;
        }
    pthread_mutex_unlock(&p->lock);
    process_wake(p); /* it may have waited for this one */
}

/* The log that has something for it; they take turns. */
static bool choose(const struct tn_process *p, struct process_reader *r, bool *is_err)
{
    bool out = r->out < p->out.end, err = r->err < p->err.end;

    *is_err = err && (!out || r->err_next);
    r->err_next = !*is_err;
    return out || err;
}

enum process_news process_next(struct tn_process *p, struct process_reader *r, char *to, size_t *n,
                               uint64_t *offset, int64_t deadline)
{
    enum process_news news = NEWS_NONE;
    bool is_err, over = false;

    pthread_mutex_lock(&p->lock);
    bool more = choose(p, r, &is_err);
    while (!more && !(over = p->over) && process_wait_change(p, deadline))
        more = choose(p, r, &is_err);
    if (more) {
        uint64_t *at = is_err ? &r->err : &r->out;
        *n = process_log_read(is_err ? &p->err : &p->out, at, to, *n);
        *offset = *at;
        *at += *n;
        r->moved = tn_now();
        news = is_err ? NEWS_ERR : NEWS_OUT;
    } else if (over) {
        news = NEWS_OVER;
    }
    bool was_full = p->out.end - p->out.first + PIECE > p->out.max ||
                    p->err.end - p->err.first + PIECE > p->err.max;
    pthread_mutex_unlock(&p->lock);
    if (more && was_full)
        process_wake(p);
    return news;
}
